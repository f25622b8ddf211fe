//! The OpenAPI document, generated from the types and the routes.

use axum::Json;
use serde_json::Value;
use utoipa::OpenApi;

use crate::routes;
use crate::wire::chat::ChatFields;
use crate::wire::completions::CompletionFields;
use crate::wire::control::ControlFields;
use crate::wire::tokens::TokenizeFields;

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

/// Body of `/tokenize`: a text, or a conversation in the fields of chat.
#[derive(Debug, serde::Deserialize, utoipa::ToSchema)]
pub struct TokenizeRequest {
    /// Its own fields.
    #[serde(flatten)]
    pub tokenize: TokenizeFields,
    /// The conversation.
    pub messages: Option<Vec<Value>>,
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "qwen35-serve",
        description = "OpenAI-compatible server for native Qwen3.5 packages",
        license(name = "Apache-2.0"),
    ),
    // What the events of a stream hold; a document of this version has no place to say so at the route.
    components(schemas(crate::wire::chat::ChatChunk)),
    paths(
        routes::chat::create,
        routes::completions::create,
        routes::responses::create,
        routes::models::list,
        routes::models::one,
        routes::tokens::tokenize,
        routes::tokens::detokenize,
        routes::tokens::info,
        routes::tokens::apply_template,
        routes::health::health,
        routes::metrics::metrics,
        routes::props::props,
        routes::props::slots,
        routes::props::machine,
    )
)]
struct Document;

/// `/openapi.json`.
pub(crate) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}
