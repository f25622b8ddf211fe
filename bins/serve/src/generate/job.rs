//! A request in the engine thread's words, and what the thread tells about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mtp_spec::{SamplerConfig, TokenId, TokenLogprobs};
use qwen35_model::text::{OutputEvent, OutputOptions};
use tokio::sync::mpsc::UnboundedSender;

use super::constraint::ConstraintPlan;
use super::queue::Waiting;
use crate::wire::error::ApiError;

/// One request: one or several generations, one after the other.
#[derive(Debug)]
pub struct Job {
    /// Names the request in the log and in `/slots`.
    pub id: String,
    /// The generations, in the order of their choices.
    pub runs: Vec<Run>,
    /// Where to tell what happens. A receiver that is gone is a cancel.
    pub events: UnboundedSender<Event>,
    /// When the request came.
    pub arrived: Instant,
    /// When it must have ended.
    pub deadline: Instant,
    /// Time between the two, for the error's words.
    pub time_limit: Duration,
}

impl Waiting for Job {
    fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }
}

/// One generation.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which of the answer's choices it makes.
    pub choice: usize,
    /// The prompt; not empty, shorter than the context.
    pub prompt: Arc<[TokenId]>,
    /// Most tokens to generate; with the prompt no more than the context.
    pub max_tokens: usize,
    /// How tokens are drawn; checked against the vocabulary.
    pub sampler: SamplerConfig,
    /// How many alternatives to tell with each token; `None` tells no log-probabilities.
    pub top_logprobs: Option<usize>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<usize>,
    /// Whether to draft, as far as the server does.
    pub speculative: bool,
    /// Whether prefix state may be used and kept.
    pub cache_prompt: bool,
    /// Where in the prompt a later one is likely to part from it, ascending.
    pub checkpoints: Vec<usize>,
    /// How the tokens are read.
    pub output: OutputOptions,
    /// What the tokens must look like.
    pub constraint: Option<Arc<ConstraintPlan>>,
}

/// What the engine thread tells about a job. The channel is closed after the last event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A generation begins.
    Begun {
        /// Which choice.
        choice: usize,
        /// Prompt tokens whose state was still there.
        cached_tokens: usize,
    },
    /// The prompt was read; only when its log-probabilities were asked for.
    PromptLogprobs {
        /// Which choice.
        choice: usize,
        /// Those of the prompt's tokens, from the second on.
        logprobs: Vec<TokenLogprobs>,
    },
    /// Something to show.
    Piece(Piece),
    /// A generation ended.
    Ended(RunEnd),
    /// The request failed; nothing follows.
    Failed(ApiError),
}

/// What one step of the engine brought to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// Which choice.
    pub choice: usize,
    /// Text, reasoning and tool calls.
    pub output: Vec<OutputEvent>,
    /// The tokens that can no longer be taken back by a stop string. Their text may come later, when it is half a
    /// character or may become a tool call.
    pub tokens: Vec<ShownToken>,
}

/// A token of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownToken {
    /// Its id.
    pub id: TokenId,
    /// Its log-probabilities, if they were asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// How a generation ended, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Which choice.
    pub choice: usize,
    /// Why it ended.
    pub cause: EndCause,
    /// Tokens of the answer.
    pub tokens: usize,
    /// Of those, the ones that were reasoning.
    pub reasoning_tokens: usize,
    /// Tool calls begun.
    pub tool_calls: usize,
    /// What it cost.
    pub cost: Cost,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// This token came, which ends the output.
    StopToken(TokenId),
    /// This stop string came, counted as given.
    StopString(usize),
    /// One tool call was allowed, and it is complete.
    ToolCallLimit,
    /// The limit of tokens, or the end of the context.
    Length,
}

/// What a generation cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of those, the ones whose state was still there.
    pub cached_tokens: usize,
    /// Tokens the engine emitted, those after a stop included.
    pub emitted_tokens: usize,
    /// Tokens drafted.
    pub drafted: u64,
    /// Of those, the ones that became output.
    pub accepted: u64,
    /// Time from the job's arrival to the start of its first generation.
    pub queued: Duration,
    /// Time to read the prompt.
    pub prefill: Duration,
    /// Time from the prompt's end to the last token.
    pub decode: Duration,
}
