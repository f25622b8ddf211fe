//! What the generations of a request cost together.

use std::time::Duration;

use crate::generate::job::RunEnd;
use crate::metrics::rate;
use crate::wire::usage::{CompletionTokensDetails, Timings, Usage};

/// Sums over the generations that have ended.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    runs: usize,
    ended: usize,
    answers_per_prompt: usize,
    prompt: usize,
    cached: usize,
    completion: usize,
    details: CompletionTokensDetails,
    computed: usize,
    cached_in_all: usize,
    emitted: usize,
    queued: Duration,
    prefill: Duration,
    decode: Duration,
}

impl Tally {
    /// Of a request with so many generations, so many to each prompt.
    #[must_use]
    pub fn new(runs: usize, answers_per_prompt: usize) -> Self {
        Self {
            runs,
            answers_per_prompt: answers_per_prompt.max(1),
            ..Self::default()
        }
    }

    /// Adds a generation.
    pub fn add(&mut self, end: &RunEnd) {
        let cost = &end.cost;
        self.ended += 1;
        // Each prompt counts once, and so does what was cached of it before the request came.
        if end.choice.is_multiple_of(self.answers_per_prompt) {
            self.prompt += cost.prompt_tokens;
            self.cached += cost.cached_tokens;
        }
        self.completion += end.tokens;
        self.details.reasoning_tokens += end.reasoning_tokens;
        self.details.accepted_prediction_tokens += cost.accepted;
        self.details.rejected_prediction_tokens += cost.drafted - cost.accepted.min(cost.drafted);
        self.computed += cost.prompt_tokens - cost.cached_tokens.min(cost.prompt_tokens);
        self.cached_in_all += cost.cached_tokens;
        self.emitted += cost.emitted_tokens;
        self.queued = self.queued.max(cost.queued);
        self.prefill += cost.prefill;
        self.decode += cost.decode;
    }

    /// Whether every generation has ended.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended >= self.runs
    }

    /// As it is told.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::new(
            self.prompt,
            self.cached,
            self.completion,
            self.details.clone(),
        )
    }

    /// As it is told.
    #[must_use]
    pub fn timings(&self) -> Timings {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let each = |time: Duration, tokens: usize| {
            if tokens == 0 {
                0.0
            } else {
                milliseconds(time) / tokens as f64
            }
        };
        let accepted = self.details.accepted_prediction_tokens;
        Timings {
            cache_n: self.cached_in_all,
            prompt_n: self.computed,
            prompt_ms: milliseconds(self.prefill),
            prompt_per_token_ms: each(self.prefill, self.computed),
            prompt_per_second: rate(self.computed, self.prefill),
            predicted_n: self.emitted,
            predicted_ms: milliseconds(self.decode),
            predicted_per_token_ms: each(self.decode, self.emitted),
            predicted_per_second: rate(self.emitted, self.decode),
            draft_n: accepted + self.details.rejected_prediction_tokens,
            draft_n_accepted: accepted,
            queue_ms: milliseconds(self.queued),
        }
    }
}
