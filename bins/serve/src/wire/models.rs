//! `/v1/models`.

use serde::Serialize;

/// A list of models.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelList {
    /// `list`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub object: &'static str,
    /// The model, under each of its names.
    pub data: Vec<ModelCard>,
}

/// A model.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelCard {
    /// Its name.
    pub id: String,
    /// `model`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub object: &'static str,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// Who serves it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub owned_by: &'static str,
    /// The name under which its package knows it.
    pub root: String,
    /// Prompt and answer together, in tokens.
    pub max_model_len: usize,
    /// Facts about it.
    pub meta: ModelMeta,
}

/// Facts about a model.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelMeta {
    /// Tokens of the vocabulary, padding included.
    pub n_vocab: usize,
    /// Prompt and answer together, in tokens.
    pub n_ctx: usize,
    /// Numerics contract.
    pub contract: String,
    /// Device and instruction set.
    pub device: String,
    /// Whether it can draft.
    pub mtp: bool,
    /// SHA-256 of the package's manifest.
    pub package_digest: String,
}
