//! `/v1/chat/completions`.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::json::JsonObject;
use super::on_blocking_thread;
use crate::app::App;
use crate::chat_request::{render, runs};
use crate::controls::Controls;
use crate::generate::job::Run;
use crate::reply::chat::{ChatReply, ChatWishes, Head};
use crate::reply::tally::Tally;
use crate::reply::{streamed, whole};
use crate::wire::body::{Fields, RequestBody};
use crate::wire::chat::ChatFields;
use crate::wire::control::ControlFields;
use crate::wire::error::ApiError;
use crate::wire::unsupported::{self, Route};

#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/v1/chat/completions", request_body = crate::openapi::ChatCompletionRequest,
    responses(
        (status = 200, content(
            (crate::wire::chat::ChatCompletion = "application/json"),
            (serde_json::Value = "text/event-stream"),
        )),
        (status = "4XX", body = crate::wire::error::ErrorBody),
        (status = "5XX", body = crate::wire::error::ErrorBody),
    ),
))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let prepared = {
        let app = Arc::clone(&app);
        on_blocking_thread(move || prepare(&app, &body)).await?
    };
    let Prepared {
        id,
        reply,
        runs,
        controls,
    } = prepared;
    let tally = Tally::new(runs.len(), controls.n);
    let events = app.submit(&id, runs, arrived)?;
    if controls.stream.is_some() {
        Ok(streamed(events, reply, tally, app.config.limits.ping))
    } else {
        Ok(Json(whole(events, reply, tally).await?).into_response())
    }
}

struct Prepared {
    id: String,
    reply: ChatReply,
    runs: Vec<Run>,
    controls: Controls,
}

fn prepare(app: &App, body: &RequestBody) -> Result<Prepared, ApiError> {
    let model = app.model()?;
    let fields: ChatFields = body.read()?;
    let shared: ControlFields = body.read()?;
    app.check_model_name(&model, shared.model.as_deref())?;
    unsupported::check(body, Route::Chat)?;
    app.note_ignored(
        "chat",
        body.unread(&[ChatFields::NAMES, ControlFields::NAMES]),
    );
    let controls = Controls::check(&shared, &model)?;
    let prompt = render(&fields, &model, &app.config)?;
    let id = app.new_id("");
    let runs = runs(&prompt, &fields, &controls, &model, &app.config, &id)?;
    if app.config.log_prompts {
        tracing::info!(id, prompt = prompt.rendered.text(), "chat prompt");
    }
    let prompt_ids = runs
        .first()
        .map(|run| run.prompt.iter().copied().map(u32::from).collect());
    let wishes = ChatWishes {
        logprobs: fields.logprobs == Some(true),
        reasoning: fields.include_reasoning != Some(false),
        reasoning_alias: app.config.reasoning_alias,
        prompt_ids: prompt_ids.filter(|_| controls.return_token_ids),
        stream: controls.stream,
        stops: controls.stop.clone(),
        eos: model.eos().map(u32::from).collect(),
    };
    let id = format!("chatcmpl-{id}");
    let head = Head {
        id: id.clone(),
        created: crate::unix_seconds(),
        model: app.served_name(&model),
        fingerprint: model.fingerprint(),
    };
    let tokenizer = Arc::clone(&model.text.tokenizer);
    Ok(Prepared {
        id,
        reply: ChatReply::new(head, wishes, tokenizer, runs.len()),
        runs,
        controls,
    })
}
