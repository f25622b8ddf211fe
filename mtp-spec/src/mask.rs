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

impl fmt::Debug for dyn TokenMask + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenMask")
    }
}

/// A mask that is walked along drafts and taken back, and that remembers its sets on the way: the row behind a draft needs
/// the same set when it is drafted and when it is verified, and a grammar takes a millisecond for one.
#[derive(Debug)]
pub(crate) struct MaskCursor {
    mask: Box<dyn TokenMask>,
    vocab_size: usize,
    /// How many tokens are accepted tentatively.
    depth: usize,
    /// The tokens that led to the remembered sets; `path[..depth]` are the tentative ones.
    path: Vec<TokenId>,
    /// What is allowed after `path[..i]`, where known.
    steps: Vec<Remembered>,
}

#[derive(Debug)]
struct Remembered {
    allowed: Option<Allowed>,
    set: TokenSet,
}

impl MaskCursor {
    pub(crate) fn new(mask: Box<dyn TokenMask>, vocab_size: usize) -> Self {
        Self {
            mask,
            vocab_size,
            depth: 0,
            path: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// What is allowed next; `None` is anything.
    pub(crate) fn allowed(&mut self) -> Result<Option<&TokenSet>, MaskError> {
        while self.steps.len() <= self.depth {
            self.steps.push(Remembered {
                allowed: None,
                set: TokenSet::empty(self.vocab_size),
            });
        }
        let step = &mut self.steps[self.depth];
        let allowed = match step.allowed {
            Some(known) => known,
            None => {
                step.set.clear();
                let told = self.mask.allowed(&mut step.set)?;
                step.allowed = Some(told);
                told
            }
        };
        Ok(match allowed {
            Allowed::Any => None,
            Allowed::Set => Some(&step.set),
        })
    }

    /// Takes a token tentatively.
    pub(crate) fn accept(&mut self, token: TokenId) -> Result<(), MaskError> {
        self.mask.accept(token)?;
        if self.path.get(self.depth) != Some(&token) {
            self.path.truncate(self.depth);
            self.path.push(token);
            self.forget(self.depth + 1);
        }
        self.depth += 1;
        Ok(())
    }

    /// Takes tentative tokens back until `depth` are left.
    pub(crate) fn rewind(&mut self, depth: usize) {
        if depth < self.depth {
            let undone = self.depth - depth;
            self.depth = depth;
            self.mask.rollback(undone);
        }
    }

    /// What is tentative is now part of the output.
    pub(crate) fn settle(&mut self) {
        self.depth = 0;
        self.path.clear();
        self.forget(0);
    }

    /// Forgets the sets from this depth on.
    fn forget(&mut self, depth: usize) {
        for step in self.steps.iter_mut().skip(depth) {
            step.allowed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Allows the token after the last one, modulo the vocabulary, and counts what is asked of it.
    struct Counter {
        taken: Vec<TokenId>,
        asked: Arc<Mutex<usize>>,
    }

    impl TokenMask for Counter {
        fn allowed(&mut self, set: &mut TokenSet) -> Result<Allowed, MaskError> {
            *self.asked.lock().unwrap() += 1;
            assert_eq!(*set, TokenSet::empty(8), "the set is empty on entry");
            let last = self.taken.last().map_or(0, |token| token.0);
            set.insert(TokenId((last + 1) % 8));
            Ok(Allowed::Set)
        }

        fn accept(&mut self, token: TokenId) -> Result<(), MaskError> {
            self.taken.push(token);
            Ok(())
        }

        fn rollback(&mut self, tokens: usize) {
            let left = self.taken.len().checked_sub(tokens).unwrap();
            self.taken.truncate(left);
        }
    }

    fn only(cursor: &mut MaskCursor) -> u32 {
        let set = cursor.allowed().unwrap().unwrap();
        (0..8).find(|&t| set.contains(TokenId(t))).unwrap()
    }

    #[test]
    fn a_set_is_computed_once_along_an_accepted_path() {
        let asked = Arc::new(Mutex::new(0));
        let mask = Counter {
            taken: Vec::new(),
            asked: Arc::clone(&asked),
        };
        let mut cursor = MaskCursor::new(Box::new(mask), 8);
        for token in [1, 2, 3] {
            assert_eq!(only(&mut cursor), token);
            cursor.accept(TokenId(token)).unwrap();
        }
        cursor.rewind(0);
        assert_eq!(*asked.lock().unwrap(), 3);
        for token in [1, 2] {
            assert_eq!(only(&mut cursor), token);
            cursor.accept(TokenId(token)).unwrap();
        }
        assert_eq!(*asked.lock().unwrap(), 3, "remembered");
        // Another token than drafted: what was remembered behind it is void.
        cursor.rewind(1);
        cursor.accept(TokenId(6)).unwrap();
        assert_eq!(only(&mut cursor), 7);
        cursor.settle();
        assert_eq!(only(&mut cursor), 7);
        assert_eq!(*asked.lock().unwrap(), 5);
        cursor.rewind(0);
        assert_eq!(only(&mut cursor), 7, "what is settled is not taken back");
    }
}
