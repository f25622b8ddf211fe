//! The arithmetic on 16 outputs at once: products in 16-bit lanes, destinations in 8 lanes of 32 bits.
//!
//! As [`super::super::portable`], with these departures:
//!
//! - AVX2 has no shifts of 16-bit lanes by distances of their own. Rounding a product `p` half up by `d`
//!   is `vpmulhrsw(2p, 2^(14 - d))`; the power comes from a table of bytes by `vpshufb`.
//! - There is no count of leading zeros: the exponent of the magnitude as f32 serves, after the
//!   bits are cleared that could round it up.

use std::arch::x86_64::*;

use super::super::dispatch::{Table, instances};
use super::super::{ActivationRow, Destination, Tile, WeightParts};
use crate::tensix::Phase;
use crate::tensix::definition::GROUP;
use crate::weight::TILE;

/// Outputs of one vector of 16-bit lanes.
const LANES: usize = 16;

static TABLE: Table = Table {
    split,
    run: instances!(accumulate),
};

/// The table, where the CPU has AVX2.
pub(super) fn table() -> Option<&'static Table> {
    is_x86_feature_detected!("avx2").then_some(&TABLE)
}

fn split(parts: &mut WeightParts, tile: Tile<'_>) {
    #[target_feature(enable = "avx2")]
    fn with_avx2(parts: &mut WeightParts, tile: Tile<'_>) {
        parts.split(tile);
    }
    // SAFETY: only `TABLE` names this function, and `table` hands it out where AVX2 was detected.
    unsafe { with_avx2(parts, tile) }
}

fn accumulate<const PHASES: usize, const F32: bool>(
    parts: &WeightParts,
    rows: &[ActivationRow],
    destinations: &mut [Destination],
) {
    // SAFETY: only `TABLE` names this function, and `table` hands it out where AVX2 was detected.
    unsafe { with_avx2::<PHASES, F32>(parts, rows, destinations) }
}

#[target_feature(enable = "avx2")]
fn with_avx2<const PHASES: usize, const F32: bool>(
    parts: &WeightParts,
    rows: &[ActivationRow],
    destinations: &mut [Destination],
) {
    for (row, destination) in rows.iter().zip(destinations) {
        for (side, bits) in destination
            .bits
            .as_chunks_mut::<LANES>()
            .0
            .iter_mut()
            .enumerate()
        {
            let groups: [Group<PHASES>; TILE / GROUP] =
                std::array::from_fn(|group| products(parts, side * LANES, row, group * GROUP));
            for (half, bits) in bits.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let mut dest = load(bits);
                for phase in 0..PHASES {
                    for pair in groups.as_chunks::<2>().0 {
                        let [first, second] =
                            pair.each_ref().map(|group| group.widened(phase, half));
                        dest = add::<F32>(dest, first, second);
                    }
                }
                store(bits, dest);
            }
        }
    }
}

/// The sums of eight products for 16 outputs, 16-bit lanes.
#[derive(Clone, Copy)]
struct Group<const PHASES: usize> {
    /// The largest exponent, of phase 0.
    top: __m256i,
    sums: [__m256i; PHASES],
}

/// One sum for 8 outputs, 32-bit lanes: exponent and value.
#[derive(Clone, Copy)]
struct Sum {
    exponent: __m256i,
    value: __m256i,
}

impl<const PHASES: usize> Group<PHASES> {
    /// Outputs `8 half..` of a phase's sum; exponent and value 0 where its exponent is not above 0.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn widened(&self, phase: usize, half: usize) -> Sum {
        let drop = _mm256_set1_epi16(Phase::ALL[phase].exponent_drop().into());
        let zero = _mm256_setzero_si256();
        let exponent = _mm256_max_epi16(_mm256_sub_epi16(self.top, drop), zero);
        let value = _mm256_and_si256(_mm256_cmpgt_epi16(exponent, zero), self.sums[phase]);
        let wide = |lanes: __m256i| {
            _mm256_cvtepi16_epi32(if half == 0 {
                _mm256_castsi256_si128(lanes)
            } else {
                _mm256_extracti128_si256::<1>(lanes)
            })
        };
        Sum {
            exponent: wide(exponent),
            value: wide(value),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn products<const PHASES: usize>(
    parts: &WeightParts,
    first: usize,
    row: &ActivationRow,
    k: usize,
) -> Group<PHASES> {
    let exponents: [__m256i; GROUP] = std::array::from_fn(|j| {
        _mm256_add_epi16(
            words(parts.exponents(k + j), first),
            broadcast(row.exponent[k + j]),
        )
    });
    let zero = _mm256_setzero_si256();
    let top = exponents
        .into_iter()
        .reduce(|a, b| _mm256_max_epi16(a, b))
        .unwrap_or(zero);
    let mut sums = [zero; PHASES];
    for (j, exponent) in exponents.into_iter().enumerate() {
        let scale = power(_mm256_sub_epi16(top, exponent));
        let sign = _mm256_xor_si256(words(parts.signs(k + j), first), broadcast(row.turn[k + j]));
        for (phase, sum) in sums.iter_mut().enumerate() {
            let activation = if phase & 2 == 0 { &row.high } else { &row.low };
            let doubled = _mm256_mullo_epi16(
                halves(parts.mantissas(phase, k + j), first),
                broadcast(activation[k + j]),
            );
            let rounded = _mm256_mulhrs_epi16(doubled, scale);
            *sum = _mm256_add_epi16(*sum, _mm256_sign_epi16(rounded, sign));
        }
    }
    Group { top, sums }
}

/// `2^(14 - distance)` in each 16-bit lane, 1 where the distance is more than 14: there a product of
/// 12 bits rounds to 0 all the same.
#[inline]
#[target_feature(enable = "avx2")]
fn power(distance: __m256i) -> __m256i {
    // Entry i is 2^(7 - i). The high byte of a power is entry d + 1; the low byte is entry d - 7, and a
    // negative index gives 0.
    let bytes = _mm_setr_epi8(
        i8::MIN,
        0x40,
        0x20,
        0x10,
        8,
        4,
        2,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    );
    let distance = _mm256_min_epi16(distance, _mm256_set1_epi16(14));
    let both = _mm256_or_si256(distance, _mm256_slli_epi16::<8>(distance));
    let index = _mm256_add_epi8(both, _mm256_set1_epi16(0x01f9));
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), index)
}

/// `definition::add` on 8 lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn add<const F32: bool>(dest: __m256i, first: Sum, second: Sum) -> __m256i {
    let set = |x: i32| _mm256_set1_epi32(x);
    let one = set(1);
    let narrow = |term: __m256i| {
        if F32 {
            term
        } else {
            _mm256_and_si256(_mm256_add_epi32(term, set(0x1000)), set(!0x1fff))
        }
    };

    let dest_exponent = _mm256_and_si256(_mm256_srli_epi32::<23>(dest), set(0xff));
    let subnormal = _mm256_cmpeq_epi32(dest_exponent, _mm256_setzero_si256());
    let significand = _mm256_or_si256(_mm256_and_si256(dest, set(0x7f_ffff)), set(0x80_0000));
    let dest_magnitude = _mm256_andnot_si256(subnormal, significand);
    let exponent = _mm256_max_epi32(
        dest_exponent,
        _mm256_max_epi32(first.exponent, second.exponent),
    );

    let aligned = |sum: Sum| {
        let doubled = _mm256_slli_epi32::<14>(sum.value);
        let shifted = _mm256_srav_epi32(doubled, _mm256_sub_epi32(exponent, sum.exponent));
        narrow(_mm256_srai_epi32::<1>(_mm256_add_epi32(shifted, one)))
    };
    let shifted = _mm256_srlv_epi32(
        _mm256_slli_epi32::<1>(dest_magnitude),
        _mm256_sub_epi32(exponent, dest_exponent),
    );
    let magnitude = narrow(_mm256_srli_epi32::<1>(_mm256_add_epi32(shifted, one)));
    let sign = _mm256_srai_epi32::<31>(dest);
    let signed = _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign);
    let total = _mm256_add_epi32(signed, _mm256_add_epi32(aligned(first), aligned(second)));

    let magnitude = _mm256_abs_epi32(total);
    // A magnitude below 2^30 of which no two neighbouring bits are set cannot round up to the next power.
    let sparse = _mm256_andnot_si256(_mm256_srli_epi32::<1>(magnitude), magnitude);
    let float = _mm256_castps_si256(_mm256_cvtepi32_ps(sparse));
    // The place of the leading bit; -127 for 0, which ends as 0 whatever it is shifted by.
    let place = _mm256_sub_epi32(_mm256_srli_epi32::<23>(float), set(127));
    let right = _mm256_sub_epi32(place, set(if F32 { 23 } else { 7 }));
    let shifted = _mm256_srlv_epi32(_mm256_slli_epi32::<1>(magnitude), right);
    let rounded = _mm256_srli_epi32::<1>(_mm256_add_epi32(shifted, one));
    let significand = if F32 {
        // Both shifts by 0 give the same bits.
        let left = _mm256_sllv_epi32(magnitude, _mm256_sub_epi32(set(23), place));
        _mm256_or_si256(left, rounded)
    } else {
        _mm256_slli_epi32::<16>(rounded)
    };
    // The significand's leading bit (or its carry) adds one to the exponent field: start one lower.
    let below = _mm256_add_epi32(exponent, _mm256_sub_epi32(place, set(24)));
    let finite = _mm256_add_epi32(_mm256_slli_epi32::<23>(below), significand);
    let carried = _mm256_add_epi32(below, _mm256_srli_epi32::<24>(significand));
    let infinite = _mm256_cmpgt_epi32(carried, set(253));
    let value = _mm256_blendv_epi8(finite, set(0x7f80_0000), infinite);
    let nothing = _mm256_or_si256(
        _mm256_cmpeq_epi32(total, _mm256_setzero_si256()),
        _mm256_cmpgt_epi32(_mm256_setzero_si256(), carried),
    );
    let signed = _mm256_or_si256(value, _mm256_and_si256(total, set(i32::MIN)));
    _mm256_andnot_si256(nothing, signed)
}

#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(word: u32) -> __m256i {
    _mm256_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(row: &[i16; TILE], first: usize) -> __m256i {
    let lanes = &row[first..first + LANES];
    // SAFETY: the slice is 32 bytes, which is what an unaligned load reads.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(row: &[u16; TILE], first: usize) -> __m256i {
    let lanes = &row[first..first + LANES];
    // SAFETY: the slice is 32 bytes, which is what an unaligned load reads.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bits: &[u32; 8]) -> __m256i {
    // SAFETY: the array is 32 bytes, which is what an unaligned load reads.
    unsafe { _mm256_loadu_si256(bits.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(bits: &mut [u32; 8], lanes: __m256i) {
    // SAFETY: the array is 32 bytes, which is what an unaligned store writes.
    unsafe { _mm256_storeu_si256(bits.as_mut_ptr().cast(), lanes) }
}
