use std::error::Error;

use crate::{LogitRows, TokenId};

/// Which rows of a prompt chunk the caller wants logits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptLogits {
    /// None: a chunk that is not the prompt's last. The output head need not run.
    None,
    /// The chunk's last row: what the first generated token is drawn from.
    Last,
    /// Every row of the chunk, in order: for log-probabilities of the prompt.
    Every,
}

/// The model whose output is wanted: it holds one sequence and extends it.
///
/// The state is *committed* (tokens that are part of the sequence) or *tentative* (the block of the last
/// [`verify`](Self::verify), undecided). The caller decides each block by one [`commit`](Self::commit) or
/// [`rollback`](Self::rollback) before anything else is asked of the target.
///
/// For output that does not depend on drafting, a row must have the same bits whatever other rows stood in its block, and
/// whether it came from `prefill` or `verify`.
pub trait Target {
    /// What can go wrong in the model or its device.
    type Error: Error + Send + Sync + 'static;

    /// Tokens in the vocabulary: the width of a logits row. It never changes.
    fn vocab_size(&self) -> usize;

    /// How many tokens are committed: the absolute position of the next one.
    fn position(&self) -> usize;

    /// How many tokens the state can hold. The decoder never asks for more.
    fn capacity(&self) -> usize {
        usize::MAX
    }

    /// Feeds prompt tokens and commits them. May be called again with the next chunk.
    ///
    /// `chunk` is not empty. Appends to `out` the rows that `wanted` names.
    ///
    /// # Errors
    /// Whatever stops the model. The committed state may then be any prefix of the chunk further; the caller starts over.
    fn prefill(
        &mut self,
        chunk: &[TokenId],
        wanted: PromptLogits,
        out: &mut LogitRows,
    ) -> Result<(), Self::Error>;

    /// Feeds `[anchor, draft, draft, ..]` tentatively and appends one row of logits for each: row `i` predicts what
    /// follows `block[..=i]`. `block` is not empty and fits in the capacity.
    ///
    /// # Errors
    /// Whatever stops the model. The caller then calls [`rollback`](Self::rollback).
    fn verify(&mut self, block: &[TokenId], out: &mut LogitRows) -> Result<(), Self::Error>;

    /// Commits the first `keep` tokens of the block and forgets the others, leaving the state as if only those had ever
    /// been fed. `keep` is in `1..=block.len()`.
    fn commit(&mut self, keep: usize);

    /// Forgets the whole block, also when [`verify`](Self::verify) failed or unwound half way. Without a tentative block it does nothing.
    fn rollback(&mut self);
}
