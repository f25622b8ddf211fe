//! The arithmetic on 32 outputs at once: products in 16-bit lanes, destinations in 32-bit lanes.
//!
//! As [`super::super::portable`], with these departures:
//!
//! - A product (12 bits), a sum of eight (16 with its sign) and every exponent fit 16 bits, so one vector
//!   holds a whole tile row of weights.
//! - `vpavgw` with zero is `(x + 1) >> 1`, the last step of rounding half up.
//! - Per-lane shifts by 16 (32) or more give 0 (the sign), so distances need no bound, and of a left and a
//!   right shift by the same signed distance the one that does not apply gives 0.
//! - Signs of a tile row of weights are one 32-bit mask.

use std::arch::x86_64::*;

use super::super::dispatch::{Table, instances};
use super::super::{ActivationRow, Destination, Tile, WeightParts};
use crate::tensix::Phase;
use crate::tensix::definition::GROUP;
use crate::weight::TILE;

static TABLE: Table = Table {
    split,
    run: instances!(accumulate),
};

/// The table, where the CPU has AVX-512 F, BW and CD.
pub(super) fn table() -> Option<&'static Table> {
    let present = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd");
    present.then_some(&TABLE)
}

fn split(parts: &mut WeightParts, tile: Tile<'_>) {
    #[target_feature(enable = "avx512f,avx512bw,avx512cd")]
    fn with_avx512(parts: &mut WeightParts, tile: Tile<'_>) {
        parts.split(tile);
    }
    // SAFETY: only `TABLE` names this function, and `table` hands it out where all three were detected.
    unsafe { with_avx512(parts, tile) }
}

fn accumulate<const PHASES: usize, const F32: bool>(
    parts: &WeightParts,
    rows: &[ActivationRow],
    destinations: &mut [Destination],
) {
    // SAFETY: only `TABLE` names this function, and `table` hands it out where all three were detected.
    unsafe { with_avx512::<PHASES, F32>(parts, rows, destinations) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512cd")]
fn with_avx512<const PHASES: usize, const F32: bool>(
    parts: &WeightParts,
    rows: &[ActivationRow],
    destinations: &mut [Destination],
) {
    let mut signs = [0; TILE];
    for (k, mask) in signs.iter_mut().enumerate() {
        *mask = _mm512_movepi16_mask(words(parts.signs(k)));
    }
    for (row, destination) in rows.iter().zip(destinations) {
        let groups: [Group<PHASES>; TILE / GROUP] =
            std::array::from_fn(|group| products(parts, &signs, row, group * GROUP));
        let (halves, _) = destination.bits.as_chunks_mut::<16>();
        for (at, bits) in halves.iter_mut().enumerate() {
            let mut dest = load(bits);
            for phase in 0..PHASES {
                for pair in groups.as_chunks::<2>().0 {
                    let [first, second] = pair.each_ref().map(|group| group.widened(phase, at));
                    dest = add::<F32>(dest, first, second);
                }
            }
            store(bits, dest);
        }
    }
}

/// The sums of eight products for 32 outputs, 16-bit lanes.
#[derive(Clone, Copy)]
struct Group<const PHASES: usize> {
    /// The largest exponent, of phase 0.
    top: __m512i,
    sums: [__m512i; PHASES],
}

/// One sum for 16 outputs, 32-bit lanes: exponent and value.
#[derive(Clone, Copy)]
struct Sum {
    exponent: __m512i,
    value: __m512i,
}

impl<const PHASES: usize> Group<PHASES> {
    /// Outputs `16 half..` of a phase's sum; exponent and value 0 where its exponent is not above 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn widened(&self, phase: usize, half: usize) -> Sum {
        let drop = _mm512_set1_epi16(Phase::ALL[phase].exponent_drop().into());
        let exponent = _mm512_max_epi16(_mm512_sub_epi16(self.top, drop), _mm512_setzero_si512());
        let value =
            _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(exponent, exponent), self.sums[phase]);
        let wide = |lanes: __m512i| {
            _mm512_cvtepi16_epi32(if half == 0 {
                _mm512_castsi512_si256(lanes)
            } else {
                _mm512_extracti64x4_epi64::<1>(lanes)
            })
        };
        Sum {
            exponent: wide(exponent),
            value: wide(value),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn products<const PHASES: usize>(
    parts: &WeightParts,
    signs: &[u32; TILE],
    row: &ActivationRow,
    k: usize,
) -> Group<PHASES> {
    let zero = _mm512_setzero_si512();
    let exponents: [__m512i; GROUP] = std::array::from_fn(|j| {
        _mm512_add_epi16(
            words(parts.exponents(k + j)),
            broadcast(row.exponent[k + j]),
        )
    });
    let top = exponents
        .into_iter()
        .reduce(|a, b| _mm512_max_epi16(a, b))
        .unwrap_or(zero);
    let mut sums = [zero; PHASES];
    for (j, exponent) in exponents.into_iter().enumerate() {
        let distance = _mm512_sub_epi16(top, exponent);
        // All ones or none: the top bit of a turn, everywhere.
        let negative = signs[k + j] ^ (row.turn[k + j].cast_signed() >> 31).cast_unsigned();
        for (phase, sum) in sums.iter_mut().enumerate() {
            let activation = if phase & 2 == 0 { &row.high } else { &row.low };
            let doubled = _mm512_mullo_epi16(
                halves(parts.mantissas(phase, k + j)),
                broadcast(activation[k + j]),
            );
            let rounded = _mm512_avg_epu16(_mm512_srlv_epi16(doubled, distance), zero);
            let signed = _mm512_mask_sub_epi16(rounded, negative, zero, rounded);
            *sum = _mm512_add_epi16(*sum, signed);
        }
    }
    Group { top, sums }
}

/// `definition::add` on 16 lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512cd")]
fn add<const F32: bool>(dest: __m512i, first: Sum, second: Sum) -> __m512i {
    let set = |x: i32| _mm512_set1_epi32(x);
    // (a and b) or c
    const SELECT: i32 = 0xea;
    let one = set(1);
    let narrow = |term: __m512i| {
        if F32 {
            term
        } else {
            _mm512_and_si512(_mm512_add_epi32(term, set(0x1000)), set(!0x1fff))
        }
    };

    let dest_exponent = _mm512_and_si512(_mm512_srli_epi32::<23>(dest), set(0xff));
    let normal = _mm512_test_epi32_mask(dest, set(0x7f80_0000));
    let dest_magnitude =
        _mm512_maskz_ternarylogic_epi32::<SELECT>(normal, dest, set(0x7f_ffff), set(0x80_0000));
    let exponent = _mm512_max_epi32(
        dest_exponent,
        _mm512_max_epi32(first.exponent, second.exponent),
    );

    let aligned = |sum: Sum| {
        let doubled = _mm512_slli_epi32::<14>(sum.value);
        let shifted = _mm512_srav_epi32(doubled, _mm512_sub_epi32(exponent, sum.exponent));
        narrow(_mm512_srai_epi32::<1>(_mm512_add_epi32(shifted, one)))
    };
    let shifted = _mm512_srlv_epi32(
        _mm512_slli_epi32::<1>(dest_magnitude),
        _mm512_sub_epi32(exponent, dest_exponent),
    );
    let magnitude = narrow(_mm512_srli_epi32::<1>(_mm512_add_epi32(shifted, one)));
    let sign = _mm512_srai_epi32::<31>(dest);
    let signed = _mm512_sub_epi32(_mm512_xor_si512(magnitude, sign), sign);
    let total = _mm512_add_epi32(signed, _mm512_add_epi32(aligned(first), aligned(second)));

    let magnitude = _mm512_abs_epi32(total);
    let leading = _mm512_lzcnt_epi32(magnitude);
    let right = _mm512_sub_epi32(set(if F32 { 8 } else { 24 }), leading);
    let shifted = _mm512_srlv_epi32(_mm512_slli_epi32::<1>(magnitude), right);
    let rounded = _mm512_srli_epi32::<1>(_mm512_add_epi32(shifted, one));
    let significand = if F32 {
        // Both shifts by 0 give the same bits.
        let left = _mm512_sllv_epi32(magnitude, _mm512_sub_epi32(leading, set(8)));
        _mm512_or_si512(left, rounded)
    } else {
        _mm512_slli_epi32::<16>(rounded)
    };
    // The significand's leading bit (or its carry) adds one to the exponent field: start one lower.
    let below = _mm512_sub_epi32(_mm512_add_epi32(exponent, set(7)), leading);
    let finite = _mm512_add_epi32(_mm512_slli_epi32::<23>(below), significand);
    let carried = _mm512_add_epi32(below, _mm512_srli_epi32::<24>(significand));
    let infinite = _mm512_cmpgt_epi32_mask(carried, set(253));
    let value = _mm512_mask_mov_epi32(finite, infinite, set(0x7f80_0000));
    let something =
        _mm512_mask_cmpgt_epi32_mask(_mm512_test_epi32_mask(total, total), carried, set(-1));
    _mm512_maskz_ternarylogic_epi32::<SELECT>(something, total, set(i32::MIN), value)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn words(lanes: &[i16; TILE]) -> __m512i {
    // SAFETY: the array is 64 bytes, which is what an unaligned load reads.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn halves(lanes: &[u16; TILE]) -> __m512i {
    // SAFETY: the array is 64 bytes, which is what an unaligned load reads.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bits: &[u32; 16]) -> __m512i {
    // SAFETY: the array is 64 bytes, which is what an unaligned load reads.
    unsafe { _mm512_loadu_si512(bits.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(bits: &mut [u32; 16], lanes: __m512i) {
    // SAFETY: the array is 64 bytes, which is what an unaligned store writes.
    unsafe { _mm512_storeu_si512(bits.as_mut_ptr().cast(), lanes) }
}
