//! Grammars small enough to be a function of the tokens before.

use mtp_spec::{Allowed, MaskError, TokenId, TokenMask, TokenSet};

/// Which tokens may follow an output.
pub(crate) type Grammar = fn(output: &[TokenId], token: TokenId) -> bool;

/// No token twice in a row, and no sum of the token and the number of tokens before that is a multiple of three.
pub(crate) fn zigzag(output: &[TokenId], token: TokenId) -> bool {
    output.last() != Some(&token) && !(output.len() + token.index()).is_multiple_of(3)
}

/// Everything for two tokens, then only what does not lie below the last one.
pub(crate) fn late(output: &[TokenId], token: TokenId) -> bool {
    output.len() < 2 || output.last().is_none_or(|&last| token.0 + 1 >= last.0)
}

/// Everything.
pub(crate) fn free(_: &[TokenId], _: TokenId) -> bool {
    true
}

/// A grammar as a mask that checks its caller: only allowed tokens are accepted, and no more taken back than was given.
#[derive(Clone, Debug)]
pub(crate) struct Walked {
    grammar: Grammar,
    output: Vec<TokenId>,
    /// Panics when this many tokens are accepted.
    pub(crate) panics_at: usize,
    /// Fails to answer when this many tokens are accepted.
    pub(crate) fails_at: usize,
}

impl Walked {
    pub(crate) fn new(grammar: Grammar) -> Self {
        Self {
            grammar,
            output: Vec::new(),
            panics_at: usize::MAX,
            fails_at: usize::MAX,
        }
    }
}

impl TokenMask for Walked {
    fn allowed(&mut self, set: &mut TokenSet) -> Result<Allowed, MaskError> {
        assert!(self.output.len() != self.panics_at, "the mask unwinds");
        if self.output.len() == self.fails_at {
            return Err("no such rule".into());
        }
        assert!(
            set.words().iter().all(|&word| word == 0),
            "the set is empty on entry"
        );
        let all = (0..u32::try_from(set.vocab_size()).unwrap()).map(TokenId);
        let mut every = true;
        for token in all {
            if (self.grammar)(&self.output, token) {
                set.insert(token);
            } else {
                every = false;
            }
        }
        Ok(if every { Allowed::Any } else { Allowed::Set })
    }

    fn accept(&mut self, token: TokenId) -> Result<(), MaskError> {
        assert!(
            (self.grammar)(&self.output, token),
            "{token} is not allowed here"
        );
        self.output.push(token);
        Ok(())
    }

    fn rollback(&mut self, tokens: usize) {
        let left = self
            .output
            .len()
            .checked_sub(tokens)
            .expect("more was taken back than given");
        self.output.truncate(left);
    }
}
