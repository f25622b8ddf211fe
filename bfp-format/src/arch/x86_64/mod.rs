//! AVX2 and AVX-512.

mod avx2;
mod avx512;

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use half::bf16;

use super::{Encoders, Isa, Kernels};
use crate::{BlockFormat, Rounding};

/// The table of `isa`, when this machine has it.
pub(super) fn kernels(isa: Isa) -> Option<&'static Kernels> {
    match isa {
        Isa::Avx2 if is_x86_feature_detected!("avx2") => Some(&AVX2),
        Isa::Avx512
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl") =>
        {
            Some(&AVX512)
        }
        _ => None,
    }
}

/// A table over the functions of one module, which are safe wherever their target features are.
macro_rules! table {
    ($name:ident, $isa:expr, $module:ident) => {
        static $name: Kernels = {
            fn rows_f32(
                f: BlockFormat,
                r: Rounding,
                s: &[f32],
                stride: usize,
                e: &mut [u8],
                c: &mut [u8],
            ) {
                // SAFETY: the table is private and `kernels` gives it out only where the features are detected.
                unsafe { $module::encode_rows_f32(f, r, s, stride, e, c) }
            }
            fn rows_bf16(
                f: BlockFormat,
                r: Rounding,
                s: &[bf16],
                stride: usize,
                e: &mut [u8],
                c: &mut [u8],
            ) {
                // SAFETY: as for `rows_f32`.
                unsafe { $module::encode_rows_bf16(f, r, s, stride, e, c) }
            }
            fn columns_f32(
                f: BlockFormat,
                r: Rounding,
                s: &[f32],
                stride: usize,
                e: &mut [u8; 16],
                c: &mut [u8],
            ) {
                // SAFETY: as for `rows_f32`.
                unsafe { $module::encode_columns_f32(f, r, s, stride, e, c) }
            }
            fn columns_bf16(
                f: BlockFormat,
                r: Rounding,
                s: &[bf16],
                stride: usize,
                e: &mut [u8; 16],
                c: &mut [u8],
            ) {
                // SAFETY: as for `rows_f32`.
                unsafe { $module::encode_columns_bf16(f, r, s, stride, e, c) }
            }
            fn decode_rows(f: BlockFormat, e: &[u8], c: &[u8], out: &mut [f32], stride: usize) {
                // SAFETY: as for `rows_f32`.
                unsafe { $module::decode_rows(f, e, c, out, stride) }
            }
            Kernels {
                isa: $isa,
                f32: Encoders {
                    rows: rows_f32,
                    columns: columns_f32,
                },
                bf16: Encoders {
                    rows: rows_bf16,
                    columns: columns_bf16,
                },
                decode_rows,
            }
        };
    };
}

table!(AVX2, Isa::Avx2, avx2);
table!(AVX512, Isa::Avx512, avx512);

/// Calls a kernel that is generic over magnitude bits and over whether the rounding is the device's.
macro_rules! by_format {
    ($format:expr, $rounding:expr, $kernel:ident($($argument:expr),*)) => {
        match ($format, $rounding) {
            (BlockFormat::Bfp8, Rounding::HostNearestEven) => $kernel::<7, false>($($argument),*),
            (BlockFormat::Bfp4, Rounding::HostNearestEven) => $kernel::<3, false>($($argument),*),
            (BlockFormat::Bfp2, Rounding::HostNearestEven) => $kernel::<1, false>($($argument),*),
            (BlockFormat::Bfp8, Rounding::DeviceNearestAway) => $kernel::<7, true>($($argument),*),
            (BlockFormat::Bfp4, Rounding::DeviceNearestAway) => $kernel::<3, true>($($argument),*),
            (BlockFormat::Bfp2, Rounding::DeviceNearestAway) => $kernel::<1, true>($($argument),*),
        }
    };
}
use by_format;

const MAGNITUDE: i32 = 0x7fff_ffff;
const EXPONENT: i32 = 0x7f80_0000;
const FRACTION: i32 = 0x007f_ffff;
const BF16_FRACTION: i32 = 0x007f_0000;
const LEADING_ONE: i32 = 0x0080_0000;

/// Bytes to look ahead in a row.
///
/// A face touches one or two cache lines of each of 16 rows, and rows of a wide matrix are pages apart: hardware does not
/// follow so many streams. Asked for in time, on a 4096 x 12288 matrix with AVX-512, encoding went from 3.4 to 7.5 GB/s
/// and decoding from 4.7 to 9.5 (CPU time of one thread on a busy machine that copied at 10).
const AHEAD: usize = 512;

/// Asks for what follows in a row that is read from `row` on.
#[inline]
#[target_feature(enable = "sse4.1")]
fn prefetch<T>(row: &[T]) {
    let ahead = row.as_ptr().cast::<i8>().wrapping_add(AHEAD);
    #[expect(unused_unsafe, reason = "a safe function in newer toolchains only")]
    // SAFETY: a prefetch is a hint, which no address makes fault.
    unsafe {
        _mm_prefetch::<_MM_HINT_T1>(ahead);
    }
}

/// Asks for what follows in a row that is written from `row` on.
#[inline]
#[target_feature(enable = "sse4.1")]
fn prefetch_to_write<T>(row: &[T]) {
    let ahead = row.as_ptr().cast::<i8>().wrapping_add(AHEAD);
    #[expect(unused_unsafe, reason = "a safe function in newer toolchains only")]
    // SAFETY: a prefetch is a hint, which no address makes fault.
    unsafe {
        _mm_prefetch::<_MM_HINT_ET0>(ahead);
    }
}

/// Bytes of the codes of one group.
const fn group_bytes(width: u32) -> usize {
    2 * (width as usize + 1)
}

/// Writes the codes of one group, a byte each, as `WIDTH + 1` bits each.
#[inline]
#[target_feature(enable = "sse4.1")]
fn store_codes<const WIDTH: u32>(codes: __m128i, packed: &mut [u8]) {
    match WIDTH {
        7 => {
            let packed: &mut [u8; 16] = packed.try_into().expect("16 bytes a group");
            // SAFETY: `packed` is 16 writable bytes.
            unsafe { _mm_storeu_si128(packed.as_mut_ptr().cast(), codes) }
        }
        3 => {
            // Even elements times 1 and odd ones times 16: a byte in each 16-bit lane.
            let bytes = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x1001));
            let low = _mm_cvtsi128_si64(_mm_packus_epi16(bytes, bytes));
            packed.copy_from_slice(&low.to_le_bytes());
        }
        _ => {
            let pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x0401));
            let quads = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0010_0001));
            let halves = _mm_packus_epi32(quads, quads);
            let low = _mm_cvtsi128_si32(_mm_packus_epi16(halves, halves));
            packed.copy_from_slice(&low.to_le_bytes());
        }
    }
}

/// The codes of one group, a byte each.
#[inline]
#[target_feature(enable = "sse4.1")]
fn load_codes<const WIDTH: u32>(packed: &[u8]) -> __m128i {
    match WIDTH {
        7 => {
            let packed: &[u8; 16] = packed.try_into().expect("16 bytes a group");
            // SAFETY: `packed` is 16 readable bytes.
            unsafe { _mm_loadu_si128(packed.as_ptr().cast()) }
        }
        3 => {
            let packed = i64::from_le_bytes(packed.try_into().expect("8 bytes a group"));
            let bytes = _mm_cvtsi64_si128(packed);
            // Low and high nibbles, byte by byte.
            let pairs = _mm_unpacklo_epi8(bytes, _mm_srli_epi16::<4>(bytes));
            _mm_and_si128(pairs, _mm_set1_epi8(0x0f))
        }
        _ => {
            let packed = i32::from_le_bytes(packed.try_into().expect("4 bytes a group"));
            let bytes = _mm_cvtsi32_si128(packed);
            let nibbles = _mm_unpacklo_epi8(bytes, _mm_srli_epi16::<4>(bytes));
            let pairs = _mm_unpacklo_epi8(nibbles, _mm_srli_epi16::<2>(nibbles));
            _mm_and_si128(pairs, _mm_set1_epi8(0x03))
        }
    }
}
