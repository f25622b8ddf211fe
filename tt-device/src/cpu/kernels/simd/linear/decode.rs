//! Few rows: every tile is read once, in the order of the file, and meets all of them.
//!
//! ```text
//! for each row of tiles:
//!     for each C tiles of it:
//!         codes of the tiles to signed bytes                      64 a step, in the first-level cache
//!         xs[row][tile][face row] = x[row][k] * unit[face row]
//!         for each pair of k, the odd one first:
//!             w = sixteen bytes to f32
//!             acc[row][16 outputs] = fma(xs, w, acc)              one instruction a further row
//! ```
//!
//! The exponent goes into the activation, which is exact for rounded activations by the bounds of
//! [`crate::numerics`]. What was tried and lost is in `kernels/linear.md`.

use super::super::tile::{FACE_ROWS, Spread, Tile};
use super::super::{Kernel, LANES, Simd};
use crate::cpu::kernels::{BLOCK, LinearPart};
use crate::weight::TILE;

/// Most rows that share a pass.
pub(super) const ROWS: usize = 8;
/// Most tiles of a step.
const TILES: usize = 2;

/// What a step works in.
#[repr(align(64))]
struct Work {
    /// Signed bytes of each tile.
    spread: [Spread; TILES],
    /// Activations of each row and tile in the units of each face row.
    xs: [[[f32; FACE_ROWS]; TILES]; ROWS],
}

/// `out[rows]` of whole tile columns, from rounded activations.
#[inline(always)]
pub(super) fn decode<S: Simd, T: Tile>(s: S, part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    match out {
        [out] => pass::<S, T, 2, 1>(s, part, [out]),
        [a, b] => pass::<S, T, 2, 2>(s, part, [a, b]),
        [a, b, c, d] => pass::<S, T, 2, 4>(s, part, [a, b, c, d]),
        [a, b, c, d, e, f, g, h] => pass::<S, T, 1, 8>(s, part, [a, b, c, d, e, f, g, h]),
        _ => {
            // Further rows that repeat the last cost an instruction each and no memory traffic.
            let rows = out.len();
            let mut rest = vec![0.0; (ROWS - rows) * part.width];
            let mut rest = rest.chunks_exact_mut(part.width);
            let mut all = out.iter_mut().map(|out| &mut **out).chain(&mut rest);
            if rows <= 4 {
                pass::<S, T, 2, 4>(
                    s,
                    part,
                    std::array::from_fn(|_| all.next().expect("four rows")),
                );
            } else {
                pass::<S, T, 1, 8>(
                    s,
                    part,
                    std::array::from_fn(|_| all.next().expect("eight rows")),
                );
            }
        }
    }
}

#[inline(always)]
fn pass<S: Simd, T: Tile, const C: usize, const R: usize>(
    s: S,
    part: &LinearPart<'_>,
    out: [&mut [f32]; R],
) {
    let tiles: &[T] = bytemuck::cast_slice(part.tiles);
    let columns = part.shape.tile_columns();
    let mut work = Work {
        spread: [[[0; LANES]; FACE_ROWS]; TILES],
        xs: [[[0.0; FACE_ROWS]; TILES]; ROWS],
    };
    let mut acc = out.map(|out| out.as_chunks_mut().0);
    for acc in &mut acc {
        acc.fill([0.0; TILE]);
    }
    for (k, line) in tiles.chunks_exact(columns).enumerate() {
        let block = part.x.block(k * TILE / BLOCK);
        let mut x: [&[f32; TILE]; R] = [&[0.0; TILE]; R];
        for (r, x) in x.iter_mut().enumerate() {
            *x = &block[r.min(block.len() - 1)].as_chunks().0[k % (BLOCK / TILE)];
        }
        let tiles = &line[part.first_tile_column..][..part.width / TILE];
        s.enter(Line::<T, C, R> {
            tiles,
            x,
            acc: &mut acc,
            work: &mut work,
        });
    }
}

/// One row of tiles for `R` rows, `C` tiles at a time.
struct Line<'a, 'o, T, const C: usize, const R: usize> {
    tiles: &'a [T],
    x: [&'a [f32; TILE]; R],
    acc: &'a mut [&'o mut [[f32; TILE]]; R],
    work: &'a mut Work,
}

impl<T: Tile, const C: usize, const R: usize> Kernel for Line<'_, '_, T, C, R> {
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (groups, rest) = self.tiles.as_chunks::<C>();
        for (i, tiles) in groups.iter().enumerate() {
            step(s, tiles, self.x, self.acc, i * C, self.work);
        }
        let done = groups.len() * C;
        for (i, tile) in rest.iter().enumerate() {
            step(
                s,
                std::array::from_ref(tile),
                self.x,
                self.acc,
                done + i,
                self.work,
            );
        }
    }
}

/// `C` tiles side by side, the first at `column`, for `R` rows.
#[inline(always)]
fn step<S: Simd, T: Tile, const C: usize, const R: usize>(
    s: S,
    tiles: &[T; C],
    x: [&[f32; TILE]; R],
    acc: &mut [&mut [[f32; TILE]]; R],
    column: usize,
    work: &mut Work,
) {
    for c in 0..C {
        tiles[c].spread(s, &mut work.spread[c]);
        for face in 0..4 {
            let unit = tiles[c].units(s, face);
            for r in 0..R {
                let x = s.load(&x[r].as_chunks().0[face / 2]);
                s.store(s.mul(x, unit), &mut work.xs[r][c].as_chunks_mut().0[face]);
            }
        }
    }
    let mut sums = [[[s.splat(0.0); 2]; C]; R];
    for r in 0..R {
        let from = &acc[r][column..][..C];
        for c in 0..C {
            for side in 0..2 {
                sums[r][c][side] = s.load(&from[c].as_chunks().0[side]);
            }
        }
    }
    // Eight k at a time: as much as is worth unrolling.
    for group in 0..4 {
        let first = group / 2 * 32 + group % 2 * 8;
        for pair in 0..4 {
            for odd in [1, 0] {
                for c in 0..C {
                    for side in 0..2 {
                        let row = first + side * LANES + 2 * pair + odd;
                        let w = tiles[c].row(s, &work.spread[c], row);
                        for r in 0..R {
                            sums[r][c][side] =
                                s.fma(s.splat(work.xs[r][c][row]), w, sums[r][c][side]);
                        }
                    }
                }
            }
        }
    }
    for r in 0..R {
        let to = &mut acc[r][column..][..C];
        for c in 0..C {
            for side in 0..2 {
                s.store(sums[r][c][side], &mut to[c].as_chunks_mut().0[side]);
            }
        }
    }
}
