//! Many rows: blocks of tiles become a panel of bf16 weights in the first-level cache, which all rows
//! go through in a register-blocked kernel.
//!
//! ```text
//! for each few tile columns:                          their accumulators stay in the second-level cache
//!     for each 128 inputs:
//!         for each two of the tile columns:
//!             panel[pair][64 outputs] = codes * units     exact bf16 weights
//!             for each R rows:
//!                 for each pair of k:
//!                     acc[R][V vectors] = dot(x[row][pair], panel[pair], acc)
//! ```

use std::arch::x86_64::*;

use super::Dot;
use super::expand::Tile;
use crate::cpu::kernels::{BLOCK, LinearPart};
use crate::numerics::{WEIGHT_EXPONENT_MAX, WEIGHT_EXPONENT_MIN};
use crate::weight::TILE;

/// Tile columns of a panel.
const TILES: usize = 2;
/// Vectors of sixteen outputs of a panel.
const VECTORS: usize = TILES * 2;
/// Pairs of inputs of a block.
const PAIRS: usize = BLOCK / 2;
/// Accumulators, in bytes, that should stay in the second-level cache beside activations.
const HELD: usize = 1 << 19;

/// One vector of pairs.
type Pairs = [u32; 16];
/// 128 inputs by 64 outputs, `[pair][V][16]`.
#[repr(align(64))]
struct Panel([Pairs; VECTORS * PAIRS]);

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
pub(super) fn multiply<T: Tile>(part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    let s = Dot::present();
    let tiles: &[T] = bytemuck::cast_slice(part.tiles);
    let columns = part.shape.tile_columns();
    let rows_of_tiles = tiles.len() / columns;
    let mut panel = Panel([[0; 16]; VECTORS * PAIRS]);
    let x = pack(s, part.x.x);
    for out in out.iter_mut() {
        out.fill(0.0);
    }
    let held = (HELD / (out.len() * TILE * size_of::<f32>()))
        .next_multiple_of(TILES)
        .max(TILES);
    let last = part.width / TILE;
    for first in (0..last).step_by(held) {
        let end = last.min(first + held);
        for (x, k) in x
            .chunks_exact(out.len())
            .zip((0..rows_of_tiles).step_by(BLOCK / TILE))
        {
            let deep = (rows_of_tiles - k).min(BLOCK / TILE);
            for column in (first..end).step_by(TILES) {
                let wide = TILES.min(end - column);
                let tiles = &tiles[k * columns + part.first_tile_column + column..];
                expand(s, tiles, columns, deep, wide, &mut panel);
                let panel = &panel.0[..2 * wide * deep * TILE / 2];
                if wide == TILES {
                    rows::<VECTORS>(s, x, panel.as_chunks().0, out, column * TILE);
                } else {
                    rows::<2>(s, x, panel.as_chunks().0, out, column * TILE);
                }
            }
        }
    }
}

/// Rounded activations as pairs of bf16.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn pack(s: Dot, x: &[[f32; BLOCK]]) -> Vec<[u32; PAIRS]> {
    let mut packed = vec![[0; PAIRS]; x.len()];
    for (x, packed) in x.iter().zip(&mut packed) {
        for (x, packed) in x.as_chunks().0.iter().zip(packed.as_chunks_mut().0) {
            s.store_pairs(s.words(x), packed);
        }
    }
    packed
}

/// Fills a panel from `deep` by `wide` tiles.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn expand<T: Tile>(
    s: Dot,
    tiles: &[T],
    columns: usize,
    deep: usize,
    wide: usize,
    panel: &mut Panel,
) {
    for deep in 0..deep {
        for column in 0..wide {
            let tile = &tiles[deep * columns + column];
            let units = tile.exponents().map(|exponents| s.units(exponents));
            for quad in 0..16 {
                let (face, first) = (quad / 4, quad % 4 * 2);
                let weights = tile.quad(s, quad);
                for (i, mut w) in weights.into_iter().enumerate() {
                    if let Some(units) = &units {
                        w = s.times(w, units, quad * 2 + i);
                    }
                    let pair = deep * TILE / 2 + face / 2 * 8 + first + i;
                    s.store_pairs(w, &mut panel.0[pair * 2 * wide + column * 2 + face % 2]);
                }
            }
        }
    }
}

/// Takes all rows through `V` vectors of a panel; `from` is their first output.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn rows<const V: usize>(
    s: Dot,
    x: &[[u32; PAIRS]],
    panel: &[[Pairs; V]],
    out: &mut [&mut [f32]],
    from: usize,
) {
    let mut row = 0;
    while row < out.len() {
        let (x, out) = (&x[row..], &mut out[row..]);
        // No group of few rows but where there are few in all: it would wait for its own sums.
        row += match out.len() {
            1 => few::<1, V>(s, x, panel, out, from),
            2 => few::<2, V>(s, x, panel, out, from),
            3 | 5 => few::<3, V>(s, x, panel, out, from),
            4 | 7 | 8 => few::<4, V>(s, x, panel, out, from),
            _ => few::<6, V>(s, x, panel, out, from),
        };
    }
}

/// The register-blocked kernel: the first `R` rows; gives `R`.
#[inline(always)]
fn few<const R: usize, const V: usize>(
    s: Dot,
    x: &[[u32; PAIRS]],
    panel: &[[Pairs; V]],
    out: &mut [&mut [f32]],
    from: usize,
) -> usize {
    let x: &[[u32; PAIRS]; R] = x.first_chunk().expect("as many rows are left");
    let out: &mut [&mut [f32]; R] = out.first_chunk_mut().expect("as many rows are left");
    let mut sums = [[s.zero_sums(); V]; R];
    for r in 0..R {
        let from = &out[r][from..].as_chunks().0[..V];
        for v in 0..V {
            sums[r][v] = s.load_sums(&from[v]);
        }
    }
    for (pair, panel) in panel.iter().take(PAIRS).enumerate() {
        let mut w = [s.zero(); V];
        for v in 0..V {
            w[v] = s.load_pairs(&panel[v]);
        }
        for r in 0..R {
            for v in 0..V {
                sums[r][v] = s.dot(sums[r][v], x[r][pair], w[v]);
            }
        }
    }
    for r in 0..R {
        let to = &mut out[r][from..].as_chunks_mut().0[..V];
        for v in 0..V {
            s.store_sums(sums[r][v], &mut to[v]);
        }
    }
    R
}

/// Units of a tile's face rows.
struct Units {
    /// What is added to the bf16 words of each pair of face rows: their exponents less 133.
    exponents: [u32; 32],
    /// Face rows that do not read as zeros, a bit each.
    seen: u64,
}

impl Dot {
    #[inline(always)]
    fn units(self, exponents: &[u8; 64]) -> Units {
        let stored = self.load(exponents);
        let least = intrinsic!(_mm512_set1_epi8(WEIGHT_EXPONENT_MIN.cast_signed()));
        let seen = intrinsic!(_mm512_cmpge_epu8_mask(stored, least));
        let bounded = intrinsic!(_mm512_min_epu8(
            stored,
            _mm512_set1_epi8(WEIGHT_EXPONENT_MAX.cast_signed())
        ));
        let mut units = Units {
            exponents: [0; 32],
            seen,
        };
        let (low, high) = units.exponents.split_at_mut(16);
        let half = intrinsic!(_mm512_castsi512_si256(bounded));
        self.store_pairs(
            self.exponent_words(half),
            low.first_chunk_mut().expect("half of the pairs"),
        );
        let half = intrinsic!(_mm512_extracti64x4_epi64::<1>(bounded));
        self.store_pairs(
            self.exponent_words(half),
            high.first_chunk_mut().expect("half of the pairs"),
        );
        units
    }

    /// `(E - 133) << 7` of 32 exponents.
    #[inline(always)]
    fn exponent_words(self, exponents: __m256i) -> __m512i {
        let words = intrinsic!(_mm512_cvtepu8_epi16(exponents));
        let words = intrinsic!(_mm512_sub_epi16(words, _mm512_set1_epi16(133)));
        intrinsic!(_mm512_slli_epi16::<7>(words))
    }

    /// Pair `pair` of face rows in its units.
    #[inline(always)]
    fn times(self, w: __m512i, units: &Units, pair: usize) -> __m512i {
        const LANES: [u32; 4] = [0, 0x5555_5555, 0xaaaa_aaaa, 0xffff_ffff];
        let seen = LANES[usize::from((units.seen >> (2 * pair)).to_le_bytes()[0] & 3)];
        let magnitudes = intrinsic!(_mm512_test_epi16_mask(w, _mm512_set1_epi16(i16::MAX)));
        let exponents = intrinsic!(_mm512_set1_epi32(units.exponents[pair].cast_signed()));
        intrinsic!(_mm512_maskz_add_epi16(seen & magnitudes, w, exponents))
    }

    #[inline(always)]
    fn load_pairs(self, x: &Pairs) -> __m512i {
        intrinsic!(_mm512_loadu_si512(x.as_ptr().cast()))
    }

    #[inline(always)]
    fn store_pairs(self, x: __m512i, to: &mut Pairs) {
        intrinsic!(_mm512_storeu_si512(to.as_mut_ptr().cast(), x));
    }
}
