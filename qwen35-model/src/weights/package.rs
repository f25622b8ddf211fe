//! A verified native package as a source of weights.

use std::path::PathBuf;

use bfp_format::BlockFormat;
use bytes::Bytes;
use half::bf16;
use native_manifest::{ManifestError, Snapshot, StoredLayout, StoredType, Tensor, Verified};
use tt_device::{MatrixShape, WeightFormat, WeightView};

use super::{Checkpoint, TensorSource};
use crate::ModelError;

/// Trunk tensors from `.tensorbin` files, the MTP head's from its safetensors file; matrices and tables are slices of
/// the mapped files.
#[derive(Debug)]
pub struct PackageWeights {
    package: Snapshot<Verified>,
    mtp: Option<Checkpoint>,
}

impl PackageWeights {
    /// The weights of a package.
    ///
    /// # Errors
    /// [`ModelError::Package`] when a file went away after it was verified, [`ModelError::Safetensors`].
    pub fn new(package: Snapshot<Verified>) -> Result<Self, ModelError> {
        let mtp = match &package.manifest().mtp {
            None => None,
            Some(record) => {
                let bytes = package.checkpoint_file(&record.file)?;
                let path = PathBuf::from(record.file.as_str());
                Some(Checkpoint::from_files(
                    package.origin(),
                    vec![(path, bytes)],
                )?)
            }
        };
        Ok(Self { package, mtp })
    }

    fn tensor(&self, name: &str) -> Result<Tensor, ModelError> {
        self.package.tensor(name).map_err(|error| match error {
            ManifestError::UnknownTensor { name } => ModelError::MissingTensor {
                name,
                origin: self.package.origin(),
            },
            other => other.into(),
        })
    }

    /// The tensor, if it has this shape and layout.
    fn shaped(
        &self,
        name: &str,
        shape: &[usize],
        layout: StoredLayout,
    ) -> Result<Tensor, ModelError> {
        let tensor = self.tensor(name)?;
        if tensor.shape != shape {
            return Err(ModelError::TensorShape {
                name: name.to_owned(),
                expected: shape.to_vec(),
                found: tensor.shape,
            });
        }
        if tensor.layout != layout {
            let expected = match layout {
                StoredLayout::RowMajor => "row-major elements",
                _ => "32x32 tiles",
            };
            return Err(ModelError::TensorType {
                name: name.to_owned(),
                expected,
                found: format!("{:?}", tensor.layout),
            });
        }
        Ok(tensor)
    }
}

impl TensorSource for PackageWeights {
    fn origin(&self) -> String {
        self.package.origin()
    }

    fn contains(&self, name: &str) -> bool {
        self.package.manifest().tensor(name).is_some()
            || self.mtp.as_ref().is_some_and(|mtp| mtp.contains(name))
    }

    fn norm_offset(&self) -> f32 {
        self.package.manifest().norm_offset
    }

    fn matrix(&self, name: &str, shape: MatrixShape) -> Result<WeightView, ModelError> {
        if let Some(mtp) = self.mtp.as_ref().filter(|mtp| mtp.contains(name)) {
            return mtp.matrix(name, shape);
        }
        let tensor = self.shaped(name, &[shape.inputs, shape.outputs], StoredLayout::Tile)?;
        let format = match tensor.dtype {
            StoredType::Bfp8 => WeightFormat::Block(BlockFormat::Bfp8),
            StoredType::Bfp4 => WeightFormat::Block(BlockFormat::Bfp4),
            other => float_format(name, other)?,
        };
        Ok(WeightView::tiles(shape, format, tensor.bytes)?)
    }

    fn table(&self, name: &str, rows: usize, width: usize) -> Result<WeightView, ModelError> {
        let tensor = self.shaped(name, &[rows, width], StoredLayout::RowMajor)?;
        Ok(WeightView::rows(
            rows,
            width,
            float_format(name, tensor.dtype)?,
            tensor.bytes,
        )?)
    }

    fn vector(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        if let Some(mtp) = self.mtp.as_ref().filter(|mtp| mtp.contains(name)) {
            return mtp.vector(name, shape);
        }
        let tensor = self.shaped(name, shape, StoredLayout::RowMajor)?;
        let bytes: &Bytes = &tensor.bytes;
        Ok(match float_format(name, tensor.dtype)? {
            WeightFormat::Bf16 => bytes
                .chunks_exact(2)
                .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
            _ => bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        })
    }
}

fn float_format(name: &str, dtype: StoredType) -> Result<WeightFormat, ModelError> {
    match dtype {
        StoredType::Bf16 => Ok(WeightFormat::Bf16),
        StoredType::F32 => Ok(WeightFormat::F32),
        other => Err(ModelError::TensorType {
            name: name.to_owned(),
            expected: "a type that this place can have",
            found: other.name().to_owned(),
        }),
    }
}
