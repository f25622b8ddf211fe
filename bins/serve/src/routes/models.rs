//! `/v1/models`: what is served here.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};

use crate::app::App;
use crate::model::Model;
use crate::wire::error::ApiError;
use crate::wire::models::{ModelCard, ModelList, ModelMeta};

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/v1/models",
    responses((status = 200, body = ModelList), (status = 503, body = crate::wire::error::ErrorBody)),
))]
pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Json<ModelList>, ApiError> {
    let model = app.model()?;
    let names = match &app.config.names.served[..] {
        [] => vec![model.about.model.clone()],
        given => given.to_vec(),
    };
    Ok(Json(ModelList {
        object: "list",
        data: names.into_iter().map(|name| card(name, &model)).collect(),
    }))
}

#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/v1/models/{id}", params(("id" = String, Path)),
    responses(
        (status = 200, body = ModelCard),
        (status = 404, body = crate::wire::error::ErrorBody),
        (status = 503, body = crate::wire::error::ErrorBody),
    ),
))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ModelCard>, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::field("id", error.body_text()))?;
    let model = app.model()?;
    app.check_model_name(&model, Some(&id))?;
    Ok(Json(card(id, &model)))
}

fn card(id: String, model: &Model) -> ModelCard {
    let about = &model.about;
    ModelCard {
        id,
        object: "model",
        created: model.created,
        owned_by: "qwen35-serve",
        root: about.model.clone(),
        max_model_len: about.context,
        meta: ModelMeta {
            n_vocab: about.vocab_size,
            n_ctx: about.context,
            contract: about.contract.clone(),
            device: about.device.clone(),
            mtp: about.mtp,
            package_digest: about.package_digest.clone(),
        },
    }
}
