//! `/props`, `/slots` and `/hardware`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use crate::app::App;
use crate::controls::Controls;
use crate::hardware;
use crate::wire::control::ControlFields;
use crate::wire::error::ApiError;
use crate::wire::props::{
    DefaultParams, DefaultSettings, Hardware, Modalities, NextToken, Props, Slot,
};

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/props",
    responses((status = 200, body = Props), (status = "5XX", body = crate::wire::error::ErrorBody)),
))]
pub(crate) async fn props(State(app): State<Arc<App>>) -> Result<Json<Props>, ApiError> {
    let model = app.model()?;
    let sampler = Controls::check(&ControlFields::default(), &model)?.sampler;
    let tokenizer = &model.text.tokenizer;
    let facts = &model.text.facts;
    Ok(Json(Props {
        default_generation_settings: DefaultSettings {
            n_ctx: model.about.context,
            speculative: model.about.mtp,
            params: DefaultParams {
                temperature: sampler.temperature,
                top_k: sampler.top_k,
                top_p: sampler.top_p,
                min_p: sampler.min_p,
                repeat_penalty: sampler.repetition_penalty,
                n_predict: -1,
            },
        },
        total_slots: 1,
        model_alias: app.served_name(&model),
        model_path: facts.path.clone(),
        modalities: Modalities::default(),
        chat_template: model.text.template.source().to_owned(),
        bos_token: tokenizer.bos_token().map(str::to_owned),
        eos_token: tokenizer.eos_token().map(str::to_owned),
        build_info: concat!("qwen35-serve ", env!("CARGO_PKG_VERSION")).to_owned(),
        contract: model.about.contract.clone(),
        package_digest: model.about.package_digest.clone(),
        quantization: facts.quantization.clone(),
        engine_name: "qwen35-serve",
        engine_version: env!("CARGO_PKG_VERSION"),
        hardware: hardware::look(&model.about.device),
    }))
}

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/hardware",
    responses((status = 200, body = Hardware), (status = "5XX", body = crate::wire::error::ErrorBody)),
))]
pub(crate) async fn machine(State(app): State<Arc<App>>) -> Result<Json<Hardware>, ApiError> {
    Ok(Json(hardware::look(&app.model()?.about.device)))
}

/// What may be asked of `/slots`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(default)]
pub(crate) struct SlotQuery {
    /// 1: a 503 when no slot is free.
    fail_on_no_slot: Option<u8>,
}

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/slots", params(SlotQuery),
    responses(
        (status = 200, body = Vec<Slot>),
        (status = 400, body = crate::wire::error::ErrorBody),
        (status = 503, body = crate::wire::error::ErrorBody),
    ),
))]
pub(crate) async fn slots(
    State(app): State<Arc<App>>,
    query: Result<Query<SlotQuery>, QueryRejection>,
) -> Result<Json<Vec<Slot>>, ApiError> {
    let Query(query) =
        query.map_err(|error| ApiError::field("fail_on_no_slot", error.body_text()))?;
    let model = app.model()?;
    let snapshot = app.seat.activity.snapshot();
    let counts = snapshot.counts;
    let is_processing = snapshot.task.is_some();
    if is_processing && query.fail_on_no_slot.is_some_and(|asked| asked != 0) {
        return Err(ApiError::NoSlot);
    }
    let number = i64::try_from(snapshot.requests).unwrap_or(i64::MAX);
    Ok(Json(vec![Slot {
        id: 0,
        id_task: if is_processing { number - 1 } else { -1 },
        request: snapshot.task,
        is_processing,
        n_ctx: model.about.context,
        speculative: model.about.mtp,
        n_prompt_tokens: counts.prompt,
        n_prompt_tokens_processed: counts.prefilled - counts.cached.min(counts.prefilled),
        n_prompt_tokens_cache: counts.cached,
        n_decoded: counts.decoded,
        next_token: vec![NextToken {
            n_decoded: counts.decoded,
        }],
    }]))
}
