//! `/metrics`: Prometheus text.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::metrics::{Exposition, Gauges};
use crate::prepare::internal;

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/metrics", responses((status = 200, body = String, content_type = "text/plain")),
))]
pub(crate) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let accepts = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let exposition = match accepts {
        Some(kinds) if kinds.contains("application/openmetrics-text") => Exposition::OpenMetrics,
        _ => Exposition::Prometheus,
    };
    let model = app.seat.model.get();
    let snapshot = app.seat.activity.snapshot();
    let counts = snapshot.counts;
    let gauges = Gauges {
        running: usize::from(snapshot.task.is_some()),
        waiting: app.seat.queue.waiting(),
        context_used: match snapshot.task {
            Some(_) => counts.prefilled + counts.decoded,
            None => 0,
        },
        context: model.map_or(0, |model| model.about.context),
    };
    let name = model
        .map(|model| app.served_name(model))
        .unwrap_or_default();
    match app.seat.metrics.render(&name, gauges, exposition) {
        Ok(text) => ([(header::CONTENT_TYPE, exposition.content_type())], text).into_response(),
        Err(error) => internal(&error.to_string()).into_response(),
    }
}
