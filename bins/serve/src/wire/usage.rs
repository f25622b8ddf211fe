//! What a request cost: tokens and time.

use serde::Serialize;

/// Tokens of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Tokens of the prompt, counted once however many answers were asked for.
    pub prompt_tokens: usize,
    /// Tokens of all answers. The token that ends a turn is one of them.
    pub completion_tokens: usize,
    /// Both together.
    pub total_tokens: usize,
    /// About the prompt.
    pub prompt_tokens_details: PromptTokensDetails,
    /// About the answers.
    pub completion_tokens_details: CompletionTokensDetails,
}

/// Details of the prompt's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PromptTokensDetails {
    /// Tokens that were not computed, because their state was still there when the request came.
    pub cached_tokens: usize,
}

/// Details of the answers' tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompletionTokensDetails {
    /// Tokens of reasoning, the tag that ends it included.
    pub reasoning_tokens: usize,
    /// Drafted tokens that became output.
    pub accepted_prediction_tokens: u64,
    /// Drafted tokens that did not.
    pub rejected_prediction_tokens: u64,
}

/// Times of a request, as llama.cpp tells them. Milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Timings {
    /// Prompt tokens whose state was still there.
    pub cache_n: usize,
    /// Prompt tokens that were computed.
    pub prompt_n: usize,
    /// Time for that.
    pub prompt_ms: f64,
    /// Time for each.
    pub prompt_per_token_ms: f64,
    /// Prompt tokens computed a second.
    pub prompt_per_second: f64,
    /// Tokens generated.
    pub predicted_n: usize,
    /// Time for that.
    pub predicted_ms: f64,
    /// Time for each.
    pub predicted_per_token_ms: f64,
    /// Tokens generated a second.
    pub predicted_per_second: f64,
    /// Tokens drafted.
    pub draft_n: u64,
    /// Of those, the ones that became output.
    pub draft_n_accepted: u64,
    /// Time spent waiting for the engine.
    pub queue_ms: f64,
}

impl Usage {
    /// Puts prompt and answers together.
    #[must_use]
    pub fn new(
        prompt: usize,
        cached: usize,
        completion: usize,
        details: CompletionTokensDetails,
    ) -> Self {
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: cached,
            },
            completion_tokens_details: details,
        }
    }
}
