//! `/v1/completions`.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use qwen35_model::text::OutputOptions;

use super::json::JsonObject;
use super::on_blocking_thread;
use crate::app::App;
use crate::controls::{Controls, MAX_CHOICES, MAX_TOP_LOGPROBS};
use crate::generate::job::Run;
use crate::model::Model;
use crate::prepare::{constraint, fit, special, text_error, token_ids};
use crate::reply::chat::Head;
use crate::reply::completions::{CompletionReply, CompletionWishes};
use crate::reply::tally::Tally;
use crate::reply::token_text::OffsetUnit;
use crate::reply::{streamed, whole};
use crate::wire::body::{Fields, RequestBody};
use crate::wire::completions::{CompletionFields, Prompts};
use crate::wire::control::ControlFields;
use crate::wire::error::ApiError;
use crate::wire::unsupported::{self, Route};

/// OpenAI's default for this route.
const DEFAULT_MAX_TOKENS: usize = 16;

#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/v1/completions", request_body = crate::openapi::CompletionRequest,
    responses(
        (status = 200, content(
            (crate::wire::completions::Completion = "application/json"),
            (serde_json::Value = "text/event-stream"),
        )),
        (status = "4XX", body = crate::wire::error::ErrorBody),
        (status = "5XX", body = crate::wire::error::ErrorBody),
    ),
))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    JsonObject(body): JsonObject,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let prepared = {
        let app = Arc::clone(&app);
        on_blocking_thread(move || prepare(&app, &body, &headers)).await?
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
    reply: CompletionReply,
    runs: Vec<Run>,
    controls: Controls,
}

fn prepare(app: &App, body: &RequestBody, headers: &HeaderMap) -> Result<Prepared, ApiError> {
    let model = app.model()?;
    let fields: CompletionFields = body.read()?;
    let shared: ControlFields = body.read()?;
    app.check_model_name(&model, shared.model.as_deref())?;
    unsupported::check(body, Route::Completions)?;
    app.note_ignored(
        "completions",
        body.unread(&[CompletionFields::NAMES, ControlFields::NAMES]),
    );
    let controls = Controls::check(&shared, &model)?;
    if fields.best_of.is_some_and(|best_of| best_of != controls.n) {
        return Err(ApiError::Unsupported {
            param: "best_of".into(),
            hint: Some("ask for n answers and choose among them"),
        });
    }
    let top_logprobs = match fields.logprobs {
        Some(top) if top > MAX_TOP_LOGPROBS => {
            return Err(ApiError::field(
                "logprobs",
                format!("{top} is not in 0..={MAX_TOP_LOGPROBS}"),
            ));
        }
        top => top,
    };
    let echo = fields.echo == Some(true);
    let runs = runs(&fields, &controls, &model, echo, top_logprobs)?;
    let id = app.new_id("cmpl-");
    if app.config.log_prompts {
        for run in runs.iter().filter(|run| run.choice % controls.n == 0) {
            let prompt = model
                .text
                .tokenizer
                .decode(&run.prompt, qwen35_model::text::SpecialTokens::Keep);
            tracing::info!(id, prompt, "completion prompt");
        }
    }
    let wishes = CompletionWishes {
        logprobs: top_logprobs.is_some(),
        echo,
        token_ids: controls.return_token_ids,
        stream: controls.stream,
        special: special(&controls),
        unit: offset_unit(&fields, headers)?,
        stops: controls.stop.clone(),
        eos: model.eos().map(u32::from).collect(),
    };
    let head = Head {
        id: id.clone(),
        created: crate::unix_seconds(),
        model: app.served_name(&model),
        fingerprint: model.fingerprint(),
    };
    let prompts = runs.iter().map(|run| Arc::clone(&run.prompt));
    let reply = CompletionReply::new(head, wishes, Arc::clone(&model.text.tokenizer), prompts);
    Ok(Prepared {
        id,
        reply,
        runs,
        controls,
    })
}

fn runs(
    fields: &CompletionFields,
    controls: &Controls,
    model: &Model,
    echo: bool,
    top_logprobs: Option<usize>,
) -> Result<Vec<Run>, ApiError> {
    let wanted = controls.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let constraint = constraint(
        model,
        false,
        None,
        controls.form.clone(),
        &controls.sampler.stop_tokens,
    )?;
    let tokenizer = &model.text.tokenizer;
    let prompts = match &fields.prompt {
        None => return Err(ApiError::field("prompt", "this field is required")),
        Some(Prompts::Texts(texts)) => texts
            .iter()
            .map(|text| {
                tokenizer
                    .encode_with_controls(text)
                    .map_err(|error| text_error(&error))
            })
            .collect::<Result<Vec<_>, _>>()?,
        Some(Prompts::Tokens(lists)) => lists
            .iter()
            .map(|ids| token_ids(ids, model, "prompt"))
            .collect::<Result<Vec<_>, _>>()?,
    };
    if prompts.is_empty() {
        return Err(ApiError::field("prompt", "the prompt is empty"));
    }
    if prompts.len().saturating_mul(controls.n) > MAX_CHOICES {
        return Err(ApiError::field(
            "prompt",
            format!("prompts times n are more than {MAX_CHOICES}"),
        ));
    }
    let mut runs = Vec::with_capacity(prompts.len() * controls.n);
    for prompt in prompts {
        let fitted = fit(prompt, Some(wanted), controls, model, "prompt")?;
        for answer in 0..controls.n {
            let mut output = OutputOptions::default();
            output.special = special(controls);
            output.stop.clone_from(&controls.stop);
            output.include_stop = controls.include_stop;
            output.min_tokens = controls.sampler.min_tokens;
            runs.push(Run {
                choice: runs.len(),
                prompt: Arc::clone(&fitted.prompt),
                max_tokens: fitted.max_tokens,
                sampler: controls.sampler_of(answer),
                top_logprobs,
                prompt_logprobs: top_logprobs.filter(|_| echo),
                speculative: controls.speculative,
                cache_prompt: controls.cache_prompt,
                checkpoints: Vec::new(),
                output,
                constraint: constraint.clone(),
            });
        }
    }
    Ok(runs)
}

/// Clients cut the text at these offsets with their own language's strings: Go counts bytes, and says that it is Go.
fn offset_unit(fields: &CompletionFields, headers: &HeaderMap) -> Result<OffsetUnit, ApiError> {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok());
    match fields.text_offset_unit.as_deref() {
        Some("bytes") => Ok(OffsetUnit::Bytes),
        Some("chars") => Ok(OffsetUnit::Characters),
        Some(other) => Err(ApiError::field(
            "text_offset_unit",
            format!("{other:?} is none of chars, bytes"),
        )),
        None if agent.is_some_and(|agent| agent.starts_with("Go-http-client/")) => {
            Ok(OffsetUnit::Bytes)
        }
        None => Ok(OffsetUnit::Characters),
    }
}
