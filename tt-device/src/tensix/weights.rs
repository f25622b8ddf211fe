//! Weights as the unit reads them: tiles of bf16.

use bfp_format::BlockFormat;
use bytes::Bytes;

use super::packing::unpack_bf16;
use crate::weight::{FACE, MatrixShape, TILE, WeightFormat, WeightLayout, WeightView};

/// Elements of a tile, rows (inputs) of 32 outputs.
pub(super) type Tile = [u16; TILE * TILE];

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
    Decoded(Vec<Tile>),
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

    /// The tile of inputs `32 row..` and outputs `32 column..`; `scratch` may hold it.
    #[inline]
    pub(super) fn tile<'a>(&'a self, row: usize, column: usize, scratch: &'a mut Tile) -> &'a Tile {
        match &self.tiles {
            Tiles::Decoded(tiles) => &tiles[column * self.shape.tile_rows() + row],
            Tiles::Stored { format, bytes } => {
                let size = format.tile_bytes();
                let at = (row * self.shape.tile_columns() + column) * size;
                unpack_tile(*format, &bytes[at..at + size], scratch);
                scratch
            }
        }
    }
}

/// The bf16 that the unpacker makes of an f32.
#[inline(always)]
pub(super) const fn upper_half(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

/// Stored bytes of one tile, four faces, to rows of 32.
fn unpack_tile(format: WeightFormat, bytes: &[u8], tile: &mut Tile) {
    use BlockFormat::{Bfp2, Bfp4, Bfp8};
    // A byte's elements lie from its low bits up.
    let part = |byte: u8, at: usize, bits: usize| (byte >> (at * bits)) & (u8::MAX >> (8 - bits));
    match format {
        WeightFormat::Block(Bfp8) => {
            unpack_blocks::<FACE>(bytes, tile, |exponent, codes| {
                std::array::from_fn(|i| unpack_bf16(Bfp8, exponent, codes[i]))
            });
        }
        WeightFormat::Block(Bfp4) => {
            unpack_blocks::<{ FACE / 2 }>(bytes, tile, |exponent, codes| {
                std::array::from_fn(|i| unpack_bf16(Bfp4, exponent, part(codes[i / 2], i % 2, 4)))
            });
        }
        WeightFormat::Block(Bfp2) => {
            unpack_blocks::<{ FACE / 4 }>(bytes, tile, |exponent, codes| {
                std::array::from_fn(|i| unpack_bf16(Bfp2, exponent, part(codes[i / 4], i % 4, 2)))
            });
        }
        WeightFormat::Bf16 => face_rows(tile, |row, out| {
            let bytes = bytes[row * FACE * 2..].as_chunks().0;
            for (out, bytes) in out.iter_mut().zip(bytes) {
                *out = u16::from_le_bytes(*bytes);
            }
        }),
        WeightFormat::F32 => face_rows(tile, |row, out| {
            let bytes = bytes[row * FACE * 4..].as_chunks().0;
            for (out, bytes) in out.iter_mut().zip(bytes) {
                *out = upper_half(f32::from_le_bytes(*bytes));
            }
        }),
    }
}

/// `ROW` bytes of codes and one exponent byte a face row.
fn unpack_blocks<const ROW: usize>(
    bytes: &[u8],
    tile: &mut Tile,
    unpack: impl Fn(u8, &[u8; ROW]) -> [u16; FACE],
) {
    let (exponents, codes) = bytes.split_at(TILE * TILE / FACE);
    let codes = codes.as_chunks::<ROW>().0;
    face_rows(tile, |row, out| *out = unpack(exponents[row], &codes[row]));
}

/// Visits the 64 face rows of a tile in stored order.
fn face_rows(tile: &mut Tile, mut fill: impl FnMut(usize, &mut [u16; FACE])) {
    let rows = tile.as_chunks_mut::<FACE>().0;
    for face in 0..4 {
        for row in 0..FACE {
            let k = face / 2 * FACE + row;
            fill(face * FACE + row, &mut rows[k * 2 + face % 2]);
        }
    }
}
