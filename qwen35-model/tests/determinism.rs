//! Contract `host/1`: the same bits on every instruction set, thread count and chunking.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_pass_by_value,
    reason = "a test stops where something is not as it should be, and its numbers are small"
)]

mod common;

use common::{argmax, demo_package, first_window};
use qwen35_model::package::{CpuOptions, load_model};
use qwen35_model::trunk::{LogitsWanted, Workspace};
use qwen35_model::{EngineOptions, SessionOptions};
use sha2::{Digest as _, Sha256};
use tt_device::Isa;

const PROMPT: usize = 300;
const DECODE: usize = 64;

/// SHA-256 of every logits row: each prompt position, then each of the tokens decoded greedily.
fn logits_digest(isa: Isa, threads: usize, chunk: usize) -> String {
    let session = SessionOptions {
        context: 512,
        ..SessionOptions::default()
    };
    let engine = EngineOptions {
        session,
        ..EngineOptions::default()
    };
    let options = CpuOptions {
        isa: Some(isa),
        threads: Some(threads),
        engine,
        ..CpuOptions::default()
    };
    let model = load_model(&demo_package(), options).unwrap();
    assert_eq!(
        model.device().isa(),
        isa,
        "the self-test agreed with the kernels"
    );
    let mut work = Workspace::new(&model, chunk).unwrap();
    let mut sequence = model.sequence(512, 2).unwrap();
    let (mut hash, mut logits) = (Sha256::new(), Vec::new());
    let vocab = model.config().vocab;
    for tokens in first_window("austen")[..PROMPT].chunks(chunk) {
        logits.clear();
        model
            .prefill(
                &mut work,
                &mut sequence,
                tokens,
                LogitsWanted::All,
                &mut logits,
            )
            .unwrap();
        hash.update(little_endian(&logits));
    }
    for _ in 0..DECODE {
        let next = argmax(&logits[logits.len() - vocab..]) as u32;
        logits.clear();
        model
            .verify(&mut work, &mut sequence, &[next], &mut logits)
            .unwrap();
        model.keep(&mut sequence, 1).unwrap();
        hash.update(little_endian(&logits));
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn little_endian(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

#[test]
fn logits_are_the_same_bits_on_every_isa_thread_count_and_chunking() {
    let mut digests = Vec::new();
    for isa in Isa::present() {
        for threads in [1, 2] {
            for chunk in [1, 7, 64, 300] {
                let digest = logits_digest(isa, threads, chunk);
                println!("{isa:>10}  {threads} threads  chunks of {chunk:>3}  {digest}");
                digests.push(digest);
            }
        }
    }
    assert!(
        digests.iter().all(|digest| *digest == digests[0]),
        "see the table above"
    );
}
