use crate::{TokenId, TokenLogprobs};

/// Why the output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// This stop token was drawn; it is the last token emitted. Wins over the others in the same round.
    Stop(TokenId),
    /// There are as many tokens as were asked for.
    MaxTokens,
    /// The target can hold no more.
    Capacity,
}

/// One token of the output.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted {
    /// The token.
    pub token: TokenId,
    /// Its absolute position in the sequence.
    pub position: usize,
    /// Whether it was drafted and the draft accepted.
    pub drafted: bool,
    /// Its log-probabilities, when they were asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step<'a> {
    /// The tokens emitted, in order.
    pub tokens: &'a [Emitted],
    /// Why the output ended, when it did.
    pub finish: Option<Finish>,
    /// Rows that the target computed: 0 when the token was drawn from the prompt's last row.
    pub rows: usize,
    /// Drafts that the target verified.
    pub drafted: usize,
    /// Drafts that became output.
    pub accepted: usize,
}
