//! A part of a linear by f32 fused multiply-adds over tiles as they lie in the file.
//!
//! ```text
//! for each row of tiles:
//!     for each few tiles of it:                      read once, in file order
//!         xs[row][k][side] = x[row][k] * unit[k][side]
//!         for each pair of k, the odd one first:
//!             w = codes of 16 outputs
//!             acc[row][16 outputs] = fma(xs, w, acc)
//! ```
//!
//! The exponent goes into the activation, which is exact for rounded activations by the bounds of
//! [`crate::numerics`]; unrounded ones (`host-f32/1`) meet weights that carry their exponent.

use bfp_format::BlockFormat;

use super::tile::{Bf16Tile, Bfp2Tile, Bfp4Tile, Bfp8Tile, F32Tile, Tile};
use super::{LANES, Simd};
use crate::Contract;
use crate::cpu::kernels::LinearPart;
use crate::weight::{TILE, WeightFormat};

#[inline(always)]
pub(in crate::cpu::kernels) fn linear<S: Simd>(s: S, part: &LinearPart<'_>, out: &mut [f32]) {
    let folds = part.contract == Contract::Host1;
    match (part.format, folds) {
        (WeightFormat::Block(BlockFormat::Bfp8), true) => padded::<S, Bfp8Tile, true>(s, part, out),
        (WeightFormat::Block(BlockFormat::Bfp8), false) => padded::<S, Bfp8Tile, false>(s, part, out),
        (WeightFormat::Block(BlockFormat::Bfp4), true) => padded::<S, Bfp4Tile, true>(s, part, out),
        (WeightFormat::Block(BlockFormat::Bfp4), false) => padded::<S, Bfp4Tile, false>(s, part, out),
        (WeightFormat::Block(BlockFormat::Bfp2), true) => padded::<S, Bfp2Tile, true>(s, part, out),
        (WeightFormat::Block(BlockFormat::Bfp2), false) => padded::<S, Bfp2Tile, false>(s, part, out),
        (WeightFormat::Bf16, _) => padded::<S, Bf16Tile, true>(s, part, out),
        (WeightFormat::F32, _) => padded::<S, F32Tile, true>(s, part, out),
    }
}

/// Lets the last tile column be whole: its padding is computed and dropped.
#[inline(always)]
fn padded<S: Simd, T: Tile, const FOLDS: bool>(s: S, part: &LinearPart<'_>, out: &mut [f32]) {
    let width = part.width.next_multiple_of(TILE);
    if width == part.width {
        rows_of_tiles::<S, T, FOLDS>(s, part, width, out);
        return;
    }
    let mut whole = vec![0.0; part.rows * width];
    rows_of_tiles::<S, T, FOLDS>(s, part, width, &mut whole);
    for (out, whole) in out.chunks_exact_mut(part.width).zip(whole.chunks_exact(width)) {
        out.copy_from_slice(&whole[..part.width]);
    }
}

#[inline(always)]
fn rows_of_tiles<S: Simd, T: Tile, const FOLDS: bool>(s: S, part: &LinearPart<'_>, width: usize, acc: &mut [f32]) {
    let tiles: &[T] = bytemuck::cast_slice(part.tiles);
    let columns = part.shape.tile_columns();
    let inputs = part.shape.tile_rows() * TILE;
    acc.fill(0.0);
    for (k, line) in tiles.chunks_exact(columns).enumerate() {
        let line = &line[part.first_tile_column..][..width / TILE];
        let mut column = 0;
        while column < line.len() {
            let wide = if line.len() - column >= 4 { 4 } else { 1 };
            let mut row = 0;
            while row < part.rows {
                let x = &part.x[row * inputs + k * TILE..];
                let acc = &mut acc[row * width + column * TILE..];
                row += match (part.rows - row, wide) {
                    (4.., _) => {
                        for (i, tile) in line[column..][..wide].iter().enumerate() {
                            let tile = std::array::from_ref(tile);
                            tiles_by_rows::<S, T, 1, 4, FOLDS>(s, tile, x, inputs, &mut acc[i * TILE..], width);
                        }
                        4
                    }
                    (_, 4) => {
                        let tiles: &[T; 4] = line[column..].first_chunk().expect("four tiles are left");
                        tiles_by_rows::<S, T, 4, 1, FOLDS>(s, tiles, x, inputs, acc, width);
                        1
                    }
                    _ => {
                        tiles_by_rows::<S, T, 1, 1, FOLDS>(s, std::array::from_ref(&line[column]), x, inputs, acc, width);
                        1
                    }
                };
            }
            column += wide;
        }
    }
}

/// `C` tiles side by side for `R` rows.
#[inline(always)]
fn tiles_by_rows<S: Simd, T: Tile, const C: usize, const R: usize, const FOLDS: bool>(
    s: S,
    tiles: &[T; C],
    x: &[f32],
    inputs: usize,
    acc: &mut [f32],
    width: usize,
) {
    let mut xs = [[[[0.0f32; LANES]; 4]; C]; R];
    let mut units = [[[0.0f32; LANES]; 4]; C];
    for c in 0..C {
        for face in 0..4 {
            let unit = tiles[c].units(s, face);
            if T::BLOCK && !FOLDS {
                s.store(unit, &mut units[c][face]);
            }
            for r in 0..R {
                let x: &[f32; LANES] =
                    x[r * inputs + face / 2 * LANES..].first_chunk().expect("rows are padded to tiles");
                let scaled = if T::BLOCK && FOLDS { s.mul(s.load(x), unit) } else { s.load(x) };
                s.store(scaled, &mut xs[r][c][face]);
            }
        }
    }
    let mut sums = [[[s.splat(0.0); 2]; C]; R];
    for r in 0..R {
        let from = &acc[r * width..].as_chunks::<LANES>().0[..2 * C];
        for c in 0..C {
            for side in 0..2 {
                sums[r][c][side] = s.load(&from[2 * c + side]);
            }
        }
    }
    for half in 0..2 {
        for pair in 0..LANES / 2 {
            for k in [2 * pair + 1, 2 * pair] {
                for c in 0..C {
                    for side in 0..2 {
                        let face = 2 * half + side;
                        let mut w = tiles[c].row(s, face * LANES + k);
                        if T::BLOCK && !FOLDS {
                            w = s.mul(w, s.splat(units[c][face][k]));
                        }
                        for r in 0..R {
                            sums[r][c][side] = s.fma(s.splat(xs[r][c][face][k]), w, sums[r][c][side]);
                        }
                    }
                }
            }
        }
    }
    for r in 0..R {
        let to = &mut acc[r * width..].as_chunks_mut::<LANES>().0[..2 * C];
        for c in 0..C {
            for side in 0..2 {
                s.store(sums[r][c][side], &mut to[2 * c + side]);
            }
        }
    }
}
