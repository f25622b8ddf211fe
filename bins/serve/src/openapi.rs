//! The request bodies as one schema each, for the OpenAPI document.

use crate::wire::chat::ChatFields;
use crate::wire::completions::CompletionFields;
use crate::wire::control::ControlFields;

/// Body of `/v1/chat/completions`.
#[derive(Debug, serde::Deserialize, utoipa::ToSchema)]
pub struct ChatCompletionRequest {
    /// Its own fields.
    #[serde(flatten)]
    pub chat: ChatFields,
    /// Those it shares with completions.
    #[serde(flatten)]
    pub control: ControlFields,
}

/// Body of `/v1/completions`.
#[derive(Debug, serde::Deserialize, utoipa::ToSchema)]
pub struct CompletionRequest {
    /// Its own fields.
    #[serde(flatten)]
    pub completion: CompletionFields,
    /// Those it shares with chat.
    #[serde(flatten)]
    pub control: ControlFields,
}
