//! A Hugging Face folder: `config.json` and one or more safetensors files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};
use tt_device::{MatrixShape, WeightFormat, WeightView};

use super::TensorSource;
use super::tiles::transposed_tiles;
use crate::{ModelError, names};

/// Element types that a checkpoint may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceType {
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
}

impl SourceType {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// The name that safetensors uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
            Self::F32 => "F32",
        }
    }
}

/// One tensor as stored, row-major, little endian.
#[derive(Clone, Debug)]
pub struct RawTensor {
    /// Element type.
    pub dtype: SourceType,
    /// Shape as stored, such as `[outputs, inputs]` of a linear.
    pub shape: Vec<usize>,
    /// `shape` elements.
    pub bytes: Bytes,
}

impl RawTensor {
    /// The elements as f32, exactly.
    #[must_use]
    pub fn to_f32(&self) -> Vec<f32> {
        let bytes = &self.bytes[..];
        match self.dtype {
            SourceType::Bf16 => bytes
                .chunks_exact(2)
                .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
            SourceType::F16 => bytes
                .chunks_exact(2)
                .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
            SourceType::F32 => bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        }
    }
}

/// Where a tensor lies.
#[derive(Clone, Debug)]
struct Entry {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

/// The text model and MTP tensors of a checkpoint, by canonical name.
///
/// Tensors of a vision tower are skipped and counted.
#[derive(Debug)]
pub struct Checkpoint {
    origin: String,
    files: Vec<(PathBuf, Bytes)>,
    entries: BTreeMap<String, Entry>,
    vision: usize,
}

impl Checkpoint {
    /// Opens a folder with `model.safetensors`, or shards named by `model.safetensors.index.json`.
    ///
    /// # Errors
    /// [`ModelError::Read`] or [`ModelError::Package`] for a file that cannot be read, [`ModelError::Safetensors`] for one that is
    /// malformed, is not there though the index names it, or repeats a tensor.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let index = folder.join("model.safetensors.index.json");
        let single = folder.join("model.safetensors");
        let paths = if index.is_file() {
            shards(folder, &index)?
        } else {
            vec![single]
        };
        let files = paths
            .into_iter()
            .map(|path| native_manifest::map_file(&path).map(|bytes| (path, bytes)))
            .collect::<Result<Vec<_>, _>>()?;
        Self::from_files(folder.display().to_string(), files)
    }

    /// Reads safetensors files that are already in memory; the paths are for messages.
    ///
    /// # Errors
    /// [`ModelError::Safetensors`].
    pub fn from_files(origin: String, files: Vec<(PathBuf, Bytes)>) -> Result<Self, ModelError> {
        let mut entries = BTreeMap::new();
        let mut vision = 0;
        for (file, (path, bytes)) in files.iter().enumerate() {
            let malformed = |reason: String| ModelError::Safetensors {
                path: path.clone(),
                reason,
            };
            let (header, metadata) =
                SafeTensors::read_metadata(bytes).map_err(|e| malformed(e.to_string()))?;
            // The length prefix, then the header.
            let data = header + 8;
            for (name, info) in metadata.tensors() {
                let Some(canonical) = names::canonical(&name) else {
                    vision += 1;
                    continue;
                };
                let (start, end) = (data + info.data_offsets.0, data + info.data_offsets.1);
                if end > bytes.len() {
                    return Err(malformed(format!(
                        "tensor {name:?} ends at {end} of {} bytes",
                        bytes.len()
                    )));
                }
                let entry = Entry {
                    file,
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                    start,
                    end,
                };
                if entries.insert(canonical.to_owned(), entry).is_some() {
                    return Err(malformed(format!("tensor {name:?} is there twice")));
                }
            }
        }
        Ok(Self {
            origin,
            files,
            entries,
            vision,
        })
    }

    /// Canonical names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// How many tensors of a vision tower were skipped.
    #[must_use]
    pub const fn vision_tensors(&self) -> usize {
        self.vision
    }

    /// The files, for their digests.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &Bytes)> {
        self.files
            .iter()
            .map(|(path, bytes)| (path.as_path(), bytes))
    }

    /// One tensor as stored.
    ///
    /// # Errors
    /// [`ModelError::MissingTensor`], [`ModelError::TensorType`] for an element type that weights cannot have.
    pub fn tensor(&self, name: &str) -> Result<RawTensor, ModelError> {
        let Some(entry) = self.entries.get(name) else {
            return Err(ModelError::MissingTensor {
                name: name.to_owned(),
                origin: self.origin.clone(),
            });
        };
        let dtype = match entry.dtype {
            Dtype::BF16 => SourceType::Bf16,
            Dtype::F16 => SourceType::F16,
            Dtype::F32 => SourceType::F32,
            other => {
                return Err(ModelError::TensorType {
                    name: name.to_owned(),
                    expected: "BF16, F16 or F32",
                    found: format!("{other:?}"),
                });
            }
        };
        let bytes = self.files[entry.file].1.slice(entry.start..entry.end);
        Ok(RawTensor {
            dtype,
            shape: entry.shape.clone(),
            bytes,
        })
    }

    fn shaped(&self, name: &str, shape: &[usize]) -> Result<RawTensor, ModelError> {
        let tensor = self.tensor(name)?;
        if tensor.shape != shape {
            return Err(ModelError::TensorShape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: tensor.shape,
            });
        }
        Ok(tensor)
    }
}

impl TensorSource for Checkpoint {
    fn origin(&self) -> String {
        self.origin.clone()
    }

    fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    fn matrix(&self, name: &str, shape: MatrixShape) -> Result<WeightView, ModelError> {
        let tensor = self.shaped(name, &[shape.outputs, shape.inputs])?;
        let (format, tiles) = match tensor.dtype {
            SourceType::Bf16 => (
                WeightFormat::Bf16,
                transposed_tiles::<2>(&tensor.bytes, shape),
            ),
            SourceType::F32 => (
                WeightFormat::F32,
                transposed_tiles::<4>(&tensor.bytes, shape),
            ),
            SourceType::F16 => (
                WeightFormat::F32,
                transposed_tiles::<4>(&f32_bytes(&tensor), shape),
            ),
        };
        Ok(WeightView::tiles(shape, format, Bytes::from(tiles))?)
    }

    fn table(&self, name: &str, rows: usize, width: usize) -> Result<WeightView, ModelError> {
        let tensor = self.shaped(name, &[rows, width])?;
        let (format, bytes) = match tensor.dtype {
            SourceType::Bf16 => (WeightFormat::Bf16, tensor.bytes),
            SourceType::F32 => (WeightFormat::F32, tensor.bytes),
            SourceType::F16 => (WeightFormat::F32, Bytes::from(f32_bytes(&tensor))),
        };
        Ok(WeightView::rows(rows, width, format, bytes)?)
    }

    fn vector(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        Ok(self.shaped(name, shape)?.to_f32())
    }
}

fn f32_bytes(tensor: &RawTensor) -> Vec<u8> {
    tensor
        .to_f32()
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect()
}

/// The shard files that an index names, each once. Names are plain file names: nothing leaves the folder.
fn shards(folder: &Path, index: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let malformed = |reason: String| ModelError::Safetensors {
        path: index.to_owned(),
        reason,
    };
    let text = fs::read(index).map_err(|source| ModelError::Read {
        path: index.to_owned(),
        source,
    })?;
    let json: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| malformed(e.to_string()))?;
    let map = json
        .get("weight_map")
        .and_then(|map| map.as_object())
        .ok_or_else(|| malformed("no weight_map object".into()))?;
    let mut names = BTreeSet::new();
    for file in map.values() {
        let name = file
            .as_str()
            .ok_or_else(|| malformed(format!("weight_map names {file}, not a file")))?;
        if name.is_empty() || name.contains(['/', '\\', ':', '\0']) || name == "." || name == ".." {
            return Err(malformed(format!(
                "weight_map names {name:?}, not a file of this folder"
            )));
        }
        names.insert(name);
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}
