//! The routes of the server.

pub(crate) mod chat;
pub(crate) mod completions;
mod fallback;
pub(crate) mod health;
mod json;
pub(crate) mod metrics;
pub(crate) mod models;
pub(crate) mod props;
pub(crate) mod responses;
pub(crate) mod tokens;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};

use crate::app::App;
use crate::boundary;
use crate::prepare::internal;
use crate::wire::error::ApiError;

/// Runs a request's preparation where computing does not hold up other requests.
async fn on_blocking_thread<T, F>(prepare: F) -> Result<T, ApiError>
where
    F: FnOnce() -> Result<T, ApiError> + Send + 'static,
    T: Send + 'static,
{
    match tokio::task::spawn_blocking(prepare).await {
        Ok(prepared) => prepared,
        Err(_) => Err(internal("preparing a request panicked")),
    }
}

/// The whole service.
pub fn router(app: Arc<App>) -> Router {
    let routes = Router::new()
        .route("/v1/chat/completions", post(chat::create))
        .route("/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/completions", post(completions::create))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        // Names of models hold slashes.
        .route("/v1/models/{*id}", get(models::one))
        .route("/models/{*id}", get(models::one))
        .route("/health", get(health::health))
        .route("/v1/health", get(health::health))
        .route("/ready", get(health::health))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/responses", post(responses::create))
        .route("/responses", post(responses::create))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/tokenizer_info", get(tokens::info))
        .route("/apply-template", post(tokens::apply_template))
        .route("/props", get(props::props))
        .route("/slots", get(props::slots))
        .route("/hardware", get(props::machine))
        .merge(documented())
        .fallback(fallback::unknown_route)
        .method_not_allowed_fallback(fallback::method_not_allowed);
    let routes = match boundary::cors(&app.config.boundary.cors_origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes
        .layer(middleware::from_fn(fallback::catch_panic))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            boundary::guard,
        ))
        .with_state(app)
}

#[cfg(feature = "openapi")]
fn documented() -> Router<Arc<App>> {
    Router::new().route("/openapi.json", get(crate::openapi::document))
}

#[cfg(not(feature = "openapi"))]
fn documented() -> Router<Arc<App>> {
    Router::new()
}
