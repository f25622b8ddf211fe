//! Which tensor is stored how, and what that takes.

use std::collections::BTreeMap;

use bfp_format::FormatError;
use bfp_format::tensorbin::{DataType, Header, Layout};
use qwen35_model::tensors::{TensorRole, TensorSpec, mtp_tensors, trunk_tensors};
use qwen35_model::weights::SourceType;
use qwen35_model::{ModelConfig, names};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Serialize;

use crate::precision::{Override, Precision, Preset};

/// Where a stored tensor's elements come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceRows {
    /// The checkpoint's tensor.
    pub name: String,
    /// Its first row that belongs to the stored tensor.
    pub first: usize,
    /// How many rows, all of them unless the source is stored in parts.
    pub rows: usize,
}

/// One tensor of a planned package.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedTensor {
    /// Name in the package.
    pub name: String,
    /// Logical shape in the package: `[inputs, outputs]` for a linear.
    pub shape: Vec<usize>,
    /// How it is stored.
    pub precision: Precision,
    /// Bytes of its `.tensorbin` file.
    pub file_bytes: u64,
    /// Why it is stored so.
    pub why: String,
    /// What it is made from.
    pub source: SourceRows,
    /// What it is for.
    #[serde(skip)]
    pub role: TensorRole,
    /// Whether a budget may change its precision.
    #[serde(skip)]
    pub fixed: bool,
}

impl PlannedTensor {
    /// The layout of its file.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        if self.role.is_linear() {
            Layout::TILE
        } else {
            Layout::RowMajor
        }
    }

    /// Bytes of its file in another precision.
    ///
    /// # Errors
    /// [`FormatError`] for a shape that no file can hold.
    pub fn file_bytes_as(&self, precision: Precision) -> Result<u64, FormatError> {
        let header = Header::new(data_type(precision), self.layout(), &self.shape)?;
        Ok(header.to_bytes()?.len() as u64 + header.data_bytes())
    }

    /// Stores it in another precision, for a reason.
    ///
    /// # Errors
    /// As [`PlannedTensor::file_bytes_as`].
    pub fn store_as(&mut self, precision: Precision, why: String) -> Result<(), FormatError> {
        self.file_bytes = self.file_bytes_as(precision)?;
        self.precision = precision;
        self.why = why;
        Ok(())
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A shape that no file can hold.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The MTP head's file cannot be described.
    #[error("mtp.safetensors: {0}")]
    MtpHeader(String),
    /// No choice of precisions fits.
    #[error("a budget of {budget} bytes is below the smallest package of {smallest}")]
    Budget {
        /// Bytes allowed.
        budget: u64,
        /// Bytes with every linear in BFP4.
        smallest: u64,
    },
}

/// A planned package.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The trunk's tensors in the order of a pass.
    pub tensors: Vec<PlannedTensor>,
    /// The MTP head's tensors, which are carried losslessly in one file.
    pub mtp: Vec<TensorSpec>,
    /// Bytes of that file; 0 without an MTP head.
    pub mtp_bytes: u64,
}

/// Types of the checkpoint's tensors where they are known; a plan from a config alone assumes the published ones.
pub type SourceTypes = BTreeMap<String, SourceType>;

impl Plan {
    /// A plan by preset and overrides. `types` are the source's; what they do not name is bf16, but for
    /// `A_log` and the gated norm, which the published checkpoints have in f32.
    ///
    /// # Errors
    /// [`PlanError::Format`], [`PlanError::MtpHeader`] for shapes that no file can hold.
    pub fn new(
        config: &ModelConfig,
        types: &SourceTypes,
        preset: Preset,
        overrides: &[Override],
    ) -> Result<Self, PlanError> {
        let mut tensors = Vec::new();
        for spec in trunk_tensors(config) {
            match names::split_parts(&spec.name) {
                Some(parts) => {
                    let (key, value) = (config.delta_key_width(), config.delta_value_width());
                    let mut first = 0;
                    for (name, rows) in parts.into_iter().zip([key, key, value]) {
                        let source = SourceRows {
                            name: spec.name.clone(),
                            first,
                            rows,
                        };
                        tensors.push(planned(name, source, spec.shape[1], spec.role, preset)?);
                        first += rows;
                    }
                }
                None => tensors.push(whole(&spec, types, preset)?),
            }
        }
        if config.tied {
            let source = SourceRows {
                name: names::EMBED.to_owned(),
                first: 0,
                rows: config.vocab,
            };
            let mut head = planned(
                names::HEAD.to_owned(),
                source,
                config.hidden,
                TensorRole::Head,
                preset,
            )?;
            head.why = format!("{}; made from the tied embedding", head.why);
            tensors.push(head);
        }
        for tensor in tensors.iter_mut().filter(|tensor| tensor.role.is_linear()) {
            if let Some(wanted) = overrides
                .iter()
                .rev()
                .find(|o| o.pattern.is_match(&tensor.name))
            {
                tensor.store_as(wanted.precision, format!("override {}", wanted.pattern))?;
                tensor.fixed = true;
            }
        }
        let mtp = mtp_tensors(config);
        let mtp_bytes = mtp_file_bytes(&mtp, types)?;
        Ok(Self {
            tensors,
            mtp,
            mtp_bytes,
        })
    }

    /// Bytes of the trunk's tensor files.
    #[must_use]
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.file_bytes).sum()
    }

    /// Bytes of the weights in the package: tensor files and the MTP head's file.
    #[must_use]
    pub fn package_bytes(&self) -> u64 {
        self.tensor_bytes() + self.mtp_bytes
    }

    /// Bytes by precision, for a summary.
    #[must_use]
    pub fn by_precision(&self) -> BTreeMap<&'static str, (usize, u64)> {
        let mut sums = BTreeMap::new();
        for tensor in &self.tensors {
            let (count, bytes) = sums.entry(tensor.precision.name()).or_insert((0, 0));
            *count += 1;
            *bytes += tensor.file_bytes;
        }
        sums
    }
}

/// The element type of a file in this precision.
#[must_use]
pub const fn data_type(precision: Precision) -> DataType {
    match precision {
        Precision::Bfp4 => DataType::BFloat4B,
        Precision::Bfp8 => DataType::BFloat8B,
        Precision::Bf16 => DataType::BFloat16,
        Precision::F32 => DataType::Float32,
    }
}

/// The type of a checkpoint's tensor: the known one, or the published one.
#[must_use]
pub fn source_type(spec: &TensorSpec, types: &SourceTypes) -> SourceType {
    let published = match spec.role {
        TensorRole::DecayRate | TensorRole::GatedNorm => SourceType::F32,
        _ => SourceType::Bf16,
    };
    types.get(&spec.name).copied().unwrap_or(published)
}

fn whole(
    spec: &TensorSpec,
    types: &SourceTypes,
    preset: Preset,
) -> Result<PlannedTensor, FormatError> {
    let source = SourceRows {
        name: spec.name.clone(),
        first: 0,
        rows: spec.shape[0],
    };
    if spec.role.is_linear() {
        return planned(spec.name.clone(), source, spec.shape[1], spec.role, preset);
    }
    // f16 has bits that bf16 lacks, so it widens to f32; A_log and the gated norm are f32 whatever the source.
    let (precision, why) = match (spec.role, source_type(spec, types)) {
        (TensorRole::DecayRate | TensorRole::GatedNorm, _) => {
            (Precision::F32, "kept in f32: its rounding would compound")
        }
        (_, SourceType::Bf16) => (Precision::Bf16, "lossless"),
        (_, SourceType::F16 | SourceType::F32) => (Precision::F32, "lossless"),
    };
    let mut tensor = PlannedTensor {
        name: spec.name.clone(),
        shape: spec.shape.clone(),
        precision,
        file_bytes: 0,
        why: String::new(),
        source,
        role: spec.role,
        fixed: true,
    };
    tensor.store_as(precision, why.to_owned())?;
    Ok(tensor)
}

fn planned(
    name: String,
    source: SourceRows,
    inputs: usize,
    role: TensorRole,
    preset: Preset,
) -> Result<PlannedTensor, FormatError> {
    let precision = preset.linear(role);
    let mut tensor = PlannedTensor {
        name,
        shape: vec![inputs, source.rows],
        precision,
        file_bytes: 0,
        why: String::new(),
        source,
        role,
        fixed: role == TensorRole::DeltaGate,
    };
    tensor.store_as(precision, format!("preset {}", preset.name()))?;
    Ok(tensor)
}

/// Bytes of `mtp.safetensors`.
fn mtp_file_bytes(mtp: &[TensorSpec], types: &SourceTypes) -> Result<u64, PlanError> {
    if mtp.is_empty() {
        return Ok(0);
    }
    let payload: usize = mtp.iter().map(|spec| mtp_tensor_bytes(spec, types)).sum();
    Ok((mtp_file_header(mtp, types)?.len() + payload) as u64)
}

fn mtp_tensor_bytes(spec: &TensorSpec, types: &SourceTypes) -> usize {
    spec.shape.iter().product::<usize>() * source_type(spec, types).bytes()
}

/// What comes before the payload in `mtp.safetensors`: the header's length, and the header padded to 8 bytes. The
/// payload is the tensors in the order of [`sorted`].
///
/// # Errors
/// [`PlanError::MtpHeader`] for shapes whose bytes overflow.
pub fn mtp_file_header(mtp: &[TensorSpec], types: &SourceTypes) -> Result<Vec<u8>, PlanError> {
    let mut offset = 0;
    let infos = sorted(mtp).into_iter().map(|spec| {
        let end = offset + mtp_tensor_bytes(spec, types);
        let dtype = match source_type(spec, types) {
            SourceType::Bf16 => Dtype::BF16,
            SourceType::F16 => Dtype::F16,
            SourceType::F32 => Dtype::F32,
        };
        let info = TensorInfo {
            dtype,
            shape: spec.shape.clone(),
            data_offsets: (offset, end),
        };
        offset = end;
        (spec.name.clone(), info)
    });
    let metadata =
        Metadata::new(None, infos.collect()).map_err(|e| PlanError::MtpHeader(e.to_string()))?;
    let mut json =
        serde_json::to_vec(&metadata).map_err(|e| PlanError::MtpHeader(e.to_string()))?;
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.append(&mut json);
    Ok(header)
}

/// The order of tensors in `mtp.safetensors`: by name.
#[must_use]
pub fn sorted(mtp: &[TensorSpec]) -> Vec<&TensorSpec> {
    let mut sorted: Vec<&TensorSpec> = mtp.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted
}
