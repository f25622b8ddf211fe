//! Weights as the unit reads them: tiles of bf16.

use bytes::Bytes;

use super::kernels::Tile;
use crate::weight::{MatrixShape, TILE, WeightFormat, WeightLayout, WeightView};

/// A matrix `[inputs, outputs]` made ready for [`super::MatrixUnit::linear`].
///
/// [`Weights::from_values`] decodes once, to 2 bytes an element. [`Weights::from_view`] keeps the
/// stored bytes (a clone of [`Bytes`] is a borrow of the same memory) and unpacks a tile at a time as
/// the device's unpacker would: the form for whole models.
#[derive(Clone, Debug)]
pub struct Weights {
    shape: MatrixShape,
    tiles: Tiles,
}

#[derive(Clone, Debug)]
enum Tiles {
    /// Tile columns outermost, so that one output tile reads its whole k in order.
    Decoded(Vec<[u16; TILE * TILE]>),
    /// Tiles row-major, as stored.
    Stored { format: WeightFormat, bytes: Bytes },
}

impl Weights {
    /// Decodes `values`, `[inputs, outputs]` row-major, each truncated to bf16 as the unpacker does.
    ///
    /// # Panics
    /// When `values` is not as long as `shape` says.
    #[must_use]
    pub fn from_values(values: &[f32], shape: MatrixShape) -> Self {
        assert_eq!(
            shape.inputs.checked_mul(shape.outputs),
            Some(values.len()),
            "weights are inputs x outputs values"
        );
        let mut tiles = vec![[0; TILE * TILE]; shape.tile_columns() * shape.tile_rows()];
        if !values.is_empty() {
            for (k, row) in values.chunks(shape.outputs).enumerate() {
                for (column, values) in row.chunks(TILE).enumerate() {
                    let tile = &mut tiles[column * shape.tile_rows() + k / TILE];
                    for (at, value) in tile[k % TILE * TILE..].iter_mut().zip(values) {
                        *at = upper_half(*value);
                    }
                }
            }
        }
        Self {
            shape,
            tiles: Tiles::Decoded(tiles),
        }
    }

    /// Keeps the bytes of a stored weight.
    ///
    /// # Panics
    /// When `view` is an embedding table: a linear's weight lies in tiles.
    #[must_use]
    pub fn from_view(view: &WeightView) -> Self {
        assert_eq!(
            view.layout(),
            WeightLayout::Tiles,
            "a linear's weight lies in tiles"
        );
        Self {
            shape: view.shape(),
            tiles: Tiles::Stored {
                format: view.format(),
                bytes: view.bytes().clone(),
            },
        }
    }

    /// The logical shape.
    #[must_use]
    pub const fn shape(&self) -> MatrixShape {
        self.shape
    }

    /// The tile of inputs `32 row..` and outputs `32 column..`.
    pub(super) fn tile(&self, row: usize, column: usize) -> Tile<'_> {
        match &self.tiles {
            Tiles::Decoded(tiles) => Tile::Halves(&tiles[column * self.shape.tile_rows() + row]),
            Tiles::Stored { format, bytes } => {
                let size = format.tile_bytes();
                let at = (row * self.shape.tile_columns() + column) * size;
                Tile::Stored {
                    format: *format,
                    bytes: &bytes[at..at + size],
                }
            }
        }
    }
}

/// The bf16 that the unpacker makes of an f32.
#[inline(always)]
pub(super) const fn upper_half(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}
