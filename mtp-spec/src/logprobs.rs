use crate::TokenId;

/// The log-probability of a token and of the most likely ones, natural logarithm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenLogprobs {
    /// Of the token itself. Equal, bit for bit, to its entry in `top` when it has one.
    pub logprob: f32,
    /// The most likely tokens, most likely first, lowest id first on ties.
    pub top: Vec<(TokenId, f32)>,
}
