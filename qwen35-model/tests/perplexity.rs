//! Perplexity of the trained model's held-out texts: non-overlapping windows of 512 tokens, every token but
//! the first of each window scored, 101,903 in all. transformers has 22.8406 in float32.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_pass_by_value,
    reason = "a test stops where something is not as it should be, and its numbers are small"
)]

mod common;

use std::collections::BTreeMap;

use common::{demo_package, load, testdata};
use mtp_spec::{TokenId, TokenLogprobs};
use qwen35_model::Model;
use qwen35_model::package::{CpuOptions, load_model};
use qwen35_model::text::Tokenizer;
use qwen35_model::trunk::Workspace;
use tt_device::{Contract, Cpu};

const WINDOW: usize = 512;
const SETS: [&str; 6] = ["austen", "kjv", "moby", "jargon", "devil", "chat"];
const REFERENCE: f64 = 22.840_578_25;

#[derive(serde::Deserialize)]
struct FirstWindow {
    ids: Vec<u32>,
    nll: Vec<f32>,
}

fn windows() -> Vec<(&'static str, Vec<u32>)> {
    let tokenizer = Tokenizer::open(testdata("qwen35/tiny")).unwrap();
    let mut all = Vec::new();
    for set in SETS {
        let text =
            std::fs::read_to_string(testdata(&format!("qwen35/tiny/eval/{set}.txt"))).unwrap();
        let ids = tokenizer.encode_with_controls(&text).unwrap();
        all.extend(
            ids.chunks(WINDOW)
                .map(|w| (set, w.iter().map(|t| t.0).collect())),
        );
    }
    all
}

/// Sum of negative log-probabilities, and how many.
fn nll(
    model: &Model<Cpu>,
    work: &mut Workspace<Cpu>,
    windows: &[(&str, Vec<u32>)],
) -> (f64, usize) {
    let mut sequence = model.sequence(WINDOW, 2).unwrap();
    let (mut sum, mut count) = (0.0, 0);
    for (_, window) in windows {
        model
            .score(work, &mut sequence, window, &mut |_, logits, next| {
                sum -= f64::from(
                    TokenLogprobs::of_row(logits, TokenId(next), 0)
                        .unwrap()
                        .logprob,
                );
                count += 1;
            })
            .unwrap();
    }
    (sum, count)
}

#[test]
fn each_texts_first_window_has_the_reference_log_probabilities() {
    let text = std::fs::read(testdata("qwen35/tiny/eval/first_windows.json")).unwrap();
    let reference: BTreeMap<String, FirstWindow> = serde_json::from_slice(&text).unwrap();
    let windows = windows();
    let (model, mut work) = load("tiny", Contract::HostF32);
    let mut sequence = model.sequence(WINDOW, 2).unwrap();
    for set in SETS {
        let (_, window) = windows.iter().find(|(name, _)| *name == set).unwrap();
        assert_eq!(
            *window, reference[set].ids,
            "{set}: the tokenizer gives the reference's ids"
        );
        model
            .score(&mut work, &mut sequence, window, &mut |i, logits, next| {
                let nll = -TokenLogprobs::of_row(logits, TokenId(next), 0)
                    .unwrap()
                    .logprob;
                assert!(
                    (nll - reference[set].nll[i]).abs() < 1e-3,
                    "{set} {i}: {nll} {}",
                    reference[set].nll[i]
                );
            })
            .unwrap();
    }
}

#[test]
fn perplexity_of_the_original_weights_is_that_of_transformers() {
    let windows = windows();
    for (contract, bound) in [(Contract::HostF32, 0.001), (Contract::Host1, 0.01)] {
        let (model, mut work) = load("tiny", contract);
        let (sum, count) = nll(&model, &mut work, &windows);
        let perplexity = (sum / count as f64).exp();
        println!(
            "{contract}: perplexity {perplexity:.4} over {count} tokens (transformers float32: {REFERENCE:.4})"
        );
        assert_eq!(count, 101_903);
        assert!(
            (perplexity / REFERENCE - 1.0).abs() < bound,
            "{contract}: {perplexity}"
        );
    }
}

/// What the mixed BFP4/BFP8 package loses against the weights it was made from; `docs/numerics.md` quotes it.
#[test]
fn the_demo_package_stays_near_the_original_weights() {
    let model = load_model(&demo_package(), CpuOptions::default()).unwrap();
    let mut work = Workspace::new(&model, WINDOW).unwrap();
    let (sum, count) = nll(&model, &mut work, &windows());
    let perplexity = (sum / count as f64).exp();
    println!(
        "demo package under host/1: perplexity {perplexity:.4} over {count} tokens (original {REFERENCE:.4})"
    );
    assert_eq!(count, 101_903);
    assert!(
        perplexity > REFERENCE * 0.99 && perplexity < REFERENCE * 1.05,
        "{perplexity}"
    );
}
