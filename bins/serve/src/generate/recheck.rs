//! The self-check of prefix reuse: a generation that began from a saved state is computed again from nothing.

use mtp_spec::{Emitted, TokenLogprobs};
use qwen35_model::engine::{Engine, EngineError};

use super::job::Run;
use super::run::generation;

/// How many of the most likely tokens are compared in each place.
const COMPARED: usize = 20;

/// Whether to check, and what was generated so far.
#[derive(Debug, Default)]
pub(super) struct Recheck {
    warm: Option<Vec<Emitted>>,
}

impl Recheck {
    /// Checks nothing, or what `run` generates: then its log-probabilities are computed although nobody asked for them.
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            warm: enabled.then(Vec::new),
        }
    }

    /// How many alternatives the engine must tell.
    pub(super) fn top_logprobs(&self, asked: Option<usize>) -> Option<usize> {
        match self.warm {
            Some(_) => Some(asked.unwrap_or(0).max(COMPARED)),
            None => asked,
        }
    }

    /// Takes in the part of a round that was kept.
    pub(super) fn record(&mut self, kept: &[Emitted]) {
        if let Some(warm) = &mut self.warm {
            warm.extend_from_slice(kept);
        }
    }

    /// Generates again without the saved state. `None` when there is nothing to compare; otherwise whether both runs
    /// agree, in every token and in every bit of what was likely in its place.
    pub(super) fn agrees(
        self,
        engine: &mut dyn Engine,
        run: &Run,
        cached_tokens: usize,
    ) -> Option<Result<bool, EngineError>> {
        let warm = self.warm.filter(|_| cached_tokens > 0)?;
        let cold = again(engine, run, warm.len());
        engine.finish();
        Some(cold.map(|cold| same(&warm, &cold)))
    }
}

/// The first `tokens` tokens of `run`, from nothing.
fn again(engine: &mut dyn Engine, run: &Run, tokens: usize) -> Result<Vec<Emitted>, EngineError> {
    let mut cold = generation(run, Some(run.top_logprobs.unwrap_or(0).max(COMPARED)));
    cold.cache_prompt = false;
    cold.max_tokens = tokens;
    engine.start(cold)?;
    loop {
        let progress = engine.prefill()?;
        if progress.done >= progress.total {
            break;
        }
    }
    let mut emitted = Vec::with_capacity(tokens);
    while emitted.len() < tokens {
        let finish = engine.step(&mut |round| {
            emitted.extend_from_slice(round);
            round.len()
        })?;
        if finish.is_some() {
            break;
        }
    }
    Ok(emitted)
}

fn same(warm: &[Emitted], cold: &[Emitted]) -> bool {
    let bits = |logprobs: &Option<TokenLogprobs>| {
        logprobs.as_ref().map(|logprobs| {
            let top = logprobs
                .top
                .iter()
                .map(|&(token, logprob)| (token, logprob.to_bits()));
            (logprobs.logprob.to_bits(), top.collect::<Vec<_>>())
        })
    };
    let pairs = warm.iter().zip(cold);
    warm.len() == cold.len()
        && pairs.into_iter().all(|(warm, cold)| {
            warm.token == cold.token && bits(&warm.logprobs) == bits(&cold.logprobs)
        })
}
