//! `/v1/responses`, without memory between two requests.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::json::JsonObject;
use super::on_blocking_thread;
use crate::app::App;
use crate::chat_request::{render, runs};
use crate::controls::Controls;
use crate::generate::job::Run;
use crate::model::Model;
use crate::reply::responses::ResponsesReply;
use crate::reply::tally::Tally;
use crate::reply::{streamed, whole};
use crate::responses_request::to_chat;
use crate::wire::body::RequestBody;
use crate::wire::chat::ChatFields;
use crate::wire::control::ControlFields;
use crate::wire::error::ApiError;
use crate::wire::responses::{ReasoningTold, ResponseFields, ResponseObject};
use crate::wire::unsupported::{self, Route};

#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/v1/responses", request_body = ResponseFields,
    responses(
        (status = 200, content(
            (ResponseObject = "application/json"),
            (Value = "text/event-stream"),
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
    reply: ResponsesReply,
    runs: Vec<Run>,
    controls: Controls,
}

fn prepare(app: &App, body: &RequestBody) -> Result<Prepared, ApiError> {
    let model = app.model()?;
    let fields: ResponseFields = body.read()?;
    app.check_model_name(&model, fields.model.as_deref())?;
    let chat = to_chat(body, &fields)?;
    unsupported::check(&chat, Route::Chat)?;
    let chat_fields: ChatFields = chat.read()?;
    let control_fields: ControlFields = chat.read()?;
    let controls = Controls::check(&control_fields, &model)?;
    if controls.n != 1 {
        return Err(ApiError::field("n", "a response is one answer"));
    }
    let number = app.new_id("");
    let asked = renamed(render(&chat_fields, &model, &app.config))?;
    let runs = renamed(runs(
        &asked,
        &chat_fields,
        &controls,
        &model,
        &app.config,
        &number,
    ))?;
    let id = format!("resp_{number}");
    let response = opening(app, &model, fields, &controls, id.clone());
    let streaming = controls.stream.is_some();
    Ok(Prepared {
        id,
        reply: ResponsesReply::new(response, number, streaming),
        runs,
        controls,
    })
}

/// What the chat route calls `messages` came as `input`.
fn renamed<T>(result: Result<T, ApiError>) -> Result<T, ApiError> {
    result.map_err(|error| match error {
        ApiError::Field { param, message } if param == "messages" => {
            ApiError::field("input", message)
        }
        ApiError::ContextOverflow {
            prompt, context, ..
        } => ApiError::ContextOverflow {
            param: "input",
            prompt,
            context,
        },
        other => other,
    })
}

fn opening(
    app: &App,
    model: &Model,
    fields: ResponseFields,
    controls: &Controls,
    id: String,
) -> ResponseObject {
    let text_format = fields.text.and_then(|text| text.format);
    ResponseObject {
        id,
        object: "response",
        created_at: crate::unix_seconds(),
        status: "in_progress",
        error: None,
        incomplete_details: None,
        instructions: fields.instructions,
        max_output_tokens: fields.max_output_tokens,
        model: app.served_name(model),
        output: Vec::new(),
        parallel_tool_calls: fields.parallel_tool_calls.unwrap_or(true),
        previous_response_id: None,
        reasoning: ReasoningTold {
            effort: fields.reasoning.and_then(|reasoning| reasoning.effort),
            summary: None,
        },
        store: false,
        temperature: f64::from(controls.sampler.temperature),
        text: json!({"format": text_format.unwrap_or_else(|| json!({"type": "text"}))}),
        tool_choice: fields.tool_choice.unwrap_or_else(|| json!("auto")),
        tools: fields.tools.unwrap_or_default(),
        top_p: f64::from(controls.sampler.top_p),
        truncation: fields.truncation.unwrap_or_else(|| "disabled".into()),
        usage: None,
        metadata: Value::Object(fields.metadata.unwrap_or_default()),
    }
}
