//! The tiled layout of plain elements (bf16, f32, integers): face order, without exponents.

use crate::codec::expect_values;
use crate::face::Face;
use crate::{FormatError, GROUP, TileGrid, TileShape};

/// The elements of a row-major tensor in tile and face order; the padding holds `pad`.
///
/// # Errors
/// [`FormatError::ShapeOverflow`], or [`FormatError::ValueCount`] when `values` are not as many as the shape's.
pub fn tilize<T: Copy>(
    values: &[T],
    shape: &[usize],
    tile: TileShape,
    pad: T,
) -> Result<Vec<T>, FormatError> {
    let grid = TileGrid::new(shape, tile)?;
    expect_values(shape, grid.elements(), values.len())?;
    let mut tiled = vec![pad; grid.padded_elements()];
    for (index, tiled) in tiled.chunks_exact_mut(tile.face_rows() * GROUP).enumerate() {
        let face = Face::of(&grid, index / tile.faces(), index % tile.faces());
        for (row, tiled) in tiled
            .chunks_exact_mut(GROUP)
            .enumerate()
            .take(face.rows.len())
        {
            let width = face.columns.len();
            tiled[..width]
                .copy_from_slice(&values[face.start(&grid) + row * grid.columns()..][..width]);
        }
    }
    Ok(tiled)
}

/// [`untilize`] into memory at hand: the row-major tensor of tiled elements, padding cut off.
///
/// # Errors
/// [`FormatError::ShapeOverflow`], or [`FormatError::ValueCount`] when `tiled` are not as many as the padded tiles' or
/// `values` not as many as the shape's.
pub fn untilize_into<T: Copy>(
    tiled: &[T],
    shape: &[usize],
    tile: TileShape,
    values: &mut [T],
) -> Result<(), FormatError> {
    let grid = TileGrid::new(shape, tile)?;
    expect_values(shape, grid.padded_elements(), tiled.len())?;
    expect_values(shape, grid.elements(), values.len())?;
    for (index, tiled) in tiled.chunks_exact(tile.face_rows() * GROUP).enumerate() {
        let face = Face::of(&grid, index / tile.faces(), index % tile.faces());
        for (row, tiled) in tiled.chunks_exact(GROUP).enumerate().take(face.rows.len()) {
            let width = face.columns.len();
            values[face.start(&grid) + row * grid.columns()..][..width]
                .copy_from_slice(&tiled[..width]);
        }
    }
    Ok(())
}

/// The row-major tensor of tiled elements, padding cut off.
///
/// # Errors
/// As [`untilize_into`].
pub fn untilize<T: Copy + Default>(
    tiled: &[T],
    shape: &[usize],
    tile: TileShape,
) -> Result<Vec<T>, FormatError> {
    let grid = TileGrid::new(shape, tile)?;
    expect_values(shape, grid.padded_elements(), tiled.len())?;
    let mut values = vec![T::default(); grid.elements()];
    untilize_into(tiled, shape, tile, &mut values)?;
    Ok(values)
}
