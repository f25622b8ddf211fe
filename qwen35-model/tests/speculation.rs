//! Drafting leaves no trace: tokens, logits and state are those of plain decoding, bit for bit.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_pass_by_value,
    reason = "a test stops where something is not as it should be, and its numbers are small"
)]

mod common;

use std::sync::Arc;

use common::{demo_package, first_window};
use mtp_spec::{
    DecodeOptions, Decoder, Drafter, Drafts, LogitRows, NoDraft, PromptLogits, PromptLookup,
    Sampler, SamplerConfig, Target, TokenId,
};
use qwen35_model::package::{CpuOptions, load_model};
use qwen35_model::{Model, ModelError, MtpDrafter, Session, SessionOptions};
use sha2::{Digest as _, Sha256};
use tt_device::{Cpu, Isa};

const SETS: [&str; 5] = ["austen", "kjv", "moby", "jargon", "chat"];
const OUTPUT: usize = 128;

/// A session that hashes every row of logits whose token was kept.
struct Recorded {
    session: Session<Cpu>,
    hash: Sha256,
    rows: Vec<f32>,
}

impl Recorded {
    fn hash(&mut self, rows: usize) {
        for logit in &self.rows[..rows * self.session.vocab_size()] {
            self.hash.update(logit.to_le_bytes());
        }
    }
}

impl Target for Recorded {
    type Error = ModelError;

    fn vocab_size(&self) -> usize {
        self.session.vocab_size()
    }

    fn position(&self) -> usize {
        self.session.position()
    }

    fn capacity(&self) -> usize {
        self.session.capacity()
    }

    fn prefill(
        &mut self,
        chunk: &[TokenId],
        wanted: PromptLogits,
        out: &mut LogitRows,
    ) -> Result<(), ModelError> {
        self.session.prefill(chunk, wanted, out)
    }

    fn verify(&mut self, block: &[TokenId], out: &mut LogitRows) -> Result<(), ModelError> {
        self.session.verify(block, out)?;
        self.rows = out.values().to_vec();
        Ok(())
    }

    fn commit(&mut self, keep: usize) {
        self.hash(keep);
        self.session.commit(keep);
    }

    fn rollback(&mut self) {
        self.session.rollback();
    }
}

/// The drafters that are compared. Any of them may be wrong as often as it likes.
enum Guess {
    Plain(NoDraft),
    Mtp(MtpDrafter),
    Lookup(PromptLookup),
    /// Always the same token, which is hardly ever right.
    Stubborn,
}

impl Drafter<Recorded> for Guess {
    fn reset(&mut self, target: &mut Recorded, held: &[TokenId]) -> Result<(), ModelError> {
        match self {
            Self::Plain(inner) => inner.reset(&mut target.session, held),
            Self::Mtp(inner) => inner.reset(&mut target.session, held),
            Self::Lookup(inner) => inner.reset(&mut target.session, held),
            Self::Stubborn => Ok(()),
        }
    }

    fn propose(
        &mut self,
        target: &mut Recorded,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), ModelError> {
        match self {
            Self::Plain(inner) => inner.propose(&mut target.session, anchor, drafts),
            Self::Mtp(inner) => inner.propose(&mut target.session, anchor, drafts),
            Self::Lookup(inner) => inner.propose(&mut target.session, anchor, drafts),
            Self::Stubborn => {
                while drafts.push(TokenId(0)) {}
                Ok(())
            }
        }
    }

    fn settle(&mut self, target: &mut Recorded, kept: &[TokenId]) -> Result<(), ModelError> {
        match self {
            Self::Plain(inner) => inner.settle(&mut target.session, kept),
            Self::Mtp(inner) => inner.settle(&mut target.session, kept),
            Self::Lookup(inner) => inner.settle(&mut target.session, kept),
            Self::Stubborn => Ok(()),
        }
    }
}

fn settings() -> Vec<(&'static str, usize, Guess)> {
    vec![
        ("plain", 0, Guess::Plain(NoDraft)),
        ("mtp, 1 draft", 1, Guess::Mtp(MtpDrafter::default())),
        ("mtp, 2 drafts", 2, Guess::Mtp(MtpDrafter::default())),
        ("mtp, 4 drafts", 4, Guess::Mtp(MtpDrafter::default())),
        ("prompt lookup", 4, Guess::Lookup(PromptLookup::default())),
        ("always rejected", 2, Guess::Stubborn),
    ]
}

fn model(isa: Isa) -> Arc<Model<Cpu>> {
    // One thread: a step of this small model is shorter than waking another, and threads are another test.
    let options = CpuOptions {
        isa: Some(isa),
        threads: Some(1),
        ..CpuOptions::default()
    };
    Arc::new(load_model(&demo_package(), options).unwrap())
}

/// Prompts of 24 tokens, cut from the held-out texts.
fn prompts(count: usize) -> Vec<Vec<TokenId>> {
    let texts: Vec<Vec<u32>> = SETS.iter().map(|set| first_window(set)).collect();
    (0..count)
        .map(|i| {
            let text = &texts[i % texts.len()];
            let first = i / texts.len() * 12 % (text.len() - 24);
            text[first..first + 24]
                .iter()
                .copied()
                .map(TokenId)
                .collect()
        })
        .collect()
}

fn sampler(index: usize) -> SamplerConfig {
    match index % 4 {
        0 => SamplerConfig::greedy(),
        1 => SamplerConfig {
            temperature: 0.7,
            seed: index as u64,
            ..SamplerConfig::default()
        },
        2 => SamplerConfig {
            temperature: 1.0,
            top_k: 40,
            top_p: 0.9,
            min_p: 0.02,
            seed: 7,
            ..SamplerConfig::default()
        },
        _ => SamplerConfig {
            repetition_penalty: 1.2,
            frequency_penalty: 0.3,
            logit_bias: vec![(TokenId(198), -5.0)],
            ..SamplerConfig::greedy()
        },
    }
}

/// Token ids, and a digest of every kept row of logits and of the state at the end.
fn run(
    model: &Arc<Model<Cpu>>,
    prompts: &[Vec<TokenId>],
    drafts: usize,
    guess: Guess,
) -> Vec<(Vec<TokenId>, String)> {
    let options = SessionOptions {
        context: 256,
        drafts: 4,
        ..SessionOptions::default()
    };
    let session = Session::new(Arc::clone(model), options).unwrap();
    let mut decoder = Decoder::new(
        Recorded {
            session,
            hash: Sha256::new(),
            rows: Vec::new(),
        },
        guess,
    );
    let mut results = Vec::new();
    for (i, prompt) in prompts.iter().enumerate() {
        decoder.target_mut().session.clear().unwrap();
        decoder.target_mut().hash = Sha256::new();
        let vocab = decoder.target().vocab_size();
        let mut options = DecodeOptions::new(Sampler::new(sampler(i), vocab).unwrap());
        options.max_tokens = OUTPUT;
        options.drafts = drafts;
        decoder.start(prompt, options).unwrap();
        while decoder.finish().is_none() {
            decoder.step().unwrap();
        }
        let tokens = decoder.output().to_vec();
        results.push((tokens, state_digest(decoder.target_mut())));
    }
    results
}

fn state_digest(target: &mut Recorded) -> String {
    let mut hash = std::mem::take(&mut target.hash);
    let session = &target.session;
    let mut feed = |values: &[f32]| {
        values
            .iter()
            .for_each(|value| hash.update(value.to_le_bytes()));
    };
    for layer in session.recurrent_state().unwrap().layers {
        feed(&layer.recurrent);
        feed(&layer.window);
    }
    for layer in 0..session.model().config().layers.len() {
        let (keys, values) = session
            .sequence()
            .kv_rows(session.model().device(), layer)
            .unwrap();
        feed(&keys);
        feed(&values);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn tokens_logits_and_state_do_not_depend_on_the_drafter() {
    let model = model(Isa::best());
    let prompts = prompts(200);
    let mut plain = None;
    for (name, drafts, guess) in settings() {
        let results = run(&model, &prompts, drafts, guess);
        let plain = plain.get_or_insert_with(|| results.clone());
        for (i, (ours, theirs)) in results.iter().zip(plain.iter()).enumerate() {
            assert_eq!(ours.0, theirs.0, "{name}: tokens of prompt {i}");
            assert_eq!(ours.1, theirs.1, "{name}: logits or state of prompt {i}");
        }
    }
}

#[test]
fn tokens_logits_and_state_do_not_depend_on_the_instruction_set() {
    let prompts = prompts(20);
    let mut first = None;
    for isa in Isa::present() {
        let model = model(isa);
        // The definition is slow: of it, plain decoding and the default are enough.
        let settings = settings()
            .into_iter()
            .take(if isa == Isa::Scalar { 2 } else { usize::MAX });
        for (name, drafts, guess) in settings {
            let results = run(&model, &prompts, drafts, guess);
            let first = first.get_or_insert_with(|| results.clone());
            assert_eq!(results, *first, "{isa}, {name}");
        }
    }
}
