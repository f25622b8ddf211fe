//! Few rows: every tile is read once, in the order of the file, and meets all of them.
//!
//! ```text
//! for each row of tiles:
//!     for each C tiles of it:
//!         xs[row][tile][side][pair] = x[row][pair] * units[pair]      two bf16, exact
//!         for each four k and each side:
//!             w = two vectors of sixteen pairs                        10 (BFP8) or 5 (BFP4) instructions
//!             acc[row][16 outputs] = dot(xs, w, acc)                  twice, one instruction a further row
//! ```
//!
//! The exponent goes into the activation, as in the f32 form.

use std::arch::x86_64::*;

use super::Dot;
use super::expand::{Exponents, OR_AND, Tile};
use crate::cpu::kernels::{BLOCK, LinearPart};
use crate::numerics::{WEIGHT_EXPONENT_MAX, WEIGHT_EXPONENT_MIN};
use crate::weight::TILE;

/// Most rows that share a pass.
pub(super) const ROWS: usize = 8;
/// Most tiles of a step.
const TILES: usize = 4;
/// Pairs of inputs of a tile.
const PAIRS: usize = TILE / 2;
/// What is added to the exponent field of an activation, so that every unit is a subtraction: the
/// largest unit is `2^(196 - 133)`.
const RAISED: i16 = (WEIGHT_EXPONENT_MAX as i16 - 133) << 7;
/// How far ahead, in bytes, codes are asked for: as in the f32 form.
const NEAR: usize = 1024;
const FAR: usize = 4096;

/// Activations of a row in the units of each face row: `[tile][side][pair]`, two bf16 a pair.
#[repr(align(64))]
struct Scaled([[[u32; PAIRS]; 2]; TILES]);

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
pub(super) fn decode<T: Tile>(part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    match out {
        [out] => pass::<T, 4, 1>(part, [out]),
        [a, b] => pass::<T, 4, 2>(part, [a, b]),
        [a, b, c, d] => pass::<T, 2, 4>(part, [a, b, c, d]),
        [a, b, c, d, e, f, g, h] => pass::<T, 1, 8>(part, [a, b, c, d, e, f, g, h]),
        _ => {
            // Further rows that repeat the last cost an instruction each and no memory traffic.
            let rows = out.len();
            let mut rest = vec![0.0; (ROWS - rows) * part.width];
            let mut rest = rest.chunks_exact_mut(part.width);
            let mut all = out.iter_mut().map(|out| &mut **out).chain(&mut rest);
            if rows <= 4 {
                pass::<T, 2, 4>(
                    part,
                    std::array::from_fn(|_| all.next().expect("four rows")),
                );
            } else {
                pass::<T, 1, 8>(
                    part,
                    std::array::from_fn(|_| all.next().expect("eight rows")),
                );
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn pass<T: Tile, const C: usize, const R: usize>(part: &LinearPart<'_>, out: [&mut [f32]; R]) {
    let s = Dot::present();
    let tiles: &[T] = bytemuck::cast_slice(part.tiles);
    let columns = part.shape.tile_columns();
    let mut scaled = [const { Scaled([[[0; PAIRS]; 2]; TILES]) }; R];
    let mut acc = out.map(|out| out.as_chunks_mut().0);
    for acc in &mut acc {
        acc.fill([0.0; TILE]);
    }
    for (k, line) in tiles.chunks_exact(columns).enumerate() {
        let block = part.x.block(k * TILE / BLOCK);
        let mut x = [s.zero(); R];
        for (r, x) in x.iter_mut().enumerate() {
            *x = s.raised(&block[r.min(block.len() - 1)].as_chunks().0[k % (BLOCK / TILE)]);
        }
        let line = &line[part.first_tile_column..][..part.width / TILE];
        let (groups, rest) = line.as_chunks::<C>();
        for (i, tiles) in groups.iter().enumerate() {
            step(s, tiles, &x, &mut acc, i * C, &mut scaled);
        }
        let done = groups.len() * C;
        for (i, tile) in rest.iter().enumerate() {
            step(
                s,
                std::array::from_ref(tile),
                &x,
                &mut acc,
                done + i,
                &mut scaled,
            );
        }
    }
}

/// `C` tiles side by side, the first at `column`, for `R` rows.
#[inline(always)]
fn step<T: Tile, const C: usize, const R: usize>(
    s: Dot,
    tiles: &[T; C],
    x: &[__m512i; R],
    acc: &mut [&mut [[f32; TILE]]; R],
    column: usize,
    scaled: &mut [Scaled; R],
) {
    for c in 0..C {
        let Some(exponents) = tiles[c].exponents() else {
            unreachable!("only block formats are decoded")
        };
        let lowered = s.lowered(exponents);
        for r in 0..R {
            for side in 0..2 {
                s.store(s.lower(x[r], lowered[side]), &mut scaled[r].0[c][side]);
            }
        }
    }
    let mut sums = [[[s.zero_sums(); 2]; C]; R];
    for r in 0..R {
        let from = &acc[r][column..][..C];
        for c in 0..C {
            for side in 0..2 {
                sums[r][c][side] = s.load_sums(&from[c].as_chunks().0[side]);
            }
        }
    }
    for half in 0..2 {
        for quarter in 0..4 {
            for c in 0..C {
                for side in 0..2 {
                    let quad = (half * 2 + side) * 4 + quarter;
                    s.prefetch(&tiles[c], quad);
                    let w = tiles[c].quad(s, quad);
                    for (i, w) in w.into_iter().enumerate() {
                        let pair = half * 8 + quarter * 2 + i;
                        for r in 0..R {
                            sums[r][c][side] =
                                s.dot(sums[r][c][side], scaled[r].0[c][side][pair], w);
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
                s.store_sums(sums[r][c][side], &mut to[c].as_chunks_mut().0[side]);
            }
        }
    }
}

/// Where the exponents of the left and of the right faces go: the low byte of a word for each k.
const SIDES: [[u8; 64]; 2] = {
    let mut sides = [[0; 64]; 2];
    let mut k = 0;
    while k < 32 {
        sides[0][2 * k as usize] = k / 16 * 32 + k % 16;
        sides[1][2 * k as usize] = k / 16 * 32 + 16 + k % 16;
        k += 1;
    }
    sides
};
/// The low byte of each word.
const LOW_BYTES: u64 = 0x5555_5555_5555_5555;

impl Dot {
    /// Thirty-two rounded activations as bf16 whose exponent is raised by that of the largest unit;
    /// zero stays zero.
    #[inline(always)]
    fn raised(self, x: &[f32; TILE]) -> __m512i {
        let words = self.words(x);
        let magnitudes = intrinsic!(_mm512_test_epi16_mask(words, _mm512_set1_epi16(i16::MAX)));
        intrinsic!(_mm512_mask_add_epi16(
            words,
            magnitudes,
            words,
            _mm512_set1_epi16(RAISED)
        ))
    }

    /// What the exponent field of each k is lowered by, for the left faces and the right: by the
    /// largest exponent less its own, or by all there is where a group reads as zeros.
    #[inline(always)]
    fn lowered(self, exponents: &Exponents) -> [__m512i; 2] {
        let stored = self.load(exponents);
        let largest = intrinsic!(_mm512_set1_epi8(WEIGHT_EXPONENT_MAX.cast_signed()));
        let below = intrinsic!(_mm512_subs_epu8(largest, stored));
        let least = intrinsic!(_mm512_set1_epi8(WEIGHT_EXPONENT_MIN.cast_signed()));
        let zeros = intrinsic!(_mm512_cmplt_epu8_mask(stored, least));
        let below = intrinsic!(_mm512_mask_mov_epi8(below, zeros, _mm512_set1_epi8(-1)));
        SIDES.each_ref().map(
            #[inline(always)]
            |side| {
                let words = intrinsic!(_mm512_maskz_permutexvar_epi8(
                    LOW_BYTES,
                    self.load(side),
                    below
                ));
                intrinsic!(_mm512_slli_epi16::<7>(words))
            },
        )
    }

    /// Raised activations times their units.
    #[inline(always)]
    fn lower(self, raised: __m512i, lowered: __m512i) -> __m512i {
        let magnitude = intrinsic!(_mm512_and_si512(raised, _mm512_set1_epi16(i16::MAX)));
        let scaled = intrinsic!(_mm512_subs_epu16(magnitude, lowered));
        let sign = intrinsic!(_mm512_set1_epi16(i16::MIN));
        intrinsic!(_mm512_ternarylogic_epi32::<OR_AND>(scaled, raised, sign))
    }

    #[inline(always)]
    fn store(self, pairs: __m512i, to: &mut [u32; PAIRS]) {
        intrinsic!(_mm512_storeu_si512(to.as_mut_ptr().cast(), pairs));
    }

    /// Asks for the lines ahead of quad `quad` of a tile.
    #[inline(always)]
    fn prefetch<T: Tile>(self, tile: &T, quad: usize) {
        // A quad is a line, a half or a quarter of one.
        if quad * size_of::<T>() / 16 % 64 < size_of::<T>() / 16 {
            let from = std::ptr::from_ref(tile).cast::<i8>();
            let at = quad * (size_of::<T>() / 16);
            intrinsic!(_mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at + NEAR)));
            intrinsic!(_mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(at + FAR)));
        }
    }
}
