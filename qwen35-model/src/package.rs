//! A verified package, opened to read and write text.

use std::sync::Arc;

use native_manifest::{ManifestError, Snapshot, Verified};
use tt_device::{Contract, Cpu, DeviceError, Isa};

use crate::engine::{Drafting, EngineAbout, EngineOptions, LocalEngine};
use crate::text::{ChatTemplate, GenerationConfig, TextError, Tokenizer, TokenizerFiles};
use crate::trunk::{DraftWeights, LoadOptions, Model};
use crate::weights::PackageWeights;
use crate::{ModelConfig, ModelError};

/// How to open a package on this machine's CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuOptions {
    /// Numerics contract; `host/1` where unset.
    pub contract: Option<Contract>,
    /// Instruction set; the best present where unset.
    pub isa: Option<Isa>,
    /// Compute threads; one per physical core where unset.
    pub threads: Option<usize>,
    /// In which form the draft head is kept; BFP8 where unset.
    pub draft_weights: Option<DraftWeights>,
    /// Sizes and drafting.
    pub engine: EngineOptions,
}

/// What a package opens to.
#[derive(Debug)]
pub struct OpenPackage {
    /// The model, ready to generate.
    pub engine: LocalEngine<Cpu>,
    /// Texts to tokens and back.
    pub tokenizer: Arc<Tokenizer>,
    /// Conversations to prompts.
    pub template: ChatTemplate,
    /// How the model's makers sample.
    pub generation: GenerationConfig,
}

/// Why a package cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// A file that a model needs is not in the package.
    #[error("the package has no checkpoint/{file}")]
    FileMissing {
        /// Its name.
        file: &'static str,
    },
    /// The package's files are not as they were when it was verified.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Config or weights are not those of a model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Tokenizer or chat template are not usable.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The CPU cannot be opened as asked.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Loads the model of a package onto the CPU.
///
/// # Errors
/// [`PackageError::Device`], [`PackageError::Model`], [`PackageError::FileMissing`].
pub fn load_model(
    package: &Snapshot<Verified>,
    options: CpuOptions,
) -> Result<Model<Cpu>, PackageError> {
    let mut cpu = Cpu::builder().contract(options.contract.unwrap_or(Contract::Host1));
    if let Some(isa) = options.isa {
        cpu = cpu.isa(isa);
    }
    if let Some(threads) = options.threads {
        cpu = cpu.threads(threads);
    }
    let device = Arc::new(cpu.open()?);
    let config = ModelConfig::parse(&required(package, "config.json")?)?;
    let defaults = LoadOptions::default();
    let load = LoadOptions {
        mtp: options.engine.drafting != Drafting::Off,
        draft_weights: options.draft_weights.unwrap_or(defaults.draft_weights),
    };
    Ok(Model::load(
        device,
        config,
        &PackageWeights::new(package.clone())?,
        load,
    )?)
}

/// Opens a package: weights on the CPU, tokenizer, chat template.
///
/// # Errors
/// As [`load_model`], and [`PackageError::Text`].
pub fn open(
    package: &Snapshot<Verified>,
    options: CpuOptions,
) -> Result<OpenPackage, PackageError> {
    let tokenizer = required(package, "tokenizer.json")?;
    let tokenizer_config = package.checkpoint_named("tokenizer_config.json")?;
    let generation_config = package.checkpoint_named("generation_config.json")?;
    let template = package.checkpoint_named("chat_template.jinja")?;
    let tokenizer = Tokenizer::from_files(TokenizerFiles {
        tokenizer: &tokenizer,
        config: tokenizer_config.as_deref(),
        generation: generation_config.as_deref(),
    })?;
    let template = ChatTemplate::from_files(template.as_deref(), tokenizer_config.as_deref())?;
    let generation = match &generation_config {
        None => GenerationConfig::default(),
        Some(json) => serde_json::from_slice(json).map_err(|source| TextError::Json {
            file: "generation_config.json",
            source,
        })?,
    };
    let model = Arc::new(load_model(package, options)?);
    let about = EngineAbout {
        model: package.manifest().model.name.clone(),
        package_digest: package.manifest_digest().to_string(),
        ..EngineAbout::default()
    };
    let engine = LocalEngine::new(model, about, options.engine)?;
    Ok(OpenPackage {
        engine,
        tokenizer: Arc::new(tokenizer),
        template,
        generation,
    })
}

fn required(
    package: &Snapshot<Verified>,
    file: &'static str,
) -> Result<bytes::Bytes, PackageError> {
    package
        .checkpoint_named(file)?
        .ok_or(PackageError::FileMissing { file })
}
