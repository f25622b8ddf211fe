use crate::mask::MaskError;
use crate::{RowError, TokenId};

/// Why a step could not be taken. After any of these the decoder stands where it stood before the call, unless the
/// variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError<E: std::error::Error + 'static> {
    /// The target or the drafter failed. From a prefill, the target may have taken part of the chunk: start over.
    #[error("the model failed")]
    Model(#[source] E),
    /// The drafter failed to take in tokens that were already committed and are part of the output. It
    /// is not asked again before the next sequence.
    #[error("the drafter failed after {emitted} tokens were committed")]
    Settle {
        /// Tokens that the round had emitted.
        emitted: usize,
        /// The failure.
        #[source]
        source: E,
    },
    /// No distribution could be made of a row of logits.
    #[error("position {position}: no token can be drawn")]
    Row {
        /// Absolute position of the token that was to be drawn.
        position: usize,
        /// What is wrong with the row.
        #[source]
        source: RowError,
    },
    /// The mask failed.
    #[error("position {position}: the mask failed")]
    Mask {
        /// Absolute position of the token that was to be drawn.
        position: usize,
        /// The failure.
        #[source]
        source: MaskError,
    },
    /// A prompt without a token that the target does not hold already.
    #[error(
        "prompt of {prompt} tokens: the target already holds {held}, at least one more is needed"
    )]
    NothingToFeed {
        /// Tokens in the prompt.
        prompt: usize,
        /// Tokens in the target.
        held: usize,
    },
    /// A prompt longer than the target can hold.
    #[error("prompt of {prompt} tokens: the target holds at most {capacity}")]
    PromptTooLong {
        /// Tokens in the prompt.
        prompt: usize,
        /// Tokens that the target can hold.
        capacity: usize,
    },
    /// A prompt token that the vocabulary does not have.
    #[error("prompt token {index}: {token} is not in a vocabulary of {vocab_size}")]
    PromptToken {
        /// Its index in the prompt.
        index: usize,
        /// The token.
        token: TokenId,
        /// Tokens in the vocabulary.
        vocab_size: usize,
    },
    /// The sampler was made for another vocabulary.
    #[error("the sampler is for {sampler} tokens, the target has {target}")]
    Vocabulary {
        /// Tokens that the sampler knows.
        sampler: usize,
        /// Tokens that the target has.
        target: usize,
    },
    /// The target returned another number of rows than it was asked for.
    #[error("the target returned {found} rows of logits, not {expected}")]
    Rows {
        /// Rows asked for.
        expected: usize,
        /// Rows found.
        found: usize,
    },
    /// A step before the whole prompt was fed.
    #[error("{remaining} prompt tokens are not fed yet")]
    Unfed {
        /// Prompt tokens left.
        remaining: usize,
    },
    /// A step before any prompt was given.
    #[error("no sequence was begun")]
    NoSequence,
}
