//! Configs of the published sizes, and the tensors they imply.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_pass_by_value,
    reason = "a test stops where something is not as it should be, and its numbers are small"
)]

mod common;

use std::collections::BTreeMap;

use common::testdata;
use qwen35_model::{LayerKind, ModelConfig, ModelError, names, tensors};

fn published(size: &str) -> ModelConfig {
    ModelConfig::parse(
        &std::fs::read(testdata(&format!("qwen35/configs/qwen3.5-{size}.json"))).unwrap(),
    )
    .unwrap()
}

#[test]
fn every_published_size_has_the_counts_of_its_checkpoint() {
    let sizes = [
        ("0.8B", 320, 752_393_024, 20_452_864),
        ("2B", 320, 1_881_825_088, 60_828_160),
        ("4B", 426, 4_205_751_296, 120_599_552),
        ("9B", 427, 8_953_803_264, 243_290_624),
        ("27B", 851, 26_895_998_464usize, 424_699_392),
    ];
    for (size, count, parameters, mtp_parameters) in sizes {
        let config = published(size);
        let trunk = tensors::trunk_tensors(&config);
        let mtp = tensors::mtp_tensors(&config);
        let total = |all: &[tensors::TensorSpec]| {
            all.iter()
                .map(|t| t.shape.iter().product::<usize>())
                .sum::<usize>()
        };
        assert_eq!((trunk.len(), total(&trunk)), (count, parameters), "{size}");
        assert_eq!((mtp.len(), total(&mtp)), (15, mtp_parameters), "{size}");
        let attends = config
            .layers
            .iter()
            .filter(|kind| **kind == LayerKind::Attention)
            .count();
        assert_eq!(attends * 4, config.layers.len(), "{size}");
    }
}

#[test]
fn the_9b_checkpoints_names_and_shapes_are_all_covered() {
    let text = std::fs::read(testdata("qwen35/TENSORS-9B.json")).unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let listed: Vec<(String, String, Vec<usize>)> =
        serde_json::from_value(listed["tensors"].clone()).unwrap();
    let config = published("9B");
    let mut ours: BTreeMap<String, Vec<usize>> = tensors::trunk_tensors(&config)
        .into_iter()
        .chain(tensors::mtp_tensors(&config))
        .map(|t| (t.name, t.shape))
        .collect();
    for (official, _, shape) in listed {
        let name = names::canonical(&official).unwrap();
        assert_eq!(ours.remove(name).as_ref(), Some(&shape), "{official}");
    }
    assert!(ours.is_empty(), "not in the checkpoint: {:?}", ours.keys());
}

#[test]
fn flat_configs_are_read_like_nested_ones() {
    let nested = std::fs::read(testdata("qwen35/tiny/config.json")).unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&nested).unwrap();
    let mut flat = value["text_config"].take();
    flat["some_future_key"] = serde_json::json!({"x": [1, 2]});
    let flat = serde_json::to_vec(&flat).unwrap();
    assert_eq!(
        ModelConfig::parse(&flat).unwrap(),
        ModelConfig::parse(&nested).unwrap()
    );
}

#[test]
fn a_missing_layer_list_means_every_fourth_layer_attends() {
    let nested = std::fs::read(testdata("qwen35/tiny/config.json")).unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&nested).unwrap();
    value["text_config"]
        .as_object_mut()
        .unwrap()
        .remove("layer_types");
    let config = ModelConfig::parse(&serde_json::to_vec(&value).unwrap()).unwrap();
    assert_eq!(
        config.layers,
        [
            LayerKind::Delta,
            LayerKind::Delta,
            LayerKind::Delta,
            LayerKind::Attention
        ]
    );
}

#[test]
fn a_value_that_the_model_cannot_have_is_named() {
    let tiny = std::fs::read(testdata("qwen35/tiny/config.json")).unwrap();
    let refused = |field: &str, value: serde_json::Value| {
        let mut config: serde_json::Value = serde_json::from_slice(&tiny).unwrap();
        config["text_config"][field] = value;
        match ModelConfig::parse(&serde_json::to_vec(&config).unwrap()) {
            Err(ModelError::Config { field, .. }) => field.to_owned(),
            Err(ModelError::ConfigSyntax(error)) => error.to_string(),
            other => panic!("{field}: {other:?}"),
        }
    };
    assert_eq!(refused("hidden_size", 0.into()), "hidden_size");
    assert_eq!(refused("hidden_size", (1u64 << 62).into()), "hidden_size");
    assert_eq!(
        refused("num_key_value_heads", 3.into()),
        "num_key_value_heads"
    );
    assert_eq!(
        refused("linear_num_key_heads", 3.into()),
        "linear_num_key_heads"
    );
    assert_eq!(
        refused("linear_conv_kernel_dim", 8.into()),
        "linear_conv_kernel_dim"
    );
    assert_eq!(refused("hidden_act", "gelu".into()), "hidden_act");
    assert_eq!(refused("model_type", "llama".into()), "model_type");
    assert_eq!(
        refused("layer_types", serde_json::json!(["full_attention"])),
        "layer_types"
    );
    assert_eq!(refused("rms_norm_eps", (-1.0).into()), "rms_norm_eps");
    assert!(refused("vocab_size", "many".into()).contains("invalid type"));
    assert!(matches!(
        ModelConfig::parse(b"{"),
        Err(ModelError::ConfigSyntax(_))
    ));
}
