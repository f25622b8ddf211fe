//! `/health`: whether requests are answered, and how far loading has come.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::app::App;
use crate::generate::status::{LoadProgress, Status};
use crate::wire::error::{ApiError, ErrorObject};

/// The body of `/health`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct Health {
    /// `ok`, `loading`, `failed` or `stopping`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    status: &'static str,
    /// While it is not ok: as every error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
    /// While it loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    loading: Option<LoadProgress>,
    /// Requests that run.
    slots_processing: usize,
    /// Requests that wait.
    requests_deferred: usize,
}

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/health", responses((status = 200, body = Health), (status = 503, body = Health)),
))]
pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    let error = |error: ApiError| Some(error.body().error);
    let (status, word, error, loading) = match app.seat.status() {
        Status::Ready => (StatusCode::OK, "ok", None, None),
        Status::Loading(progress) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "loading",
            error(ApiError::Loading),
            Some(progress),
        ),
        Status::Failed(message) => {
            let mut told = ApiError::Loading.body().error;
            told.message = format!("the model could not be loaded: {message}");
            (StatusCode::SERVICE_UNAVAILABLE, "failed", Some(told), None)
        }
        Status::Stopping => (
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            error(ApiError::Stopping),
            None,
        ),
    };
    let health = Health {
        status: word,
        error,
        loading,
        slots_processing: usize::from(app.seat.activity.snapshot().task.is_some()),
        requests_deferred: app.seat.queue.waiting(),
    };
    (status, Json(health)).into_response()
}
