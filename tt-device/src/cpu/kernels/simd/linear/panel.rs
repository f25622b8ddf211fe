//! Many rows: blocks of tiles become a panel of f32 weights in the first-level cache, which all rows
//! go through in a register-blocked kernel.
//!
//! ```text
//! for each few tile columns:                          their accumulators stay in the second-level cache
//!     for each 128 inputs:
//!         for each two of the tile columns:
//!             panel[k][64 outputs] = codes * units    exact f32 weights
//!             for each R rows:
//!                 for each pair of k, the odd one first:
//!                     acc[R][V vectors] = fma(x[row][k], panel[k], acc)
//! ```

use super::super::tile::{FACE_ROWS, Spread, Tile};
use super::super::{Kernel, LANES, Simd};
use crate::cpu::kernels::{BLOCK, LinearPart};
use crate::weight::{FACE, TILE};

/// Tile columns of a panel.
const TILES: usize = 2;
/// Vectors of sixteen outputs of a panel.
const VECTORS: usize = TILES * 2;
/// Accumulators, in bytes, that should stay in the second-level cache beside activations.
const HELD: usize = 1 << 19;

/// 128 inputs by 64 outputs, `[groups of V vectors][k][V][16]`.
#[repr(align(64))]
struct Panel([[f32; LANES]; VECTORS * BLOCK]);

#[inline(always)]
pub(super) fn multiply<S: Simd, T: Tile>(s: S, part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    let tiles: &[T] = bytemuck::cast_slice(part.tiles);
    let columns = part.shape.tile_columns();
    let rows_of_tiles = tiles.len() / columns;
    let mut panel = Panel([[0.0; LANES]; VECTORS * BLOCK]);
    let mut spread: Spread = [[0; LANES]; FACE_ROWS];
    for out in out.iter_mut() {
        out.fill(0.0);
    }
    let held = (HELD / (out.len() * TILE * size_of::<f32>()))
        .next_multiple_of(TILES)
        .max(TILES);
    let last = part.width / TILE;
    for first in (0..last).step_by(held) {
        let end = last.min(first + held);
        for (block, k) in (0..rows_of_tiles).step_by(BLOCK / TILE).enumerate() {
            let deep = (rows_of_tiles - k).min(BLOCK / TILE);
            for column in (first..end).step_by(TILES) {
                let wide = TILES.min(end - column);
                let group = if S::REGISTERS < 32 { 1 } else { wide * 2 };
                let tiles = &tiles[k * columns + part.first_tile_column + column..];
                s.enter(Expand {
                    tiles,
                    columns,
                    deep,
                    wide,
                    group,
                    spread: &mut spread,
                    panel: &mut panel,
                });
                for vector in (0..wide * 2).step_by(group) {
                    let panel = &panel.0[vector * BLOCK..][..group * deep * TILE];
                    let from = (column * 2 + vector) * LANES;
                    let x = part.x.block(block);
                    match group {
                        1 => s.enter(Multiply::<1> {
                            x,
                            panel: panel.as_chunks().0,
                            out,
                            from,
                        }),
                        2 => s.enter(Multiply::<2> {
                            x,
                            panel: panel.as_chunks().0,
                            out,
                            from,
                        }),
                        _ => s.enter(Multiply::<VECTORS> {
                            x,
                            panel: panel.as_chunks().0,
                            out,
                            from,
                        }),
                    }
                }
            }
        }
    }
}

/// Fills a panel from `deep` by `wide` tiles.
struct Expand<'a, T> {
    tiles: &'a [T],
    columns: usize,
    deep: usize,
    wide: usize,
    /// Vectors side by side in the panel.
    group: usize,
    spread: &'a mut Spread,
    panel: &'a mut Panel,
}

impl<T: Tile> Kernel for Expand<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let group = self.group;
        for deep in 0..self.deep {
            for wide in 0..self.wide {
                let tile = &self.tiles[deep * self.columns + wide];
                tile.spread(s, self.spread);
                for face in 0..4 {
                    let vector = wide * 2 + face % 2;
                    let k = deep * TILE + face / 2 * FACE;
                    let to =
                        &mut self.panel.0[(vector / group * BLOCK + k) * group + vector % group..];
                    let mut units = [0.0; LANES];
                    s.store(tile.units(s, face), &mut units);
                    for (row, (to, unit)) in to.iter_mut().step_by(group).zip(units).enumerate() {
                        let w = tile.row(s, self.spread, face * FACE + row);
                        let w = if T::BLOCK { s.mul(w, s.splat(unit)) } else { w };
                        s.store(w, to);
                    }
                }
            }
        }
    }
}

/// Takes all rows through `V` vectors of a panel.
struct Multiply<'a, 'o, const V: usize> {
    x: &'a [[f32; BLOCK]],
    panel: &'a [[[f32; LANES]; V]],
    out: &'a mut [&'o mut [f32]],
    /// First output of the vectors.
    from: usize,
}

impl<const V: usize> Kernel for Multiply<'_, '_, V> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut row = 0;
        while row < self.out.len() {
            let (x, out) = (&self.x[row..], &mut self.out[row..]);
            // No group of few rows but where there are few in all: it would wait for its own sums.
            row += match out.len() {
                1 => few::<S, 1, V>(s, x, self.panel, out, self.from),
                2 => few::<S, 2, V>(s, x, self.panel, out, self.from),
                3 | 5 => few::<S, 3, V>(s, x, self.panel, out, self.from),
                4 | 7 | 8 => few::<S, 4, V>(s, x, self.panel, out, self.from),
                _ => few::<S, 6, V>(s, x, self.panel, out, self.from),
            };
        }
    }
}

/// The register-blocked kernel: the first `R` rows; gives `R`.
#[inline(always)]
fn few<S: Simd, const R: usize, const V: usize>(
    s: S,
    x: &[[f32; BLOCK]],
    panel: &[[[f32; LANES]; V]],
    out: &mut [&mut [f32]],
    from: usize,
) -> usize {
    let x: &[[f32; BLOCK]; R] = x.first_chunk().expect("as many rows are left");
    let out: &mut [&mut [f32]; R] = out.first_chunk_mut().expect("as many rows are left");
    let mut sums = [[s.splat(0.0); V]; R];
    for r in 0..R {
        let from = &out[r][from..].as_chunks().0[..V];
        for v in 0..V {
            sums[r][v] = s.load(&from[v]);
        }
    }
    for (pair, panel) in panel.as_chunks::<2>().0.iter().take(BLOCK / 2).enumerate() {
        for odd in [1, 0] {
            let mut w = [s.splat(0.0); V];
            for v in 0..V {
                w[v] = s.load(&panel[odd][v]);
            }
            for r in 0..R {
                let x = s.splat(x[r][2 * pair + odd]);
                for v in 0..V {
                    sums[r][v] = s.fma(x, w[v], sums[r][v]);
                }
            }
        }
    }
    for r in 0..R {
        let to = &mut out[r][from..].as_chunks_mut().0[..V];
        for v in 0..V {
            s.store(sums[r][v], &mut to[v]);
        }
    }
    R
}
