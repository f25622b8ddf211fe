use std::error::Error;
use std::fmt;

use crate::{TokenId, TokenSet};

/// What a mask says about the next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Anything: the mask is not in force here (a grammar that waits for the end of the reasoning, say).
    Any,
    /// The tokens that the mask wrote into the set.
    Set,
}

/// Why a mask could not answer.
pub type MaskError = Box<dyn Error + Send + Sync>;

/// A constraint on the output, token by token: a grammar, a schema, a forced ending.
///
/// The decoder walks it along drafts and takes it back: every [`accept`](Self::accept) is later kept or undone by a
/// [`rollback`](Self::rollback), last in first out.
pub trait TokenMask: Send {
    /// The tokens allowed after everything accepted so far. `set` is empty on entry and as wide as the vocabulary.
    ///
    /// # Errors
    /// Whatever stops the matcher.
    fn allowed(&mut self, set: &mut TokenSet) -> Result<Allowed, MaskError>;

    /// Takes the next token of the output. The decoder only passes tokens that [`allowed`](Self::allowed) named.
    ///
    /// # Errors
    /// Whatever stops the matcher; the token is then not accepted.
    fn accept(&mut self, token: TokenId) -> Result<(), MaskError>;

    /// Undoes the last `tokens` calls of [`accept`](Self::accept).
    fn rollback(&mut self, tokens: usize);
}

impl fmt::Debug for dyn TokenMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenMask")
    }
}
