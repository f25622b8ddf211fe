//! Where weights come from: a native package, or a Hugging Face folder.

mod checkpoint;
mod package;
mod requantized;
mod tiles;

pub use checkpoint::{Checkpoint, RawTensor, SourceType};
pub use package::PackageWeights;
pub use requantized::Requantized;
pub use tiles::transposed_tiles;

use std::fmt::Debug;

use tt_device::{MatrixShape, WeightView};

use crate::{ModelError, names};

/// Tensors by their canonical name ([`crate::names`]).
///
/// A source answers in the form that a device takes: matrices transposed to `[inputs, outputs]` and
/// tiled, tables row-major, vectors as f32. It checks shapes; the model asks for what the config says.
pub trait TensorSource: Debug {
    /// What this is, for messages: a folder, or an embedded package.
    fn origin(&self) -> String;

    /// Whether the tensor is there.
    fn contains(&self, name: &str) -> bool;

    /// What is added to the weights of plain norms: 1 where they are stored zero-centred, as the official
    /// checkpoints do.
    fn norm_offset(&self) -> f32 {
        1.0
    }

    /// A linear's weight, logically `[outputs, inputs]` in a checkpoint, as `[inputs, outputs]` tiles.
    ///
    /// # Errors
    /// [`ModelError::MissingTensor`], [`ModelError::TensorShape`], [`ModelError::TensorType`].
    fn matrix(&self, name: &str, shape: MatrixShape) -> Result<WeightView, ModelError>;

    /// A table `[rows, width]`, row-major and lossless.
    ///
    /// # Errors
    /// As [`TensorSource::matrix`].
    fn table(&self, name: &str, rows: usize, width: usize) -> Result<WeightView, ModelError>;

    /// A tensor of the given shape as f32, row-major and lossless.
    ///
    /// # Errors
    /// As [`TensorSource::matrix`].
    fn vector(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError>;

    /// A matrix that may be stored whole or in row parts, which then come side by side.
    ///
    /// `rows` are the outputs of the parts, for a source that has them split.
    ///
    /// # Errors
    /// As [`TensorSource::matrix`].
    fn fused(
        &self,
        name: &str,
        inputs: usize,
        rows: [usize; 3],
    ) -> Result<Vec<WeightView>, ModelError> {
        if !self.contains(name)
            && let Some(parts) =
                names::split_parts(name).filter(|parts| parts.iter().all(|p| self.contains(p)))
        {
            return parts
                .iter()
                .zip(rows)
                .map(|(part, outputs)| self.matrix(part, MatrixShape { inputs, outputs }))
                .collect();
        }
        Ok(vec![self.matrix(
            name,
            MatrixShape {
                inputs,
                outputs: rows.iter().sum(),
            },
        )?])
    }
}
