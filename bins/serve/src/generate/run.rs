//! One generation, from the prompt to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mtp_spec::{Emitted, TokenId, TokenLogprobs};
use qwen35_model::text::{OutputEnd, OutputEvent, OutputParser, StopReason, Tokenizer};
use tokio::sync::mpsc::UnboundedSender;

use super::job::{Cost, EndCause, Event, Piece, Run, RunEnd, ShownToken};
use super::recheck::Recheck;
use super::status::Activity;
use crate::metrics::Metrics;
use qwen35_model::engine::{Engine, EngineError, Generation};

/// Why a generation did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    /// Nobody wants it any more.
    #[error("the client is gone")]
    Abandoned,
    /// The request's time is over.
    #[error("the request's time is over")]
    TimedOut,
    /// The server must stop now.
    #[error("the server is stopping")]
    Stopping,
    /// The engine failed.
    #[error("the engine failed")]
    Engine(#[from] EngineError),
}

/// What a generation needs besides itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) tokenizer: &'a Arc<Tokenizer>,
    pub(super) events: &'a UnboundedSender<Event>,
    pub(super) arrived: Instant,
    pub(super) queued: Duration,
    pub(super) deadline: Instant,
    pub(super) abort: &'a AtomicBool,
    pub(super) recheck: bool,
    pub(super) activity: &'a Activity,
    pub(super) metrics: &'a Metrics,
}

impl Surroundings<'_> {
    /// Whether to go on; asked between prefill chunks and between decode rounds.
    pub(super) fn check(&self) -> Result<(), RunError> {
        if self.events.is_closed() {
            Err(RunError::Abandoned)
        } else if self.abort.load(Ordering::Relaxed) {
            Err(RunError::Stopping)
        } else if Instant::now() >= self.deadline {
            Err(RunError::TimedOut)
        } else {
            Ok(())
        }
    }

    /// A receiver that is gone is noticed by the next check.
    fn tell(&self, event: Event) {
        drop(self.events.send(event));
    }
}

/// Runs one generation to its end and returns why it ended and what it cost.
///
/// The engine is told that the generation is over also when it fails or unwinds, so that nothing of it leaks into the
/// next one.
pub(super) fn run(
    engine: &mut dyn Engine,
    run: &Run,
    around: Surroundings<'_>,
) -> Result<(EndCause, Cost), RunError> {
    around.check()?;
    let engine = Finishing(engine);
    let choice = run.choice;
    let stop_tokens = &run.sampler.stop_tokens;
    let mut recheck = Recheck::new(around.recheck);
    let began = Instant::now();
    let top_logprobs = recheck.top_logprobs(run.top_logprobs);
    let started = engine.0.start(generation(run, top_logprobs))?;
    around.tell(Event::Begun {
        choice,
        cached_tokens: started.cached_tokens,
    });
    around
        .activity
        .began(started.prompt_tokens, started.cached_tokens);
    loop {
        let progress = engine.0.prefill()?;
        around.activity.prefilled(progress.done);
        if progress.done >= progress.total {
            break;
        }
        around.check()?;
    }
    let prefilled = Instant::now();
    if run.prompt_logprobs.is_some() {
        let logprobs = engine.0.prompt_logprobs().to_vec();
        around.tell(Event::PromptLogprobs { choice, logprobs });
    }

    let mut speech = Speech::new(run, around.tokenizer);
    let mut cause = (run.max_tokens == 0).then_some(EndCause::Length);
    let mut emitted = 0;
    let mut last_round = prefilled;
    while cause.is_none() {
        around.check()?;
        let mut heard = Heard::default();
        let finish = engine.0.step(&mut |round| {
            heard = speech.hear(round, stop_tokens);
            recheck.record(&round[..heard.kept]);
            heard.kept
        })?;
        let now = Instant::now();
        if emitted == 0 {
            around.metrics.first_token(now - around.arrived);
        } else {
            around.metrics.round(now - last_round, heard.kept);
        }
        last_round = now;
        emitted += heard.kept;
        // What ends in the text wins over what the engine says of its limits.
        cause = heard.cause.or(finish.map(|_| EndCause::Length));
        around.activity.decoded(emitted);
        if cause.is_none() {
            around.tell_piece(&mut speech);
        }
    }
    let cause = cause.unwrap_or(EndCause::Length);
    speech.finish(cause);
    around.tell_piece(&mut speech);

    let statistics = engine.0.statistics();
    around.metrics.drafts(statistics);
    let cost = Cost {
        prompt_tokens: started.prompt_tokens,
        cached_tokens: started.cached_tokens,
        emitted_tokens: emitted,
        drafted: statistics.drafted,
        accepted: statistics.accepted,
        queued: around.queued,
        prefill: prefilled - began,
        decode: last_round - prefilled,
    };
    around.tell(Event::Ended(RunEnd {
        choice,
        cause,
        tokens: speech.shown,
        reasoning_tokens: speech.parser.reasoning_tokens().min(speech.shown),
        tool_calls: speech.parser.tool_calls(),
        cost,
    }));
    let agrees = recheck.agrees(&mut *engine.0, run, started.cached_tokens);
    if let Some(agrees) = agrees.transpose()? {
        around.metrics.rechecked(agrees);
        if !agrees {
            tracing::error!(
                cached = started.cached_tokens,
                "a reused prefix gave another answer than a fresh one"
            );
        }
    }
    Ok((cause, cost))
}

/// A run in the engine's words.
pub(super) fn generation(run: &Run, top_logprobs: Option<usize>) -> Generation {
    Generation {
        prompt: run.prompt.to_vec(),
        sampler: run.sampler.clone(),
        max_tokens: run.max_tokens,
        top_logprobs,
        prompt_logprobs: run.prompt_logprobs,
        speculative: run.speculative,
        cache_prompt: run.cache_prompt,
        checkpoints: run.checkpoints.clone(),
        mask: run.constraint.clone().map(|plan| plan.mask()),
    }
}

impl Surroundings<'_> {
    fn tell_piece(&self, speech: &mut Speech) {
        if let Some(piece) = speech.take_piece() {
            self.tell(Event::Piece(piece));
        }
    }
}

struct Finishing<'e>(&'e mut dyn Engine);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// The tokens of a generation on their way to the client.
struct Speech {
    choice: usize,
    top_logprobs: Option<usize>,
    parser: OutputParser,
    output: Vec<OutputEvent>,
    // Tokens that a stop string may still take back.
    waiting: VecDeque<ShownToken>,
    settled: Vec<ShownToken>,
    shown: usize,
}

/// What became of a round.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// Tokens of the round up to its end, or up to what ended the output.
    kept: usize,
    cause: Option<EndCause>,
}

impl Speech {
    fn new(run: &Run, tokenizer: &Arc<Tokenizer>) -> Self {
        let mut output = Vec::new();
        let parser = OutputParser::new(Arc::clone(tokenizer), run.output.clone(), &mut output);
        Self {
            choice: run.choice,
            top_logprobs: run.top_logprobs,
            parser,
            output,
            waiting: VecDeque::new(),
            settled: Vec::new(),
            shown: 0,
        }
    }

    /// Takes in a round. The first thing in it that ends the output wins, whatever limit the round reaches.
    fn hear(&mut self, round: &[Emitted], stop_tokens: &[TokenId]) -> Heard {
        let mut heard = Heard {
            kept: round.len(),
            cause: None,
        };
        for (before, emitted) in round.iter().enumerate() {
            self.waiting.push_back(ShownToken {
                id: emitted.token,
                logprobs: self.told(emitted),
            });
            if stop_tokens.contains(&emitted.token) {
                heard.cause = Some(EndCause::StopToken(emitted.token));
            } else {
                self.parser.push(emitted.token, &mut self.output);
                heard.cause = self.stop_in_output();
            }
            if heard.cause.is_some() {
                heard.kept = before + 1;
                break;
            }
        }
        self.settle();
        heard
    }

    /// The log-probabilities that were asked for; the engine may have told more.
    fn told(&self, emitted: &Emitted) -> Option<TokenLogprobs> {
        let asked = self.top_logprobs?;
        let mut logprobs = emitted.logprobs.clone()?;
        logprobs.top.truncate(asked);
        Some(logprobs)
    }

    /// Ends the text. The token that ended it has none, but counts and is told like any other.
    fn finish(&mut self, cause: EndCause) {
        let end = match cause {
            EndCause::StopToken(_) => OutputEnd::EndOfTurn,
            _ => OutputEnd::Cut,
        };
        self.parser.finish(end, &mut self.output);
        self.settle();
        if let (EndCause::StopToken(_), 1) = (cause, self.waiting.len()) {
            self.settled.extend(self.waiting.drain(..));
            self.shown += 1;
        }
    }

    fn take_piece(&mut self) -> Option<Piece> {
        if self.output.is_empty() && self.settled.is_empty() {
            return None;
        }
        Some(Piece {
            choice: self.choice,
            output: std::mem::take(&mut self.output),
            tokens: std::mem::take(&mut self.settled),
        })
    }

    fn stop_in_output(&mut self) -> Option<EndCause> {
        let Some(&OutputEvent::Stopped { reason }) = self.output.last() else {
            return None;
        };
        self.output.pop();
        Some(match reason {
            StopReason::StopString { index } => EndCause::StopString(index),
            StopReason::ToolCallLimit => EndCause::ToolCallLimit,
        })
    }

    fn settle(&mut self) {
        let visible = self.parser.visible_tokens();
        let settled = visible.saturating_sub(self.shown).min(self.waiting.len());
        self.settled.extend(self.waiting.drain(..settled));
        self.shown += settled;
    }
}
