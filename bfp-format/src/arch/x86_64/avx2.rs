//! One group is two vectors of 8 lanes. The arithmetic is that of [`avx512`](super::avx512), with comparisons in place
//! of masks.

use std::arch::x86_64::*;

use half::bf16;

use super::{
    BF16_FRACTION, EXPONENT, FRACTION, LEADING_ONE, MAGNITUDE, by_format, group_bytes, load_codes,
    prefetch, prefetch_to_write, store_codes,
};
use crate::{BlockFormat, GROUP, Rounding};

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) fn encode_rows_f32(
    format: BlockFormat,
    rounding: Rounding,
    source: &[f32],
    stride: usize,
    exponents: &mut [u8],
    codes: &mut [u8],
) {
    let load = |row: usize, half: usize| load_f32(&source[row * stride + half * LANES..]);
    by_format!(format, rounding, encode_rows(load, exponents, codes));
}

#[target_feature(enable = "avx2")]
pub(super) fn encode_rows_bf16(
    format: BlockFormat,
    rounding: Rounding,
    source: &[bf16],
    stride: usize,
    exponents: &mut [u8],
    codes: &mut [u8],
) {
    let load = |row: usize, half: usize| load_bf16(&source[row * stride + half * LANES..]);
    by_format!(format, rounding, encode_rows(load, exponents, codes));
}

#[target_feature(enable = "avx2")]
pub(super) fn encode_columns_f32(
    format: BlockFormat,
    rounding: Rounding,
    source: &[f32],
    stride: usize,
    exponents: &mut [u8; 16],
    codes: &mut [u8],
) {
    let load = |element: usize, half: usize| load_f32(&source[element * stride + half * LANES..]);
    by_format!(format, rounding, encode_columns(load, exponents, codes));
}

#[target_feature(enable = "avx2")]
pub(super) fn encode_columns_bf16(
    format: BlockFormat,
    rounding: Rounding,
    source: &[bf16],
    stride: usize,
    exponents: &mut [u8; 16],
    codes: &mut [u8],
) {
    let load = |element: usize, half: usize| load_bf16(&source[element * stride + half * LANES..]);
    by_format!(format, rounding, encode_columns(load, exponents, codes));
}

#[target_feature(enable = "avx2")]
pub(super) fn decode_rows(
    format: BlockFormat,
    exponents: &[u8],
    codes: &[u8],
    out: &mut [f32],
    stride: usize,
) {
    match format {
        BlockFormat::Bfp8 => decode::<7>(exponents, codes, out, stride),
        BlockFormat::Bfp4 => decode::<3>(exponents, codes, out, stride),
        BlockFormat::Bfp2 => decode::<1>(exponents, codes, out, stride),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn encode_rows<const WIDTH: u32, const DEVICE: bool>(
    load: impl Fn(usize, usize) -> __m256i,
    exponents: &mut [u8],
    codes: &mut [u8],
) {
    let packed = codes.chunks_exact_mut(group_bytes(WIDTH));
    assert_eq!(packed.len(), exponents.len(), "codes for each exponent");
    for (row, (exponent, packed)) in exponents.iter_mut().zip(packed).enumerate() {
        let [low, high] = [load(row, 0), load(row, 1)];
        let shared = largest_exponent(low, high);
        *exponent = shared.to_le_bytes()[0];
        let shared = _mm256_set1_epi32(shared);
        let low = encode_lanes::<WIDTH, DEVICE>(low, shared);
        let high = encode_lanes::<WIDTH, DEVICE>(high, shared);
        // Packing works within halves: the quarters come out as 0, 2, 1, 3.
        let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
        let codes = _mm_packus_epi16(
            _mm256_castsi256_si128(words),
            _mm256_extracti128_si256::<1>(words),
        );
        store_codes::<WIDTH>(codes, packed);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn encode_columns<const WIDTH: u32, const DEVICE: bool>(
    load: impl Fn(usize, usize) -> __m256i,
    exponents: &mut [u8; 16],
    codes: &mut [u8],
) {
    let packed = codes.chunks_exact_mut(LANES * group_bytes(WIDTH));
    assert_eq!(packed.len(), 2, "codes of 16 groups");
    for (half, (exponents, packed)) in exponents.chunks_exact_mut(LANES).zip(packed).enumerate() {
        let magnitude =
            |element| _mm256_and_si256(load(element, half), _mm256_set1_epi32(MAGNITUDE));
        let largest = (1..GROUP).fold(magnitude(0), |most, element| {
            _mm256_max_epu32(most, magnitude(element))
        });
        let shared = _mm256_srli_epi32::<23>(largest);
        let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(shared, shared));
        let words = _mm256_castsi256_si128(words);
        let bytes = _mm_cvtsi128_si64(_mm_packus_epi16(words, words));
        exponents.copy_from_slice(&bytes.to_le_bytes());
        // Word j of lane r holds the bits of group r's bytes 4j..4j + 4: later elements in higher bits.
        let mut words = [_mm256_setzero_si256(); 4];
        let elements_per_word = 32 / (WIDTH as usize + 1);
        for (word, first) in words.iter_mut().zip((0..GROUP).step_by(elements_per_word)) {
            for element in (first..first + elements_per_word).rev() {
                let code = encode_lanes::<WIDTH, DEVICE>(load(element, half), shared);
                *word = _mm256_or_si256(_mm256_sll_epi32(*word, count(WIDTH + 1)), code);
            }
        }
        store_words::<WIDTH>(words, packed);
    }
}

/// Writes 8 groups, of which each word has its part of every one.
#[inline]
#[target_feature(enable = "avx2")]
fn store_words<const WIDTH: u32>(words: [__m256i; 4], packed: &mut [u8]) {
    let [a, b, c, d] = words;
    let (rows, _) = packed.as_chunks_mut::<32>();
    match WIDTH {
        7 => {
            let [ab_low, ab_high] = [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)];
            let [cd_low, cd_high] = [_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d)];
            // Half h of vector j is group 4h + j.
            let [j0, j1] = [
                _mm256_unpacklo_epi64(ab_low, cd_low),
                _mm256_unpackhi_epi64(ab_low, cd_low),
            ];
            let [j2, j3] = [
                _mm256_unpacklo_epi64(ab_high, cd_high),
                _mm256_unpackhi_epi64(ab_high, cd_high),
            ];
            store(&mut rows[0], _mm256_permute2x128_si256::<0x20>(j0, j1));
            store(&mut rows[1], _mm256_permute2x128_si256::<0x20>(j2, j3));
            store(&mut rows[2], _mm256_permute2x128_si256::<0x31>(j0, j1));
            store(&mut rows[3], _mm256_permute2x128_si256::<0x31>(j2, j3));
        }
        3 => {
            // Half h: groups 4h and 4h + 1, then 4h + 2 and 4h + 3.
            let [low, high] = [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)];
            store(&mut rows[0], _mm256_permute2x128_si256::<0x20>(low, high));
            store(&mut rows[1], _mm256_permute2x128_si256::<0x31>(low, high));
        }
        _ => store(&mut rows[0], a),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn largest_exponent(low: __m256i, high: __m256i) -> i32 {
    let magnitude = |bits| _mm256_and_si256(bits, _mm256_set1_epi32(MAGNITUDE));
    let most = _mm256_max_epu32(magnitude(low), magnitude(high));
    let most = _mm_max_epu32(
        _mm256_castsi256_si128(most),
        _mm256_extracti128_si256::<1>(most),
    );
    let most = _mm_max_epu32(most, _mm_shuffle_epi32::<0b00_00_11_10>(most));
    let most = _mm_max_epu32(most, _mm_shuffle_epi32::<0b00_00_00_01>(most));
    _mm_cvtsi128_si32(most) >> 23
}

/// The codes of 8 numbers, each with the shared exponent of its own group.
#[inline]
#[target_feature(enable = "avx2")]
fn encode_lanes<const WIDTH: u32, const DEVICE: bool>(bits: __m256i, shared: __m256i) -> __m256i {
    let zero = _mm256_setzero_si256();
    let largest = _mm256_set1_epi32((1 << WIDTH) - 1);
    let denormal = _mm256_cmpeq_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(EXPONENT)), zero);
    let own = _mm256_srli_epi32::<23>(_mm256_and_si256(bits, _mm256_set1_epi32(MAGNITUDE)));
    let distance = _mm256_sub_epi32(shared, own);
    let fraction = _mm256_and_si256(
        bits,
        _mm256_set1_epi32(if DEVICE { BF16_FRACTION } else { FRACTION }),
    );
    let aligned = _mm256_srlv_epi32(
        _mm256_or_si256(fraction, _mm256_set1_epi32(LEADING_ONE)),
        distance,
    );
    let magnitude = if DEVICE {
        let rounded =
            _mm256_srli_epi32::<17>(_mm256_add_epi32(aligned, _mm256_set1_epi32(1 << 16)));
        _mm256_srl_epi32(
            _mm256_min_epu32(rounded, _mm256_set1_epi32(127)),
            count(7 - WIDTH),
        )
    } else {
        let cut = 24 - WIDTH;
        let odd = _mm256_and_si256(_mm256_srl_epi32(aligned, count(cut)), _mm256_set1_epi32(1));
        let almost_half = _mm256_set1_epi32((1 << (cut - 1)) - 1);
        let rounded = _mm256_add_epi32(_mm256_add_epi32(aligned, almost_half), odd);
        _mm256_min_epu32(_mm256_srl_epi32(rounded, count(cut)), largest)
    };
    let magnitude = _mm256_andnot_si256(denormal, magnitude);
    let sign = _mm256_and_si256(
        _mm256_srl_epi32(bits, count(31 - WIDTH)),
        _mm256_set1_epi32(1 << WIDTH),
    );
    _mm256_or_si256(
        magnitude,
        _mm256_andnot_si256(_mm256_cmpeq_epi32(magnitude, zero), sign),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn decode<const WIDTH: u32>(exponents: &[u8], codes: &[u8], out: &mut [f32], stride: usize) {
    let packed = codes.chunks_exact(group_bytes(WIDTH));
    assert_eq!(packed.len(), exponents.len(), "codes for each exponent");
    for (row, (&exponent, packed)) in exponents.iter().zip(packed).enumerate() {
        let codes = load_codes::<WIDTH>(packed);
        let out = &mut out[row * stride..];
        prefetch_to_write(out);
        let out: &mut [f32; GROUP] = out.first_chunk_mut().expect("room for 16 values");
        let (low, high) = out.split_at_mut(LANES);
        store_f32(
            low,
            decode_lanes::<WIDTH>(_mm256_cvtepu8_epi32(codes), exponent),
        );
        store_f32(
            high,
            decode_lanes::<WIDTH>(
                _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(codes, codes)),
                exponent,
            ),
        );
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn decode_lanes<const WIDTH: u32>(codes: __m256i, exponent: u8) -> __m256i {
    let zero = _mm256_setzero_si256();
    let sign = _mm256_and_si256(
        _mm256_sll_epi32(codes, count(31 - WIDTH)),
        _mm256_set1_epi32(i32::MIN),
    );
    let magnitude = _mm256_and_si256(codes, _mm256_set1_epi32((1 << WIDTH) - 1));
    let shift = (i32::from(exponent) - 126 - WIDTH.cast_signed()) << 23;
    let float = _mm256_castps_si256(_mm256_cvtepi32_ps(magnitude));
    let moved = _mm256_add_epi32(float, _mm256_set1_epi32(shift));
    let none = _mm256_cmpeq_epi32(magnitude, zero);
    let lost = _mm256_andnot_si256(none, _mm256_cmpgt_epi32(zero, moved));
    let value = _mm256_or_si256(_mm256_andnot_si256(none, moved), sign);
    _mm256_andnot_si256(lost, value)
}

#[inline]
#[target_feature(enable = "avx2")]
fn count(bits: u32) -> __m128i {
    _mm_cvtsi32_si128(bits.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_f32(source: &[f32]) -> __m256i {
    prefetch(source);
    let source: &[f32; LANES] = source.first_chunk().expect("8 numbers");
    // SAFETY: `source` is 32 readable bytes.
    unsafe { _mm256_loadu_si256(source.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_bf16(source: &[bf16]) -> __m256i {
    prefetch(source);
    let source: &[bf16; LANES] = source.first_chunk().expect("8 numbers");
    // SAFETY: `source` is 16 readable bytes.
    let halves = unsafe { _mm_loadu_si128(source.as_ptr().cast()) };
    _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: `bytes` is 32 writable bytes.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_f32(values: &mut [f32], vector: __m256i) {
    let values: &mut [f32; LANES] = values.try_into().expect("8 numbers");
    // SAFETY: `values` is 32 writable bytes.
    unsafe { _mm256_storeu_si256(values.as_mut_ptr().cast(), vector) }
}
