//! Plans from the published configs alone.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_pass_by_value,
    reason = "a test stops where something is not as it should be, and its numbers are small"
)]

use std::path::PathBuf;

use qwen35_model::ModelConfig;
use qwen35_quantize::budget::fit;
use qwen35_quantize::plan::SourceTypes;
use qwen35_quantize::{Override, Plan, PlanError, Precision, Preset};

/// Bytes of the public package.
const CARD: u64 = 9_629_982_308;

fn published(size: &str) -> ModelConfig {
    let path = format!("../../testdata/qwen35/configs/qwen3.5-{size}.json");
    ModelConfig::parse(
        &std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap(),
    )
    .unwrap()
}

fn plan(size: &str, preset: Preset, overrides: &[&str]) -> Plan {
    let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
    Plan::new(&published(size), &SourceTypes::new(), preset, &overrides).unwrap()
}

#[test]
fn the_9b_has_475_target_tensors_and_15_of_the_mtp_head() {
    let plan = plan("9B", Preset::Mixed, &[]);
    assert_eq!((plan.tensors.len(), plan.mtp.len()), (475, 15));
    // 15 tensors of bf16, and a header.
    assert!(
        plan.mtp_bytes > 486_581_248 && plan.mtp_bytes < 486_581_248 + 4096,
        "{}",
        plan.mtp_bytes
    );
    let of = |name: &str| plan.tensors.iter().find(|t| t.name == name).unwrap();
    let gate = of("layers.0.mlp.gate_proj.weight");
    assert_eq!(
        (gate.precision, &gate.shape[..]),
        (Precision::Bfp4, &[4096, 12288][..])
    );
    // 128 x 384 tiles of 576 bytes.
    assert_eq!(
        gate.file_bytes / 64,
        (128 * 384 * 576 + gate.file_bytes % (128 * 384 * 576)) / 64
    );
    let value = of("layers.0.linear_attn.in_proj_v.weight");
    assert_eq!(
        (value.source.first, value.source.rows, value.precision),
        (4096, 4096, Precision::Bfp8)
    );
    assert_eq!(of("layers.0.linear_attn.A_log").precision, Precision::F32);
    assert_eq!(of("embed_tokens.weight").precision, Precision::Bf16);
}

#[test]
fn a_budget_is_used_to_within_a_thousandth_and_never_exceeded() {
    let config = published("9B");
    let mut card = Plan::new(&config, &SourceTypes::new(), Preset::Mixed, &[]).unwrap();
    fit(&mut card, CARD, None).unwrap();
    let bytes = card.package_bytes();
    println!("9B under {CARD}: {bytes} bytes, {} short", CARD - bytes);
    assert!((CARD - CARD / 1000..=CARD).contains(&bytes), "{bytes}");
    let smallest = plan("9B", Preset::Bfp4, &[]).package_bytes();
    for budget in (smallest..11_000_000_000).step_by(97_000_000) {
        fit(&mut card, budget, None).unwrap();
        let bytes = card.package_bytes();
        assert!(bytes <= budget, "{budget}: {bytes}");
    }
    let refused = fit(&mut card, 1_000_000, None).unwrap_err();
    assert!(
        matches!(
            refused,
            PlanError::Budget {
                budget: 1_000_000,
                ..
            }
        ),
        "{refused}"
    );
}

#[test]
fn an_override_wins_over_preset_and_budget() {
    let config = published("0.8B");
    let overrides: Vec<Override> = vec![
        r"mlp\.up_proj=bf16".parse().unwrap(),
        r"layers\.0\.mlp\.up=bfp8".parse().unwrap(),
    ];
    let mut plan = Plan::new(&config, &SourceTypes::new(), Preset::Bfp4, &overrides).unwrap();
    let precision = |plan: &Plan, name: &str| {
        plan.tensors
            .iter()
            .find(|t| t.name == name)
            .unwrap()
            .precision
    };
    let budget = plan.package_bytes();
    for _ in 0..2 {
        assert_eq!(
            precision(&plan, "layers.0.mlp.up_proj.weight"),
            Precision::Bfp8
        );
        assert_eq!(
            precision(&plan, "layers.1.mlp.up_proj.weight"),
            Precision::Bf16
        );
        fit(&mut plan, budget, None).unwrap();
    }
    assert_eq!(
        precision(&plan, "layers.1.mlp.gate_proj.weight"),
        Precision::Bfp4
    );
}

#[test]
fn a_tied_models_head_is_a_tensor_of_its_own() {
    let plan = plan("0.8B", Preset::Mixed, &[]);
    let head = plan
        .tensors
        .iter()
        .find(|t| t.name == "lm_head.weight")
        .unwrap();
    assert_eq!(head.source.name, "embed_tokens.weight");
    assert_eq!(head.shape, [1024, 248_320]);
    assert!(head.why.contains("tied"), "{}", head.why);
}
