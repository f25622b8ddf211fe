//! One group is one vector of 16 lanes.
//!
//! Encoding a lane, branch-free, is [`encode_group`](crate::definition::encode_group):
//!
//! ```text
//! own         = bits >> 23 & 255
//! significand = fraction | 1 << 23, or 0 where own = 0
//! aligned     = significand >> (shared - own)         a shift of 32 or more gives 0
//! magnitude   = min(aligned rounded to WIDTH bits, largest)
//! code        = magnitude | sign << WIDTH             the sign only where magnitude is not 0
//! ```
//!
//! Rows have their group in one vector, so the shared exponent is a maximum across lanes. Columns have lane `r` of
//! 16 vectors as group `r`: the maximum is lane by lane, and only the finished codes are transposed.

use std::arch::x86_64::*;

use half::bf16;

use super::{
    BF16_FRACTION, EXPONENT, FRACTION, LEADING_ONE, MAGNITUDE, by_format, group_bytes, load_codes,
    prefetch, prefetch_to_write, store_codes,
};
use crate::{BlockFormat, GROUP, Rounding};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn encode_rows_f32(
    format: BlockFormat,
    rounding: Rounding,
    source: &[f32],
    stride: usize,
    exponents: &mut [u8],
    codes: &mut [u8],
) {
    let load = |row: usize| load_f32(&source[row * stride..]);
    by_format!(format, rounding, encode_rows(load, exponents, codes));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn encode_rows_bf16(
    format: BlockFormat,
    rounding: Rounding,
    source: &[bf16],
    stride: usize,
    exponents: &mut [u8],
    codes: &mut [u8],
) {
    let load = |row: usize| load_bf16(&source[row * stride..]);
    by_format!(format, rounding, encode_rows(load, exponents, codes));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn encode_columns_f32(
    format: BlockFormat,
    rounding: Rounding,
    source: &[f32],
    stride: usize,
    exponents: &mut [u8; 16],
    codes: &mut [u8],
) {
    let load = |element: usize| load_f32(&source[element * stride..]);
    by_format!(format, rounding, encode_columns(load, exponents, codes));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn encode_columns_bf16(
    format: BlockFormat,
    rounding: Rounding,
    source: &[bf16],
    stride: usize,
    exponents: &mut [u8; 16],
    codes: &mut [u8],
) {
    let load = |element: usize| load_bf16(&source[element * stride..]);
    by_format!(format, rounding, encode_columns(load, exponents, codes));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn encode_rows<const WIDTH: u32, const DEVICE: bool>(
    load: impl Fn(usize) -> __m512i,
    exponents: &mut [u8],
    codes: &mut [u8],
) {
    let packed = codes.chunks_exact_mut(group_bytes(WIDTH));
    assert_eq!(packed.len(), exponents.len(), "codes for each exponent");
    for (row, (exponent, packed)) in exponents.iter_mut().zip(packed).enumerate() {
        let bits = load(row);
        let magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(MAGNITUDE));
        let shared = _mm512_reduce_max_epu32(magnitude) >> 23;
        *exponent = shared.to_le_bytes()[0];
        let group = encode_lanes::<WIDTH, DEVICE>(bits, _mm512_set1_epi32(shared.cast_signed()));
        store_codes::<WIDTH>(_mm512_cvtepi32_epi8(group), packed);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn encode_columns<const WIDTH: u32, const DEVICE: bool>(
    load: impl Fn(usize) -> __m512i,
    exponents: &mut [u8; 16],
    codes: &mut [u8],
) {
    let elements: [__m512i; GROUP] = std::array::from_fn(load);
    let magnitude = |bits| _mm512_and_si512(bits, _mm512_set1_epi32(MAGNITUDE));
    let largest = elements.iter().fold(_mm512_setzero_si512(), |most, &bits| {
        _mm512_max_epu32(most, magnitude(bits))
    });
    let shared = _mm512_srli_epi32::<23>(largest);
    let shared_bytes = _mm512_cvtepi32_epi8(shared);
    // SAFETY: `exponents` is 16 writable bytes.
    unsafe { _mm_storeu_si128(exponents.as_mut_ptr().cast(), shared_bytes) }
    // Word j of lane r holds the bits of group r's bytes 4j..4j + 4: later elements in higher bits.
    let mut words = [_mm512_setzero_si512(); 4];
    for (word, elements) in words
        .iter_mut()
        .zip(elements.chunks_exact(32 / (WIDTH as usize + 1)))
    {
        for &element in elements.iter().rev() {
            let code = encode_lanes::<WIDTH, DEVICE>(element, shared);
            *word = _mm512_or_si512(_mm512_sll_epi32(*word, count(WIDTH + 1)), code);
        }
    }
    let (rows, _) = codes.as_chunks_mut::<64>();
    match WIDTH {
        7 => {
            let [a, b, c, d] = words;
            let [ab_low, ab_high] = [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)];
            let [cd_low, cd_high] = [_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d)];
            // Quarter q of vector j is group 4q + j; the quarters are transposed next.
            let [j0, j1] = [
                _mm512_unpacklo_epi64(ab_low, cd_low),
                _mm512_unpackhi_epi64(ab_low, cd_low),
            ];
            let [j2, j3] = [
                _mm512_unpacklo_epi64(ab_high, cd_high),
                _mm512_unpackhi_epi64(ab_high, cd_high),
            ];
            let [low01, high01] = [
                _mm512_shuffle_i32x4::<0x44>(j0, j1),
                _mm512_shuffle_i32x4::<0xee>(j0, j1),
            ];
            let [low23, high23] = [
                _mm512_shuffle_i32x4::<0x44>(j2, j3),
                _mm512_shuffle_i32x4::<0xee>(j2, j3),
            ];
            store(&mut rows[0], _mm512_shuffle_i32x4::<0x88>(low01, low23));
            store(&mut rows[1], _mm512_shuffle_i32x4::<0xdd>(low01, low23));
            store(&mut rows[2], _mm512_shuffle_i32x4::<0x88>(high01, high23));
            store(&mut rows[3], _mm512_shuffle_i32x4::<0xdd>(high01, high23));
        }
        3 => {
            let [a, b, ..] = words;
            let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
            store(&mut rows[0], _mm512_permutex2var_epi32(a, first, b));
            store(&mut rows[1], _mm512_permutex2var_epi32(a, second, b));
        }
        _ => store(&mut rows[0], words[0]),
    }
}

/// The codes of 16 numbers, each with the shared exponent of its own group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn encode_lanes<const WIDTH: u32, const DEVICE: bool>(bits: __m512i, shared: __m512i) -> __m512i {
    let largest = _mm512_set1_epi32((1 << WIDTH) - 1);
    let normal = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(EXPONENT));
    let own = _mm512_srli_epi32::<23>(_mm512_and_si512(bits, _mm512_set1_epi32(MAGNITUDE)));
    let distance = _mm512_sub_epi32(shared, own);
    let fraction = _mm512_and_si512(
        bits,
        _mm512_set1_epi32(if DEVICE { BF16_FRACTION } else { FRACTION }),
    );
    let aligned = _mm512_srlv_epi32(
        _mm512_or_si512(fraction, _mm512_set1_epi32(LEADING_ONE)),
        distance,
    );
    let magnitude = if DEVICE {
        let rounded =
            _mm512_srli_epi32::<17>(_mm512_add_epi32(aligned, _mm512_set1_epi32(1 << 16)));
        let bfp8 = _mm512_maskz_min_epu32(normal, rounded, _mm512_set1_epi32(127));
        _mm512_srl_epi32(bfp8, count(7 - WIDTH))
    } else {
        let cut = 24 - WIDTH;
        let odd = _mm512_and_si512(_mm512_srl_epi32(aligned, count(cut)), _mm512_set1_epi32(1));
        let almost_half = _mm512_set1_epi32((1 << (cut - 1)) - 1);
        let rounded = _mm512_add_epi32(_mm512_add_epi32(aligned, almost_half), odd);
        _mm512_maskz_min_epu32(normal, _mm512_srl_epi32(rounded, count(cut)), largest)
    };
    let sign = _mm512_and_si512(
        _mm512_srl_epi32(bits, count(31 - WIDTH)),
        _mm512_set1_epi32(1 << WIDTH),
    );
    _mm512_mask_or_epi32(
        magnitude,
        _mm512_test_epi32_mask(magnitude, magnitude),
        magnitude,
        sign,
    )
}

/// Decoding a lane is [`decode_value`](crate::definition::decode_value). The conversion of the magnitude to f32 is
/// exact and finds the leading one; what is left is to move its exponent field by the shared exponent:
///
/// ```text
/// moved = bits(f32(magnitude)) + ((shared - 127 - (WIDTH - 1)) << 23)
/// value = 0 where magnitude = 0, else +0 where moved < 0, else moved
/// ```
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn decode<const WIDTH: u32>(exponents: &[u8], codes: &[u8], out: &mut [f32], stride: usize) {
    let packed = codes.chunks_exact(group_bytes(WIDTH));
    assert_eq!(packed.len(), exponents.len(), "codes for each exponent");
    for (row, (&exponent, packed)) in exponents.iter().zip(packed).enumerate() {
        let codes = _mm512_cvtepu8_epi32(load_codes::<WIDTH>(packed));
        let sign = _mm512_and_si512(
            _mm512_sll_epi32(codes, count(31 - WIDTH)),
            _mm512_set1_epi32(i32::MIN),
        );
        let magnitude = _mm512_and_si512(codes, _mm512_set1_epi32((1 << WIDTH) - 1));
        let shift = (i32::from(exponent) - 126 - WIDTH.cast_signed()) << 23;
        let float = _mm512_castps_si512(_mm512_cvtepi32_ps(magnitude));
        let moved = _mm512_add_epi32(float, _mm512_set1_epi32(shift));
        let some = _mm512_test_epi32_mask(magnitude, magnitude);
        let lost = _mm512_mask_cmplt_epi32_mask(some, moved, _mm512_setzero_si512());
        let value = _mm512_or_si512(_mm512_maskz_mov_epi32(some, moved), sign);
        let value = _mm512_maskz_mov_epi32(!lost, value);
        let out = &mut out[row * stride..];
        prefetch_to_write(out);
        let out: &mut [f32; GROUP] = out.first_chunk_mut().expect("room for 16 values");
        // SAFETY: `out` is 64 writable bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), value) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn count(bits: u32) -> __m128i {
    _mm_cvtsi32_si128(bits.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn load_f32(source: &[f32]) -> __m512i {
    prefetch(source);
    let source: &[f32; GROUP] = source.first_chunk().expect("16 numbers");
    // SAFETY: `source` is 64 readable bytes.
    unsafe { _mm512_loadu_si512(source.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn load_bf16(source: &[bf16]) -> __m512i {
    prefetch(source);
    let source: &[bf16; GROUP] = source.first_chunk().expect("16 numbers");
    // SAFETY: `source` is 32 readable bytes.
    let halves = unsafe { _mm256_loadu_si256(source.as_ptr().cast()) };
    _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn store(bytes: &mut [u8; 64], vector: __m512i) {
    // SAFETY: `bytes` is 64 writable bytes.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}
