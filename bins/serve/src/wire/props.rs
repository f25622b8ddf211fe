//! `/props`, `/slots` and `/hardware`.

use serde::Serialize;

/// The answer of `/props`: what llama.cpp tells, and what benchmark clients add to it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Props {
    /// How requests are answered that say nothing.
    pub default_generation_settings: DefaultSettings,
    /// Requests that run at the same time.
    pub total_slots: usize,
    /// Name under which the model is served.
    pub model_alias: String,
    /// Where the package is.
    pub model_path: String,
    /// What it can read.
    pub modalities: Modalities,
    /// The chat template.
    pub chat_template: String,
    /// Begins a text; Qwen3.5 has none.
    pub bos_token: Option<String>,
    /// Ends a turn.
    pub eos_token: Option<String>,
    /// Name and version of this server.
    pub build_info: String,
    /// Numerics contract.
    pub contract: String,
    /// SHA-256 of the package's manifest.
    pub package_digest: String,
    /// How the weights are stored.
    pub quantization: String,
    /// Name of this server.
    #[serde(rename = "engineName")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub engine_name: &'static str,
    /// Its version.
    #[serde(rename = "engineVersion")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub engine_version: &'static str,
    /// The machine.
    #[serde(flatten)]
    pub hardware: Hardware,
}

/// How requests are answered that say nothing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DefaultSettings {
    /// Prompt and answer together, in tokens.
    pub n_ctx: usize,
    /// Whether it drafts.
    pub speculative: bool,
    /// Sampling.
    pub params: DefaultParams,
}

/// Sampling of requests that say nothing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DefaultParams {
    /// Softmax temperature.
    pub temperature: f32,
    /// Most likely tokens kept; 0 keeps all.
    pub top_k: usize,
    /// Probability kept.
    pub top_p: f32,
    /// Least share of the best token's probability.
    pub min_p: f32,
    /// Divisor of seen tokens' logits.
    pub repeat_penalty: f32,
    /// Most tokens of a chat answer; -1 is no limit but the context.
    pub n_predict: i64,
}

/// What a model can read.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Modalities {
    /// Images.
    pub vision: bool,
    /// Sound.
    pub audio: bool,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    /// The processor's name.
    pub cpu: String,
    /// Its logical cores.
    pub cpu_cores: usize,
    /// Memory in GiB.
    pub ram_gb: f64,
    /// Name of the accelerator in use; empty on a plain CPU.
    pub gpu_name: String,
    /// Accelerators in use.
    pub gpu_count: usize,
    /// Their memory in GiB.
    pub vram_gb: f64,
    /// The operating system.
    pub os: String,
    /// Device and instruction set that compute.
    pub device: String,
}

/// One slot, as llama.cpp tells it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Slot {
    /// Always 0: there is one.
    pub id: usize,
    /// The request that runs, or -1.
    pub id_task: i64,
    /// Its id in the answer.
    pub request: Option<String>,
    /// Whether a request runs.
    pub is_processing: bool,
    /// Prompt and answer together, in tokens.
    pub n_ctx: usize,
    /// Whether it drafts.
    pub speculative: bool,
    /// Tokens of the prompt of the request that runs, or ran last.
    pub n_prompt_tokens: usize,
    /// Of those, the ones that were computed so far.
    pub n_prompt_tokens_processed: usize,
    /// Of those, the ones whose state was still there.
    pub n_prompt_tokens_cache: usize,
    /// Tokens generated.
    pub n_decoded: usize,
    /// llama.cpp's place for the same number.
    pub next_token: Vec<NextToken>,
}

/// Progress of an answer.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextToken {
    /// Tokens generated.
    pub n_decoded: usize,
}
