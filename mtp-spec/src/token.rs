use std::fmt;

/// A token of the target's vocabulary: an index into a logits row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub u32);

impl TokenId {
    /// The id as an index into a row of logits.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The token at `index` of a row. Vocabularies have fewer than 2^32 tokens; a larger index saturates,
    /// and so names a token that no vocabulary has.
    pub(crate) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

impl From<u32> for TokenId {
    fn from(id: u32) -> Self {
        Self(id)
    }
}

impl From<TokenId> for u32 {
    fn from(token: TokenId) -> Self {
        token.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of tokens as a bit per token, in 32-bit words: token `t` is bit `t % 32` of word `t / 32`.
///
/// The words are public because grammar matchers already keep this layout: a mask is one slice copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSet {
    words: Vec<u32>,
    vocab_size: usize,
}

impl TokenSet {
    /// The empty set over a vocabulary of `vocab_size` tokens.
    #[must_use]
    pub fn empty(vocab_size: usize) -> Self {
        Self {
            words: vec![0; vocab_size.div_ceil(32)],
            vocab_size,
        }
    }

    /// How many tokens the vocabulary has, in the set or not.
    #[must_use]
    pub const fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Adds a token. Tokens outside the vocabulary are ignored.
    pub fn insert(&mut self, token: TokenId) {
        if token.index() < self.vocab_size {
            self.words[token.index() / 32] |= 1 << (token.0 % 32);
        }
    }

    /// Takes a token out.
    pub fn remove(&mut self, token: TokenId) {
        if token.index() < self.vocab_size {
            self.words[token.index() / 32] &= !(1 << (token.0 % 32));
        }
    }

    /// Whether the token is in the set.
    #[must_use]
    pub fn contains(&self, token: TokenId) -> bool {
        token.index() < self.vocab_size && self.words[token.index() / 32] >> (token.0 % 32) & 1 == 1
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Puts every token of the vocabulary in.
    pub fn fill(&mut self) {
        self.words.fill(u32::MAX);
    }

    /// The words, lowest tokens first. Bits past the vocabulary mean nothing.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The words, to be written by a matcher.
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_inserted_and_nothing_else() {
        let mut set = TokenSet::empty(70);
        for token in [0, 31, 32, 69, 70, 4_000_000_000] {
            set.insert(TokenId(token));
        }
        let held: Vec<u32> = (0..100).filter(|&t| set.contains(TokenId(t))).collect();
        assert_eq!(held, [0, 31, 32, 69]);
        set.remove(TokenId(32));
        set.remove(TokenId(70));
        assert!(!set.contains(TokenId(32)) && set.contains(TokenId(31)));
        assert_eq!(set.words().len(), 3);
    }

    #[test]
    fn a_full_set_still_has_no_token_outside_the_vocabulary() {
        let mut set = TokenSet::empty(33);
        set.fill();
        assert!(set.contains(TokenId(32)));
        assert!(!set.contains(TokenId(33)));
        set.clear();
        assert_eq!(set, TokenSet::empty(33));
    }
}
