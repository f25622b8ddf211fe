//! A model that generates, with the type of its device erased.
//!
//! Servers, binaries and examples hold a `Box<dyn Engine>`. One generation runs at a time:
//! [`Engine::start`], [`Engine::prefill`] until it is done, [`Engine::step`] until it finishes,
//! [`Engine::finish`]. An error or a panic on the way never leaks into the next generation, which begins
//! from nothing or from a saved prefix.

mod drafter;
mod local;

use std::fmt::Debug;

use mtp_spec::{
    ConfigError, Emitted, Finish, SamplerConfig, SpecError, Statistics, TokenId, TokenLogprobs,
    TokenMask,
};

use crate::ModelError;

pub use drafter::DrafterKind;
pub use local::{Drafting, EngineOptions, LocalEngine};

/// What an engine is: for `/v1/models`, `/props`, logs and proofs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineAbout {
    /// Name of the model.
    pub model: String,
    /// Width of a logits row; ids from here on do not exist.
    pub vocab_size: usize,
    /// Longest sequence in tokens.
    pub context: usize,
    /// Numerics contract, such as `host/1`.
    pub contract: String,
    /// Device, instruction set and threads, in words.
    pub device: String,
    /// Whether drafts can be made.
    pub mtp: bool,
    /// SHA-256 of the package's manifest, hex; empty where there is none.
    pub package_digest: String,
}

/// A generation to run.
#[derive(Debug)]
pub struct Generation {
    /// Prompt tokens, at least one.
    pub prompt: Vec<TokenId>,
    /// How tokens are drawn, and which ones end the output.
    pub sampler: SamplerConfig,
    /// Most tokens to emit; 0 only reads the prompt.
    pub max_tokens: usize,
    /// With each emitted token its log-probability and so many alternatives.
    pub top_logprobs: Option<usize>,
    /// Log-probabilities of the prompt's tokens, and so many alternatives each.
    pub prompt_logprobs: Option<usize>,
    /// Whether to draft. The output is the same either way.
    pub speculative: bool,
    /// Whether a saved prefix may be used, and this prompt's state saved.
    pub cache_prompt: bool,
    /// Positions in the prompt at which a later prompt is likely to part from it, ascending: the state is
    /// saved there as well as at the prompt's end.
    pub checkpoints: Vec<usize>,
    /// A constraint on the output.
    pub mask: Option<Box<dyn TokenMask>>,
}

/// How a generation began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those that a saved prefix already held.
    pub cached_tokens: usize,
}

/// How far the prompt is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillProgress {
    /// Tokens read, cached ones among them.
    pub done: usize,
    /// Tokens of the prompt.
    pub total: usize,
}

/// A model that generates.
pub trait Engine: Debug + Send {
    /// What it is.
    fn about(&self) -> &EngineAbout;

    /// Begins a generation, ending the one before; restores the longest saved prefix where that is allowed.
    ///
    /// # Errors
    /// [`EngineError::Sampler`] or [`EngineError::Request`] for what the request asks,
    /// [`EngineError::Model`] for a failure.
    fn start(&mut self, generation: Generation) -> Result<Started, EngineError>;

    /// Reads the next chunk of the prompt. The caller looks for a cancel between calls.
    ///
    /// # Errors
    /// [`EngineError::Model`]; the generation is then over.
    fn prefill(&mut self) -> Result<PrefillProgress, EngineError>;

    /// Drafts, verifies and draws one round, and shows its tokens (at least one) to `keep`, which says how many
    /// to emit: fewer than all when a stop string ends among them. Nothing beyond those leaves a trace. Returns why
    /// the output has ended, when it has; a step after that shows nothing.
    ///
    /// # Errors
    /// [`EngineError::Model`]; the sequence then stands where it stood.
    fn step(
        &mut self,
        keep: &mut dyn FnMut(&[Emitted]) -> usize,
    ) -> Result<Option<Finish>, EngineError>;

    /// Log-probabilities of the prompt's tokens from the second one on, when they were asked for.
    fn prompt_logprobs(&self) -> &[TokenLogprobs];

    /// What drafting brought in this generation.
    fn statistics(&self) -> &Statistics;

    /// Ends the generation; its state stays for a later prompt that goes on from it, where that was allowed.
    fn finish(&mut self);
}

/// Why an engine could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The sampler settings are out of range or name unknown tokens: the request's fault.
    #[error(transparent)]
    Sampler(#[from] ConfigError),
    /// The prompt cannot be run: empty, too long, or with unknown tokens. The request's fault.
    #[error("{0}")]
    Request(SpecError<ModelError>),
    /// The model, its device or a mask failed.
    #[error("generation failed")]
    Model(#[source] SpecError<ModelError>),
}

impl EngineError {
    /// Whether the request is at fault, not the engine.
    #[must_use]
    pub const fn is_request_fault(&self) -> bool {
        matches!(self, Self::Sampler(_) | Self::Request(_))
    }
}

impl From<SpecError<ModelError>> for EngineError {
    fn from(error: SpecError<ModelError>) -> Self {
        match error {
            SpecError::NothingToFeed { .. }
            | SpecError::PromptTooLong { .. }
            | SpecError::PromptToken { .. } => Self::Request(error),
            other => Self::Model(other),
        }
    }
}

impl From<ModelError> for EngineError {
    fn from(error: ModelError) -> Self {
        Self::Model(SpecError::Model(error))
    }
}
