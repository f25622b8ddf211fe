//! The one place where a failure becomes an HTTP status and an OpenAI error body.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request is not answered.
///
/// Faults of the request are always 4xx: clients of this API send a request again when they see a 5xx.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The body is not JSON, or not the JSON object that the route takes.
    #[error("the request body is not valid JSON: {message}")]
    BadJson {
        /// Where and why, in the parser's words.
        message: String,
    },
    /// A field holds something that cannot be meant.
    #[error("{param}: {message}")]
    Field {
        /// The field, as a path into the request.
        param: String,
        /// What is wrong with it.
        message: String,
    },
    /// A field that this server does not know how to honour, with a value that asks for something.
    #[error("{param}: not supported by this server{}", hint.map(|h| format!(", {h}")).unwrap_or_default())]
    Unsupported {
        /// The field.
        param: String,
        /// What to do instead.
        hint: Option<&'static str>,
    },
    /// The prompt does not fit in the context.
    #[error(
        "this model's context is {context} tokens, the prompt has {prompt}; \
         shorten it or ask for truncate_prompt_tokens"
    )]
    ContextOverflow {
        /// The field that holds the prompt.
        param: &'static str,
        /// Tokens in the prompt.
        prompt: usize,
        /// Tokens that the context holds.
        context: usize,
    },
    /// No model of that name is served.
    #[error("the model {model:?} does not exist; this server has {served:?}")]
    UnknownModel {
        /// The name as sent.
        model: String,
        /// The name that would have been right.
        served: String,
    },
    /// The API key is missing or wrong.
    #[error("a valid API key is needed: send it as Authorization: Bearer KEY")]
    InvalidKey,
    /// The Host header names somebody else.
    #[error("host {host:?} is not served here; start the server with --allowed-host to allow it")]
    HostRefused {
        /// The header as sent.
        host: String,
    },
    /// No such route.
    #[error("no route {method} {path}")]
    UnknownRoute {
        /// The method as sent.
        method: String,
        /// The path as sent.
        path: String,
    },
    /// The route exists, for another method.
    #[error("{path} does not take {method}")]
    MethodNotAllowed {
        /// The method as sent.
        method: String,
        /// The path as sent.
        path: String,
    },
    /// The body is longer than allowed.
    #[error("the request body is longer than {limit} bytes")]
    BodyTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the request body did not arrive within {} seconds", limit.as_secs())]
    BodyTooSlow {
        /// Time allowed.
        limit: Duration,
    },
    /// The connection broke while the body was read.
    #[error("the request body broke off")]
    BodyBroken,
    /// The body is not sent as JSON.
    #[error("send the body as application/json, not {found:?}")]
    MediaType {
        /// The Content-Type as sent.
        found: String,
    },
    /// As many requests wait as may wait.
    #[error("{waiting} requests are waiting already; try again in {} seconds", retry_after.as_secs())]
    QueueFull {
        /// Requests that wait.
        waiting: usize,
        /// When trying again is reasonable.
        retry_after: Duration,
    },
    /// `/slots?fail_on_no_slot=1` while the only slot works.
    #[error("no slot is free")]
    NoSlot,
    /// The model is not loaded yet.
    #[error("Loading model")]
    Loading,
    /// The server is going down.
    #[error("the server is stopping")]
    Stopping,
    /// The request took longer than the server allows.
    #[error("the request took longer than the {} seconds that this server allows", limit.as_secs())]
    TimedOut {
        /// Time allowed.
        limit: Duration,
    },
    /// Something broke on our side. What it was stands in the log under the same id.
    #[error("internal error {id}; the log of the server has more under this id")]
    Internal {
        /// Names the log entry.
        id: String,
    },
}

impl ApiError {
    /// A field that cannot be meant.
    pub fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Field {
            param: param.into(),
            message: message.into(),
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadJson { .. }
            | Self::Field { .. }
            | Self::Unsupported { .. }
            | Self::ContextOverflow { .. }
            | Self::BodyBroken => StatusCode::BAD_REQUEST,
            Self::InvalidKey => StatusCode::UNAUTHORIZED,
            Self::HostRefused { .. } => StatusCode::FORBIDDEN,
            Self::UnknownModel { .. } | Self::UnknownRoute { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NoSlot | Self::Loading | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The body as OpenAI's clients read it.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let (kind, code) = self.kind_and_code();
        let (n_prompt_tokens, n_ctx) = match self {
            Self::ContextOverflow {
                prompt, context, ..
            } => (Some(*prompt), Some(*context)),
            _ => (None, None),
        };
        ErrorBody {
            error: ErrorObject {
                message: self.to_string(),
                kind,
                param: self.param().map(str::to_owned),
                code,
                n_prompt_tokens,
                n_ctx,
            },
        }
    }

    /// The word that programs compare with.
    #[must_use]
    pub fn word(&self) -> String {
        match self.kind_and_code() {
            (_, Some(ErrorCode::Text(word))) => word.to_owned(),
            (kind, _) => kind.to_owned(),
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Self::Field { param, .. } | Self::Unsupported { param, .. } => Some(param),
            Self::ContextOverflow { param, .. } => Some(param),
            Self::UnknownModel { .. } => Some("model"),
            _ => None,
        }
    }

    fn kind_and_code(&self) -> (&'static str, Option<ErrorCode>) {
        let text = |code| Some(ErrorCode::Text(code));
        match self {
            Self::BadJson { .. } | Self::BodyBroken => ("invalid_request_error", None),
            Self::Field { .. } => ("invalid_request_error", text("invalid_value")),
            Self::Unsupported { .. } => ("invalid_request_error", text("unsupported_parameter")),
            Self::ContextOverflow { .. } => {
                ("invalid_request_error", text("context_length_exceeded"))
            }
            Self::UnknownModel { .. } => ("invalid_request_error", text("model_not_found")),
            Self::InvalidKey => ("invalid_request_error", text("invalid_api_key")),
            Self::HostRefused { .. } => ("invalid_request_error", text("host_not_allowed")),
            Self::UnknownRoute { .. } => ("invalid_request_error", text("unknown_url")),
            Self::MethodNotAllowed { .. } => ("invalid_request_error", text("method_not_allowed")),
            Self::BodyTooLarge { .. } => ("invalid_request_error", text("request_too_large")),
            Self::BodyTooSlow { .. } => ("invalid_request_error", text("request_timeout")),
            Self::MediaType { .. } => ("invalid_request_error", text("unsupported_media_type")),
            Self::QueueFull { .. } => ("rate_limit_error", text("queue_full")),
            // The numeric code and the type are llama.cpp's, which clients wait for while a model loads.
            Self::NoSlot | Self::Loading | Self::Stopping => {
                ("unavailable_error", Some(ErrorCode::Number(503)))
            }
            Self::TimedOut { .. } => ("timeout_error", text("timeout")),
            Self::Internal { .. } => ("server_error", text("internal_error")),
        }
    }
}

/// `{"error": {..}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What happened.
    pub error: ErrorObject,
}

/// The inner object of an error body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorObject {
    /// In words.
    pub message: String,
    /// `invalid_request_error`, `rate_limit_error`, `server_error` and so on.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: &'static str,
    /// The request field at fault.
    pub param: Option<String>,
    /// A word (or the number 503 while the model loads) that programs compare with.
    pub code: Option<ErrorCode>,
    /// Tokens in the prompt, when it does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_prompt_tokens: Option<usize>,
    /// Tokens that the context holds, when the prompt does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_ctx: Option<usize>,
}

/// The `code` of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum ErrorCode {
    /// OpenAI's kind.
    Text(&'static str),
    /// llama.cpp's kind.
    Number(u16),
}

/// A header of OpenAI's clients: `false` stops them from sending the request again.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.body())).into_response();
        let headers = response.headers_mut();
        match &self {
            Self::QueueFull { retry_after, .. } => {
                headers.insert(
                    header::RETRY_AFTER,
                    HeaderValue::from(retry_after.as_secs().max(1)),
                );
            }
            Self::Loading => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(1));
            }
            Self::InvalidKey => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // The same request would take as long again.
            Self::TimedOut { .. } => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_all_four_fields_even_when_they_are_null() {
        let body = serde_json::to_value(ApiError::BodyBroken.body()).unwrap();
        let error = body["error"].as_object().unwrap();
        for field in ["message", "type", "param", "code"] {
            assert!(error.contains_key(field), "{field}");
        }
        assert_eq!(error.len(), 4);
    }

    #[test]
    fn an_overflow_tells_both_numbers() {
        let overflow = ApiError::ContextOverflow {
            param: "messages",
            prompt: 100,
            context: 64,
        };
        let body = serde_json::to_value(overflow.body()).unwrap();
        assert_eq!(body["error"]["code"], "context_length_exceeded");
        assert_eq!(body["error"]["n_prompt_tokens"], 100);
        assert_eq!(body["error"]["n_ctx"], 64);
        assert_eq!(body["error"]["param"], "messages");
    }

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let response = ApiError::QueueFull {
            waiting: 4,
            retry_after: Duration::from_millis(300),
        }
        .into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
