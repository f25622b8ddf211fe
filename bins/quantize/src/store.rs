//! One tensor of a package, made from its source in pieces of bounded size.

use std::borrow::Cow;

use bfp_format::tensorbin::Header;
use bfp_format::{Codec, NonFiniteKind, Packing, Rounding, Source, coordinates, first_non_finite};
use half::{bf16, f16};
use qwen35_model::weights::{RawTensor, SourceType, transposed_tiles};
use rayon::prelude::*;
use tt_device::MatrixShape;
use tt_device::weight::TILE;

use crate::plan::{PlannedTensor, data_type};
use crate::precision::Precision;

/// Packed bytes held at a time.
const PIECE: usize = 32 << 20;

/// Why a tensor cannot be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A value that no block format can hold, and that no trained weight should be.
    #[error("tensor {name:?} holds {kind} at {at:?}")]
    NonFinite {
        /// The checkpoint's tensor.
        name: String,
        /// Its coordinates in the checkpoint's shape.
        at: Vec<usize>,
        /// What is there.
        kind: NonFiniteKind,
    },
    /// The checkpoint's tensor has another shape than the config says.
    #[error(
        "tensor {name:?}: expected {expected} elements in rows {first}..{last}, found shape {found:?}"
    )]
    SourceShape {
        /// The checkpoint's tensor.
        name: String,
        /// First row wanted.
        first: usize,
        /// Row after the last one wanted.
        last: usize,
        /// Elements wanted.
        expected: usize,
        /// Shape found.
        found: Vec<usize>,
    },
    /// A shape that no file can hold.
    #[error(transparent)]
    Format(#[from] bfp_format::FormatError),
    /// The bytes could not be taken.
    #[error("cannot write {name}")]
    Write {
        /// The package's tensor.
        name: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Hands the bytes of a tensor's `.tensorbin` file to `write`, from first to last.
///
/// The bytes depend on the source's values and the plan alone: not on instruction set, threads or piece size.
///
/// # Errors
/// [`StoreError::NonFinite`] naming tensor and index, [`StoreError::SourceShape`], [`StoreError::Format`], and
/// [`StoreError::Write`] with what `write` says.
pub fn store(
    tensor: &PlannedTensor,
    source: &RawTensor,
    write: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), StoreError> {
    let elements = tensor.shape.iter().product::<usize>();
    let (first, last) = (
        tensor.source.first,
        tensor.source.first + tensor.source.rows,
    );
    let width = elements / tensor.source.rows.max(1);
    let wrong_shape = || StoreError::SourceShape {
        name: tensor.source.name.clone(),
        first,
        last,
        expected: elements,
        found: source.shape.clone(),
    };
    if source.shape.iter().skip(1).product::<usize>() != width
        || source.shape.first().is_none_or(|rows| *rows < last)
    {
        return Err(wrong_shape());
    }
    let size = source.dtype.bytes();
    let bytes = source
        .bytes
        .get(first * width * size..last * width * size)
        .ok_or_else(wrong_shape)?;
    let mut put = |bytes: &[u8]| {
        write(bytes).map_err(|source| StoreError::Write {
            name: tensor.name.clone(),
            source,
        })
    };
    put(&Header::new(data_type(tensor.precision), tensor.layout(), &tensor.shape)?.to_bytes()?)?;
    match source.dtype {
        SourceType::Bf16 => put_values::<bf16>(
            tensor,
            source,
            &elements_of(bytes, bf16::from_le_bytes),
            &mut put,
        ),
        SourceType::F32 => put_values::<f32>(
            tensor,
            source,
            &elements_of(bytes, f32::from_le_bytes),
            &mut put,
        ),
        SourceType::F16 => {
            let wide: Vec<f32> = bytes
                .chunks_exact(2)
                .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect();
            put_values::<f32>(tensor, source, &wide, &mut put)
        }
    }
}

fn put_values<S: Source + bytemuck::Pod>(
    tensor: &PlannedTensor,
    source: &RawTensor,
    values: &[S],
    put: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let width = values.len() / tensor.source.rows.max(1);
    let culprit = values
        .par_chunks(1 << 20)
        .enumerate()
        .find_map_first(|(chunk, values)| {
            first_non_finite(values).map(|found| (chunk * (1 << 20) + found.index, found.kind))
        });
    if let Some((index, kind)) = culprit {
        let at = coordinates(tensor.source.first * width + index, &source.shape);
        return Err(StoreError::NonFinite {
            name: tensor.source.name.clone(),
            at,
            kind,
        });
    }
    if !tensor.role.is_linear() {
        return put(&row_major(values, tensor.precision));
    }
    let shape = MatrixShape {
        inputs: width,
        outputs: tensor.source.rows,
    };
    match tensor.precision.block() {
        Some(format) => {
            let packing = Packing::new(format).rounding(Rounding::HostNearestEven);
            put_blocks(values, shape, packing, put)
        }
        None if tensor.precision == Precision::F32 => {
            let wide: Vec<f32> = values.iter().map(|value| value.widen()).collect();
            put(&transposed_tiles::<4>(bytemuck::cast_slice(&wide), shape))
        }
        None => {
            let narrow: Vec<u16> = values
                .iter()
                .map(|value| bf16::from_f32(value.widen()).to_bits())
                .collect();
            put(&transposed_tiles::<2>(bytemuck::cast_slice(&narrow), shape))
        }
    }
}

/// Tile rows in pieces, each packed by all threads.
fn put_blocks<S: Source>(
    values: &[S],
    shape: MatrixShape,
    packing: Packing,
    put: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let codec = Codec::default();
    let row_bytes = shape.tile_columns() * packing.format.tile_bytes(packing.tile);
    let rows_at_once = (PIECE / row_bytes).clamp(1, shape.tile_rows());
    let mut piece = vec![0u8; rows_at_once * row_bytes];
    for first in (0..shape.tile_rows()).step_by(rows_at_once) {
        let rows = rows_at_once.min(shape.tile_rows() - first);
        let piece = &mut piece[..rows * row_bytes];
        let share = rows.div_ceil(rayon::current_num_threads().max(1)).max(1);
        piece
            .par_chunks_mut(share * row_bytes)
            .enumerate()
            .try_for_each(|(i, bytes)| {
                let start = first + i * share;
                let tile_rows = start..start + bytes.len() / row_bytes;
                codec.pack_transposed_band(
                    values,
                    shape.outputs,
                    shape.inputs,
                    tile_rows,
                    packing,
                    bytes,
                )
            })?;
        put(piece)?;
    }
    debug_assert_eq!(shape.tile_rows(), shape.inputs.div_ceil(TILE));
    Ok(())
}

/// Elements in their order, in the plan's precision, little endian.
fn row_major<S: Source>(values: &[S], precision: Precision) -> Vec<u8> {
    match precision {
        Precision::Bf16 => values
            .iter()
            .flat_map(|v| bf16::from_f32(v.widen()).to_le_bytes())
            .collect(),
        _ => values
            .iter()
            .flat_map(|v| v.widen().to_le_bytes())
            .collect(),
    }
}

/// The elements in place where they are aligned (and the machine is little endian), else a copy.
fn elements_of<const N: usize, T: bytemuck::Pod>(
    bytes: &[u8],
    read: impl Fn([u8; N]) -> T,
) -> Cow<'_, [T]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) if cfg!(target_endian = "little") => Cow::Borrowed(values),
        _ => {
            let (elements, _) = bytes.as_chunks::<N>();
            Cow::Owned(elements.iter().map(|element| read(*element)).collect())
        }
    }
}
