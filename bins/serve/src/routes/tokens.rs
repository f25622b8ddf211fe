//! `/tokenize`, `/detokenize`, `/tokenizer_info`, `/apply-template`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use mtp_spec::TokenId;
use qwen35_model::text::{SpecialTokens, Tokenizer};

use super::json::JsonObject;
use super::on_blocking_thread;
use crate::app::App;
use crate::chat_request::render;
use crate::prepare::{text_error, token_ids};
use crate::wire::body::RequestBody;
use crate::wire::chat::ChatFields;
use crate::wire::error::ApiError;
use crate::wire::tokens::{
    AppliedTemplate, DetokenizeFields, Detokenized, Piece, TokenList, TokenPiece, TokenizeFields,
    Tokenized, TokenizerInfo,
};

#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/tokenize", request_body = crate::openapi::TokenizeRequest,
    responses(
        (status = 200, body = Tokenized),
        (status = "4XX", body = crate::wire::error::ErrorBody),
        (status = "5XX", body = crate::wire::error::ErrorBody),
    ),
))]
pub(crate) async fn tokenize(
    State(app): State<Arc<App>>,
    JsonObject(body): JsonObject,
) -> Result<Json<Tokenized>, ApiError> {
    on_blocking_thread(move || {
        let model = app.model()?;
        let fields: TokenizeFields = body.read()?;
        app.check_model_name(&model, fields.model.as_deref())?;
        let tokenizer = &model.text.tokenizer;
        let encoded = match (&fields.content, &fields.prompt) {
            (Some(_), Some(_)) => {
                return Err(ApiError::field("content", "given together with prompt"));
            }
            (None, None) => {
                if body.field("messages").is_none() {
                    return Err(ApiError::field("content", "this field is required"));
                }
                tokenizer.encode_prompt(&rendered(&app, &body)?)
            }
            (Some(text), None) | (None, Some(text)) => match fields.parse_special {
                Some(false) => tokenizer.encode_text(text),
                _ => tokenizer.encode_with_controls(text),
            },
        };
        let tokens = encoded.map_err(|error| text_error(&error))?;
        let texts = fields.return_token_strs == Some(true);
        Ok(Json(Tokenized {
            count: tokens.len(),
            max_model_len: model.about.context,
            token_strs: texts.then(|| tokens.iter().map(|&token| text(tokenizer, token)).collect()),
            tokens: match fields.with_pieces {
                Some(true) => TokenList::Pieces(
                    tokens
                        .iter()
                        .map(|&token| piece(tokenizer, token))
                        .collect(),
                ),
                _ => TokenList::Ids(tokens.iter().map(|token| token.0).collect()),
            },
        }))
    })
    .await
}

#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/detokenize", request_body = DetokenizeFields,
    responses(
        (status = 200, body = Detokenized),
        (status = "4XX", body = crate::wire::error::ErrorBody),
        (status = "5XX", body = crate::wire::error::ErrorBody),
    ),
))]
pub(crate) async fn detokenize(
    State(app): State<Arc<App>>,
    JsonObject(body): JsonObject,
) -> Result<Json<Detokenized>, ApiError> {
    on_blocking_thread(move || {
        let model = app.model()?;
        let fields: DetokenizeFields = body.read()?;
        app.check_model_name(&model, fields.model.as_deref())?;
        let ids = fields
            .tokens
            .ok_or_else(|| ApiError::field("tokens", "this field is required"))?;
        let ids = token_ids(&ids, &model, "tokens")?;
        let text = model.text.tokenizer.decode(&ids, SpecialTokens::Keep);
        Ok(Json(Detokenized {
            content: text.clone(),
            prompt: text,
        }))
    })
    .await
}

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/tokenizer_info",
    responses((status = 200, body = TokenizerInfo), (status = "5XX", body = crate::wire::error::ErrorBody)),
))]
pub(crate) async fn info(State(app): State<Arc<App>>) -> Result<Json<TokenizerInfo>, ApiError> {
    let model = app.model()?;
    let tokenizer = &model.text.tokenizer;
    Ok(Json(TokenizerInfo {
        tokenizer_class: "Qwen2Tokenizer",
        eos_token: tokenizer.eos_token().map(str::to_owned),
        bos_token: tokenizer.bos_token().map(str::to_owned),
        pad_token: tokenizer.pad_token().map(str::to_owned),
        add_bos_token: false,
        eos_token_ids: model.eos().map(u32::from).collect(),
        vocab_size: tokenizer.vocab_size(),
        model_max_length: model.about.context,
        chat_template: model.text.template.source().to_owned(),
    }))
}

#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/apply-template", request_body = ChatFields,
    responses(
        (status = 200, body = AppliedTemplate),
        (status = "4XX", body = crate::wire::error::ErrorBody),
        (status = "5XX", body = crate::wire::error::ErrorBody),
    ),
))]
pub(crate) async fn apply_template(
    State(app): State<Arc<App>>,
    JsonObject(body): JsonObject,
) -> Result<Json<AppliedTemplate>, ApiError> {
    on_blocking_thread(move || {
        let model = app.model()?;
        let rendered = rendered(&app, &body)?;
        let tokens = model
            .text
            .tokenizer
            .encode_prompt(&rendered)
            .map_err(|error| text_error(&error))?;
        Ok(Json(AppliedTemplate {
            prompt: rendered.text().to_owned(),
            count: tokens.len(),
            token_ids: tokens.iter().map(|token| token.0).collect(),
        }))
    })
    .await
}

fn rendered(app: &App, body: &RequestBody) -> Result<qwen35_model::text::RenderedPrompt, ApiError> {
    let model = app.model()?;
    let fields: ChatFields = body.read()?;
    Ok(render(&fields, &model, &app.config)?.rendered)
}

fn text(tokenizer: &Tokenizer, token: TokenId) -> String {
    String::from_utf8_lossy(tokenizer.token_bytes(token).unwrap_or_default()).into_owned()
}

fn piece(tokenizer: &Tokenizer, token: TokenId) -> TokenPiece {
    let bytes = tokenizer.token_bytes(token).unwrap_or_default().to_vec();
    TokenPiece {
        id: token.0,
        piece: match String::from_utf8(bytes) {
            Ok(text) => Piece::Text(text),
            Err(error) => Piece::Bytes(error.into_bytes()),
        },
    }
}
