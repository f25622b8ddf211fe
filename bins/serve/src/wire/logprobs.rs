//! Log-probabilities in the two shapes of the API.

use std::collections::BTreeMap;

use serde::Serialize;

/// What stands for minus infinity, which JSON does not have. vLLM's choice.
pub const LOWEST: f32 = -9999.0;

/// `choices[].logprobs` of chat.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatLogprobs {
    /// One entry a token, in order.
    pub content: Vec<TokenEntry>,
    /// Always `null`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<TokenEntry>>))]
    pub refusal: Option<()>,
}

/// One token of chat logprobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenEntry {
    /// Its text; half a character shows as U+FFFD.
    pub token: String,
    /// Its natural log-probability.
    pub logprob: f32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The most likely tokens in its place, most likely first.
    pub top_logprobs: Vec<TopEntry>,
}

/// One of the most likely tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TopEntry {
    /// Its text.
    pub token: String,
    /// Its natural log-probability.
    pub logprob: f32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// `choices[].logprobs` of completions: four lists of the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompletionLogprobs {
    /// Text of each token; one that is not text by itself is written `bytes:\xf0\x9f`.
    pub tokens: Vec<String>,
    /// Log-probability of each; `null` for the first of a prompt.
    pub token_logprobs: Vec<Option<f32>>,
    /// The most likely tokens in each place, by their text.
    pub top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
    /// Where each token starts in the text, in characters (bytes for clients that count those).
    pub text_offset: Vec<usize>,
}

/// A log-probability that JSON can hold.
#[must_use]
pub fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() {
        logprob.max(LOWEST)
    } else {
        LOWEST
    }
}
