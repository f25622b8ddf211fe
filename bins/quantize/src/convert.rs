//! From a Hugging Face folder to a native package.

use std::fs;
use std::path::{Path, PathBuf};

use native_manifest::schema::{
    FORMAT, LosslessTensor, ModelIdentity, MtpRecord, NativeManifest, PRECISION_OVERRIDES_FILE,
    PRECISION_SUMMARY_FILE, PrecisionOverrides, Producer, RuntimeRelease, TensorOrigin,
    TensorRecord,
};
use native_manifest::{
    Colophon, Entry, FileSink, Inventory, ManifestError, PackagePath, PackageWriter, RepoId,
    Revision, Sha256Digest, StoredLayout, StoredType,
};
use qwen35_model::weights::{Checkpoint, RawTensor};
use qwen35_model::{ModelConfig, ModelError};
use rayon::prelude::*;

use crate::plan::{Plan, PlanError, PlannedTensor, SourceTypes, mtp_file_header, sorted};
use crate::precision::Precision;
use crate::store::{StoreError, store};

/// Files carried as they are, where the source has them.
const CARRIED: [&str; 5] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];
/// Changes when the same source and plan would give other bytes, so that a half-made package is not gone on with.
const RECIPE: &str = "1";

/// A checkpoint to be made into a package.
#[derive(Debug)]
pub struct SourceModel {
    folder: PathBuf,
    config_json: Vec<u8>,
    /// Its shape.
    pub config: ModelConfig,
    /// Its tensors.
    pub checkpoint: Checkpoint,
}

/// What a package says of itself besides its weights.
#[derive(Clone, Debug, Default)]
pub struct PackageIdentity {
    /// Name of the release.
    pub release: String,
    /// Name of the model, for people.
    pub name: String,
    /// Where the source was published.
    pub repository: Option<RepoId>,
    /// Which revision of it.
    pub revision: Option<Revision>,
    /// The overrides that the plan was made with, as typed.
    pub overrides: Option<PrecisionOverrides>,
}

/// Told about a conversion.
pub trait ConvertProgress: Sync {
    /// So many bytes of source are to be read.
    fn started(&self, _bytes: u64) {}
    /// The next tensor.
    fn tensor(&self, _name: &str, _precision: Precision) {}
    /// So many bytes of source are done.
    fn advanced(&self, _bytes: u64) {}
}

impl ConvertProgress for () {}

/// Why a checkpoint was not converted. Nothing is left under the target's name; what was finished waits beside it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] ModelError),
    /// A file of the source cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The source says that its weights are quantised already.
    #[error("{}: the weights are quantised already ({method}); quantising them again loses more", path.display())]
    Quantised {
        /// Its config.
        path: PathBuf,
        /// What the config says.
        method: String,
    },
    /// The disk is too full.
    #[error("{} has {free} bytes free, the package takes {needed}", path.display())]
    DiskFull {
        /// Where the package goes.
        path: PathBuf,
        /// Bytes still to be written.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// A tensor cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan does not hold.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The package cannot be written.
    #[error(transparent)]
    Package(#[from] ManifestError),
}

impl SourceModel {
    /// Opens a Hugging Face folder.
    ///
    /// # Errors
    /// [`ConvertError::Read`], [`ConvertError::Source`]; [`ConvertError::Quantised`] unless `requantise`.
    pub fn open(folder: &Path, requantise: bool) -> Result<Self, ConvertError> {
        let path = folder.join("config.json");
        let config_json = fs::read(&path).map_err(|source| ConvertError::Read {
            path: path.clone(),
            source,
        })?;
        let config = ModelConfig::parse(&config_json)?;
        if let Some(method) = quantisation(&config_json).filter(|_| !requantise) {
            return Err(ConvertError::Quantised { path, method });
        }
        Ok(Self {
            folder: folder.to_owned(),
            config_json,
            config,
            checkpoint: Checkpoint::open(folder)?,
        })
    }

    /// Element types of the checkpoint's tensors, for a plan.
    ///
    /// # Errors
    /// [`ConvertError::Source`] for a tensor of a type that weights cannot have.
    pub fn types(&self) -> Result<SourceTypes, ConvertError> {
        let typed = |name: &str| Ok((name.to_owned(), self.checkpoint.tensor(name)?.dtype));
        self.checkpoint.names().map(typed).collect()
    }
}

/// Makes the package of `plan` at `target`.
///
/// Tensors are read, packed and written one after another in pieces of bounded size, by all threads of the current
/// rayon pool. The bytes depend on source, plan and identity alone. A conversion that was interrupted goes on where it
/// was when it is started again.
///
/// # Errors
/// [`ConvertError`]; the target does not exist then.
pub fn convert(
    source: &SourceModel,
    plan: &Plan,
    identity: PackageIdentity,
    target: &Path,
    progress: &dyn ConvertProgress,
) -> Result<Inventory, ConvertError> {
    let mut writer = PackageWriter::open(target)?;
    let types = source.types()?;
    let total = source
        .checkpoint
        .files()
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    progress.started(total);
    let mut files = Vec::new();
    let mut tensors = Vec::with_capacity(plan.tensors.len());
    for tensor in &plan.tensors {
        progress.tensor(&tensor.name, tensor.precision);
        let raw = source.checkpoint.tensor(&tensor.source.name)?;
        let (entry, record) = convert_tensor(&mut writer, tensor, &raw)?;
        progress.advanced(source_bytes(tensor, &raw));
        files.push(entry);
        tensors.push(record);
    }
    let mtp = if plan.mtp.is_empty() || !has_mtp(source, plan) {
        None
    } else {
        let (entry, record) = carry_mtp(&mut writer, source, plan, &types)?;
        progress.advanced(entry.bytes);
        files.push(entry);
        Some(record)
    };
    let mut carried = Vec::new();
    for name in CARRIED {
        let path = source.folder.join(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(ConvertError::Read { path, source }),
        };
        let entry = writer.add_bytes(PackagePath::parse(&format!("checkpoint/{name}"))?, &bytes)?;
        carried.push(Entry {
            path: PackagePath::parse(name)?,
            ..entry.clone()
        });
        files.push(entry);
    }
    let mut manifest = NativeManifest {
        format: FORMAT.to_owned(),
        model: ModelIdentity {
            architecture: architecture(&source.config_json),
            name: identity.name,
            repository: identity.repository.clone(),
            revision: identity.revision.clone(),
            files: source_inventory(source)?,
            other: serde_json::Map::new(),
        },
        rounding: bfp_format::Rounding::HostNearestEven.as_str().to_owned(),
        norm_offset: 1.0,
        producer: Some(Producer {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        files: Inventory::new(carried)?,
        tensors,
        mtp,
        totals: Default::default(),
        other: serde_json::Map::new(),
    };
    manifest.totals = native_manifest::schema::TensorTotals::of(&manifest);
    let summary = native_manifest::schema::PrecisionSummary::of(&manifest);
    files.push(writer.add_bytes(
        PRECISION_SUMMARY_FILE.parse()?,
        &native_manifest::to_json(&summary)?,
    )?);
    if let Some(overrides) = &identity.overrides {
        files.push(writer.add_bytes(
            PRECISION_OVERRIDES_FILE.parse()?,
            &native_manifest::to_json(overrides)?,
        )?);
    }
    let release = RuntimeRelease {
        format: FORMAT.to_owned(),
        release: identity.release,
        repository: identity.repository,
        revision: identity.revision,
        image: None,
        inventory: Inventory::default(),
        totals: None,
        other: serde_json::Map::new(),
    };
    Ok(writer.finish(files, Colophon { release, manifest })?)
}

fn convert_tensor(
    writer: &mut PackageWriter,
    tensor: &PlannedTensor,
    raw: &RawTensor,
) -> Result<(Entry, TensorRecord), ConvertError> {
    let rows = source_range(tensor, raw);
    let sha256 = Sha256Digest::of(raw.bytes.get(rows).unwrap_or_default());
    let file = PackagePath::parse(&format!("tensors/{}.tensorbin", tensor.name))?;
    let path = PackagePath::parse(&format!("checkpoint/{file}"))?;
    let made_from = format!(
        "{sha256} {} {:?} recipe {RECIPE}",
        tensor.precision, tensor.shape
    );
    let entry = match writer.finished(&path, &made_from) {
        Some(entry) => entry.clone(),
        None => writer.add(
            path,
            &made_from,
            |sink: &mut FileSink| -> Result<(), ConvertError> {
                Ok(store(tensor, raw, &mut |bytes| {
                    sink.write(bytes).map_err(std::io::Error::other)
                })?)
            },
        )?,
    };
    let record = TensorRecord {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        dtype: match tensor.precision {
            Precision::Bfp4 => StoredType::Bfp4,
            Precision::Bfp8 => StoredType::Bfp8,
            Precision::Bf16 => StoredType::Bf16,
            Precision::F32 => StoredType::F32,
        },
        layout: if tensor.role.is_linear() {
            StoredLayout::Tile
        } else {
            StoredLayout::RowMajor
        },
        file,
        bytes: entry.bytes,
        sha256: entry.sha256,
        source: TensorOrigin {
            name: tensor.source.name.clone(),
            shape: raw.shape.clone(),
            dtype: raw.dtype.name().to_owned(),
            first_row: tensor.source.first,
            rows: tensor.source.rows,
            sha256,
        },
        other: serde_json::Map::new(),
    };
    Ok((entry, record))
}

/// The MTP head as it is, in one safetensors file.
fn carry_mtp(
    writer: &mut PackageWriter,
    source: &SourceModel,
    plan: &Plan,
    types: &SourceTypes,
) -> Result<(Entry, MtpRecord), ConvertError> {
    let mut header = mtp_file_header(&plan.mtp, types)?;
    let mut tensors = Vec::new();
    let mut parts = Vec::new();
    for spec in sorted(&plan.mtp) {
        let raw = source.checkpoint.tensor(&spec.name)?;
        if raw.shape != spec.shape {
            let (name, expected) = (spec.name.clone(), spec.shape.clone());
            return Err(ModelError::TensorShape {
                name,
                expected,
                found: raw.shape,
            }
            .into());
        }
        tensors.push(LosslessTensor {
            name: spec.name.clone(),
            shape: spec.shape.clone(),
            dtype: raw.dtype.name().to_owned(),
            sha256: Sha256Digest::of(&raw.bytes),
        });
        parts.push(raw.bytes);
    }
    let made_from: String = tensors
        .iter()
        .map(|tensor| format!("{} ", tensor.sha256))
        .collect();
    let path: PackagePath = "checkpoint/mtp.safetensors".parse()?;
    let entry = match writer.finished(&path, &made_from) {
        Some(entry) => entry.clone(),
        None => writer.add(
            path,
            &made_from,
            |sink: &mut FileSink| -> Result<(), ManifestError> {
                sink.write(&std::mem::take(&mut header))?;
                parts.iter().try_for_each(|part| sink.write(part))
            },
        )?,
    };
    let record = MtpRecord {
        file: "mtp.safetensors".parse()?,
        bytes: entry.bytes,
        sha256: entry.sha256,
        tensors,
    };
    Ok((entry, record))
}

/// Whether the source has the MTP head that its config announces. Some exports leave it out.
fn has_mtp(source: &SourceModel, plan: &Plan) -> bool {
    let names: Vec<&str> = source.checkpoint.names().collect();
    plan.mtp
        .iter()
        .all(|spec| names.binary_search(&spec.name.as_str()).is_ok())
}

fn source_range(tensor: &PlannedTensor, raw: &RawTensor) -> std::ops::Range<usize> {
    let row = raw.shape.iter().skip(1).product::<usize>() * raw.dtype.bytes();
    tensor.source.first * row..(tensor.source.first + tensor.source.rows) * row
}

fn source_bytes(tensor: &PlannedTensor, raw: &RawTensor) -> u64 {
    source_range(tensor, raw).len() as u64
}

/// Names, sizes and digests of the source's weight files.
fn source_inventory(source: &SourceModel) -> Result<Inventory, ConvertError> {
    let files: Vec<_> = source.checkpoint.files().collect();
    let entries = files.into_par_iter().map(|(path, bytes)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Entry {
            path: PackagePath::parse(&name)?,
            bytes: bytes.len() as u64,
            sha256: Sha256Digest::of(bytes),
        })
    });
    Ok(Inventory::new(
        entries.collect::<Result<Vec<_>, ManifestError>>()?,
    )?)
}

/// What a config says of quantised weights.
fn quantisation(config_json: &[u8]) -> Option<String> {
    let config: serde_json::Value = serde_json::from_slice(config_json).ok()?;
    let found = config
        .get("quantization_config")
        .or_else(|| config.get("text_config")?.get("quantization_config"))?;
    let method = found.get("quant_method").and_then(|method| method.as_str());
    Some(method.unwrap_or("quantization_config is there").to_owned())
}

fn architecture(config_json: &[u8]) -> String {
    serde_json::from_slice::<serde_json::Value>(config_json)
        .ok()
        .and_then(|config| Some(config.get("model_type")?.as_str()?.to_owned()))
        .unwrap_or_default()
}
