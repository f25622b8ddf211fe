//! The faces of a grid: where each lies in the tensor, and where in the packed bytes.

use std::ops::Range;

use crate::{BlockFormat, GROUP, TileGrid, TileShape};

/// The part of a matrix that a face holds. Smaller than the face (or empty) where the rest is padding.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    pub(crate) matrix: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Face {
    /// Face `face` of tile `tile`, counted through the whole grid.
    pub(crate) fn of(grid: &TileGrid, tile: usize, face: usize) -> Self {
        let shape = grid.tile();
        let (tile_row, tile_column) = (tile / grid.tile_columns(), tile % grid.tile_columns());
        let (row, column) = shape.face_origin(face);
        let row = tile_row % grid.tile_rows() * shape.rows() + row;
        let column = tile_column * shape.columns() + column;
        let clip = |start: usize, len: usize, end: usize| start.min(end)..(start + len).min(end);
        Self {
            matrix: tile_row / grid.tile_rows(),
            rows: clip(row, shape.face_rows(), grid.rows()),
            columns: clip(column, GROUP, grid.columns()),
        }
    }

    /// Whether no element of the face is padding.
    pub(crate) fn is_full(&self, tile: TileShape) -> bool {
        self.rows.len() == tile.face_rows() && self.columns.len() == GROUP
    }

    /// Whether every element of the face is padding.
    pub(crate) fn is_padding(&self) -> bool {
        self.rows.is_empty() || self.columns.is_empty()
    }

    /// The index of the first element in the row-major tensor.
    pub(crate) fn start(&self, grid: &TileGrid) -> usize {
        (self.matrix * grid.rows() + self.rows.start) * grid.columns() + self.columns.start
    }
}

/// Exponents and codes of each face of one packed tile.
pub(crate) fn packed_faces(
    packed: &[u8],
    format: BlockFormat,
    tile: TileShape,
) -> impl Iterator<Item = (&[u8], &[u8])> {
    let (exponents, codes) = packed.split_at(tile.exponent_bytes());
    let exponents = exponents[..tile.groups()].chunks_exact(tile.face_rows());
    exponents.zip(codes.chunks_exact(tile.face_rows() * format.group_code_bytes()))
}

/// The same to write to; clears the padding of the exponent section.
pub(crate) fn packed_faces_mut(
    packed: &mut [u8],
    format: BlockFormat,
    tile: TileShape,
) -> impl Iterator<Item = (&mut [u8], &mut [u8])> {
    let (exponents, codes) = packed.split_at_mut(tile.exponent_bytes());
    let (exponents, padding) = exponents.split_at_mut(tile.groups());
    padding.fill(0);
    let exponents = exponents.chunks_exact_mut(tile.face_rows());
    exponents.zip(codes.chunks_exact_mut(tile.face_rows() * format.group_code_bytes()))
}
