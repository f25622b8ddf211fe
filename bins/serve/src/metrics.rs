//! Counters and histograms, under the names that vLLM's and llama.cpp's users scrape.

mod exposition;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mtp_spec::Statistics;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::generate::job::Cost;

pub use exposition::{Exposition, Gauges};

/// What ran so far.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<OutcomeLabel, Counter>,
    prompt_tokens: Counter,
    cached_tokens: Counter,
    generation_tokens: Counter,
    prompt_seconds: Counter<f64, AtomicU64>,
    decode_seconds: Counter<f64, AtomicU64>,
    rounds: Counter,
    drafted_rounds: Counter,
    draft_tokens: Counter,
    accepted_tokens: Counter,
    accepted_by_place: Family<PlaceLabel, Counter>,
    rechecks: Counter,
    recheck_mismatches: Counter,
    first_token: Histogram,
    token: Histogram,
    whole: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_length: Histogram,
    answer_length: Histogram,
    // The last generation's rates, in tokens a second, as the bits of an f64.
    prompt_rate: AtomicU64,
    decode_rate: AtomicU64,
    longest: AtomicU64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// With its whole answer.
    Answered,
    /// With an answer cut off at a limit.
    Limited,
    /// Because nobody wanted it any more.
    Cancelled,
    /// With an error.
    Failed,
}

impl Metrics {
    /// Time from a request's arrival to its first token.
    pub fn first_token(&self, time: Duration) {
        self.first_token.observe(time.as_secs_f64());
    }

    /// A round of `tokens` tokens that took so long.
    pub fn round(&self, time: Duration, tokens: usize) {
        for _ in 0..tokens {
            self.token.observe(time.as_secs_f64() / tokens as f64);
        }
    }

    /// Time that a request waited.
    pub fn queued(&self, time: Duration) {
        self.queue.observe(time.as_secs_f64());
    }

    /// What drafting brought in a generation.
    pub fn drafts(&self, statistics: &Statistics) {
        self.rounds.inc_by(statistics.rounds);
        self.drafted_rounds.inc_by(statistics.drafted_rounds);
        self.draft_tokens.inc_by(statistics.drafted);
        self.accepted_tokens.inc_by(statistics.accepted);
        for (position, place) in statistics.by_place.iter().enumerate() {
            let label = PlaceLabel {
                position: position as u64,
            };
            self.accepted_by_place
                .get_or_create(&label)
                .inc_by(place.accepted);
        }
    }

    /// A generation from a saved prefix was compared with one from nothing.
    pub fn rechecked(&self, agrees: bool) {
        self.rechecks.inc();
        if !agrees {
            self.recheck_mismatches.inc();
        }
    }

    /// A generation came to its end.
    pub fn generation(&self, cost: &Cost) {
        let computed = cost.prompt_tokens - cost.cached_tokens.min(cost.prompt_tokens);
        self.prompt_tokens.inc_by(cost.prompt_tokens as u64);
        self.cached_tokens.inc_by(cost.cached_tokens as u64);
        self.generation_tokens.inc_by(cost.emitted_tokens as u64);
        self.prompt_seconds.inc_by(cost.prefill.as_secs_f64());
        self.decode_seconds.inc_by(cost.decode.as_secs_f64());
        self.prefill.observe(cost.prefill.as_secs_f64());
        self.decode.observe(cost.decode.as_secs_f64());
        self.prompt_length.observe(cost.prompt_tokens as f64);
        self.answer_length.observe(cost.emitted_tokens as f64);
        store(&self.prompt_rate, rate(computed, cost.prefill));
        store(&self.decode_rate, rate(cost.emitted_tokens, cost.decode));
        let length = (cost.prompt_tokens + cost.emitted_tokens) as u64;
        self.longest.fetch_max(length, Ordering::Relaxed);
    }

    /// A request ended.
    pub fn ended(&self, outcome: Outcome) {
        self.requests
            .get_or_create(&OutcomeLabel {
                finished_reason: outcome,
            })
            .inc();
    }

    /// Time from a request's arrival to the end of its answer.
    pub fn request(&self, time: Duration) {
        self.whole.observe(time.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        // Bucket bounds in seconds: vLLM's, with finer ones below for a small model.
        let seconds = || {
            Histogram::new([
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
                60.0, 120.0, 300.0, 600.0,
            ])
        };
        let tokens = || {
            Histogram::new([
                1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0,
            ])
        };
        Self {
            requests: Family::default(),
            prompt_tokens: Counter::default(),
            cached_tokens: Counter::default(),
            generation_tokens: Counter::default(),
            prompt_seconds: Counter::default(),
            decode_seconds: Counter::default(),
            rounds: Counter::default(),
            drafted_rounds: Counter::default(),
            draft_tokens: Counter::default(),
            accepted_tokens: Counter::default(),
            accepted_by_place: Family::default(),
            rechecks: Counter::default(),
            recheck_mismatches: Counter::default(),
            first_token: seconds(),
            token: seconds(),
            whole: seconds(),
            queue: seconds(),
            prefill: seconds(),
            decode: seconds(),
            prompt_length: tokens(),
            answer_length: tokens(),
            prompt_rate: AtomicU64::new(0),
            decode_rate: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    finished_reason: Outcome,
}

/// vLLM's words.
impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let word = match self {
            Self::Answered => "stop",
            Self::Limited => "length",
            Self::Cancelled => "abort",
            Self::Failed => "error",
        };
        EncodeLabelValue::encode(&word, encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaceLabel {
    position: u64,
}

/// Tokens a second; 0 when no time passed.
#[must_use]
pub fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        tokens as f64 / time.as_secs_f64()
    }
}

fn store(place: &AtomicU64, value: f64) {
    place.store(value.to_bits(), Ordering::Relaxed);
}
