use crate::TokenId;

/// Where a drafter puts its drafts: knows the budget, the sampler and the history that each row would have.
#[derive(Debug)]
pub struct Drafts<'a> {
    tokens: &'a mut Vec<TokenId>,
}

impl Drafts<'_> {
    /// How many more drafts are wanted.
    #[must_use]
    pub fn room(&self) -> usize {
        unimplemented!()
    }

    /// The drafts so far.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        self.tokens
    }

    /// Absolute position of the next draft in the sequence.
    #[must_use]
    pub fn position(&self) -> usize {
        unimplemented!()
    }

    /// Adds a draft chosen outright. Returns whether there was room.
    pub fn push(&mut self, _token: TokenId) -> bool {
        unimplemented!()
    }

    /// Draws the next draft from a row of the drafter's logits, through the request's sampler chain with the history that the row would have,
    /// adds it and returns it. A row shorter than the vocabulary is about its first tokens.
    ///
    /// `None` when there is no room or the row leaves nothing to draw: stop then.
    pub fn draw(&mut self, _logits: &[f32]) -> Option<TokenId> {
        unimplemented!()
    }

    /// As [`draw`](Self::draw), for a row about the tokens `ids` only: `logits[i]` is that of `ids[i]`.
    pub fn draw_among(&mut self, _logits: &[f32], _ids: &[TokenId]) -> Option<TokenId> {
        unimplemented!()
    }
}
