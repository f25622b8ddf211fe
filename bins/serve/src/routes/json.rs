//! Request bodies: size, time and media type, then JSON.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::app::App;
use crate::wire::body::RequestBody;
use crate::wire::error::ApiError;

/// The JSON object of a request.
pub(crate) struct JsonObject(pub(crate) RequestBody);

impl FromRequest<Arc<App>> for JsonObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        check_media_type(&request)?;
        let bytes = read(request, app).await?;
        RequestBody::parse(&bytes).map(Self)
    }
}

/// Only JSON is taken, also because a web page of another origin can send anything else without being asked.
fn check_media_type(request: &Request) -> Result<(), ApiError> {
    let sent = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = sent
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"))
    {
        Ok(())
    } else {
        Err(ApiError::MediaType {
            found: sent.to_owned(),
        })
    }
}

async fn read(request: Request, app: &App) -> Result<Bytes, ApiError> {
    let limits = &app.config.limits;
    let body = Limited::new(request.into_body(), limits.body_bytes);
    let collected = tokio::time::timeout(limits.body_time, body.collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge {
            limit: limits.body_bytes,
        }),
        Ok(Err(_)) => Err(ApiError::BodyBroken),
        Err(_) => Err(ApiError::BodyTooSlow {
            limit: limits.body_time,
        }),
    }
}
