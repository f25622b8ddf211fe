//! AVX-512 F, BW, DQ, VL: sixteen lanes are one register.

use std::arch::x86_64::*;

use crate::cpu::isa::Isa;
use crate::cpu::kernels::simd::{self, Kernel, LANES, Simd, UNIT_OFFSET};
use crate::cpu::kernels::{AttendGroup, DeltaHead, FourRows, Kernels, LinearPart};
use crate::numerics::{WEIGHT_EXPONENT_MAX, WEIGHT_EXPONENT_MIN};

/// Proof that AVX-512 F, BW, DQ and VL are present.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

kernel_table!(
    Isa::Avx512,
    Avx512,
    "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"
);

const UPPER_HALF: i32 = !0xffff;
/// Signed bytes of the 16 codes of four bits, in the unit of seven-bit magnitudes.
const NIBBLES: [i8; 16] = [
    0, 16, 32, 48, 64, 80, 96, 112, 0, -16, -32, -48, -64, -80, -96, -112,
];
/// Signed bytes of the 4 codes of two bits in that unit, whatever the two bits above say.
const PAIRS: [i8; 16] = [0, 64, 0, -64, 0, 64, 0, -64, 0, 64, 0, -64, 0, 64, 0, -64];
/// Rows r and r + 4 in one 128-bit lane, so that unpacking leaves rows in order.
const EIGHT_ROWS: [i64; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
/// Rows r, r + 4, r + 8 and r + 12 in one 128-bit lane.
const SIXTEEN_ROWS: [i32; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

impl Simd for Avx512 {
    type V = __m512;
    type M = __mmask16;

    const REGISTERS: usize = 32;

    #[inline(always)]
    fn enter<K: Kernel>(self, kernel: K) {
        kernel_table!(@enter "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl", self, kernel);
    }

    #[inline(always)]
    fn ask_near<T>(self, from: &T, ahead: usize) {
        let line = std::ptr::from_ref(from).cast::<i8>().wrapping_add(ahead);
        intrinsic!(_mm_prefetch::<_MM_HINT_T0>(line));
    }

    #[inline(always)]
    fn ask_far<T>(self, from: &T, ahead: usize) {
        let line = std::ptr::from_ref(from).cast::<i8>().wrapping_add(ahead);
        intrinsic!(_mm_prefetch::<_MM_HINT_T1>(line));
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        intrinsic!(_mm512_set1_ps(x))
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        intrinsic!(_mm512_loadu_ps(x.as_ptr()))
    }

    #[inline(always)]
    fn store(self, x: __m512, to: &mut [f32; LANES]) {
        intrinsic!(_mm512_storeu_ps(to.as_mut_ptr(), x));
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        intrinsic!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn neg(self, a: __m512) -> __m512 {
        let sign = intrinsic!(_mm512_set1_ps(-0.0));
        intrinsic!(_mm512_xor_ps(a, sign))
    }

    #[inline(always)]
    fn through_bf16(self, a: __m512) -> __m512 {
        let bits = intrinsic!(_mm512_castps_si512(a));
        let odd = intrinsic!(_mm512_srli_epi32::<16>(bits));
        let odd = intrinsic!(_mm512_and_si512(odd, _mm512_set1_epi32(1)));
        let half = intrinsic!(_mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let bits = intrinsic!(_mm512_add_epi32(bits, half));
        let bits = intrinsic!(_mm512_and_si512(bits, _mm512_set1_epi32(UPPER_HALF)));
        intrinsic!(_mm512_castsi512_ps(bits))
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        intrinsic!(_mm512_abs_ps(a))
    }

    #[inline(always)]
    fn greater(self, a: __m512, b: __m512) -> __mmask16 {
        intrinsic!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b))
    }

    #[inline(always)]
    fn ordered(self, a: __m512) -> __mmask16 {
        intrinsic!(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(a, a))
    }

    #[inline(always)]
    fn equal_bits(self, a: __m512, b: __m512) -> u32 {
        intrinsic!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b)).into()
    }

    #[inline(always)]
    fn select(self, mask: __mmask16, yes: __m512, no: __m512) -> __m512 {
        intrinsic!(_mm512_mask_blend_ps(mask, no, yes))
    }

    #[inline(always)]
    fn scale(self, p: __m512, n: __m512) -> __m512 {
        let n = intrinsic!(_mm512_cvttps_epi32(n));
        let half = intrinsic!(_mm512_srai_epi32::<1>(n));
        let rest = intrinsic!(_mm512_sub_epi32(n, half));
        let p = intrinsic!(_mm512_mul_ps(p, self.power_of_two(half)));
        intrinsic!(_mm512_mul_ps(p, self.power_of_two(rest)))
    }

    #[inline(always)]
    fn tree(self, a: __m512) -> f32 {
        let low = intrinsic!(_mm512_castps512_ps256(a));
        let high = intrinsic!(_mm512_extractf32x8_ps::<1>(a));
        let a = intrinsic!(_mm256_add_ps(low, high));
        let low = intrinsic!(_mm256_castps256_ps128(a));
        let high = intrinsic!(_mm256_extractf128_ps::<1>(a));
        let a = intrinsic!(_mm_add_ps(low, high));
        let high = intrinsic!(_mm_movehl_ps(a, a));
        let a = intrinsic!(_mm_add_ps(a, high));
        let high = intrinsic!(_mm_movehdup_ps(a));
        let a = intrinsic!(_mm_add_ss(a, high));
        intrinsic!(_mm_cvtss_f32(a))
    }

    #[inline(always)]
    fn bf16(self, x: &[u16; LANES]) -> __m512 {
        let x = intrinsic!(_mm256_loadu_si256(x.as_ptr().cast()));
        self.widen(x)
    }

    #[inline(always)]
    fn bf16_weights(self, x: &[u8; 32]) -> __m512 {
        let x = intrinsic!(_mm256_loadu_si256(x.as_ptr().cast()));
        let w = self.widen(x);
        let magnitude = intrinsic!(_mm512_abs_ps(w));
        let least = self.splat(f32::from_bits(u32::from(WEIGHT_EXPONENT_MIN) << 23));
        let below = intrinsic!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(magnitude, least));
        let zero = self.splat(0.0);
        self.select(below, zero, w)
    }

    #[inline(always)]
    fn f32_weights(self, x: &[u8; 64]) -> __m512 {
        intrinsic!(_mm512_loadu_ps(x.as_ptr().cast()))
    }

    #[inline(always)]
    fn bytes(self, x: &[i8; LANES]) -> __m512 {
        let x = intrinsic!(_mm_loadu_si128(x.as_ptr().cast()));
        let x = intrinsic!(_mm512_cvtepi8_epi32(x));
        intrinsic!(_mm512_cvtepi32_ps(x))
    }

    #[inline(always)]
    fn spread_bfp8(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 4]) {
        let codes = self.load_bytes(codes);
        let negative = intrinsic!(_mm512_movepi8_mask(codes));
        // 0x80 - (0x80 + q) = -q.
        let sign = intrinsic!(_mm512_set1_epi8(i8::MIN));
        let signed = intrinsic!(_mm512_mask_sub_epi8(codes, negative, sign, codes));
        self.store_bytes(signed, to.as_flattened_mut());
    }

    #[inline(always)]
    fn spread_bfp4(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 8]) {
        let order = intrinsic!(_mm512_loadu_si512(EIGHT_ROWS.as_ptr().cast()));
        let codes = intrinsic!(_mm512_permutexvar_epi64(order, self.load_bytes(codes)));
        let even = self.look_up(codes, &NIBBLES);
        let odd = self.look_up(intrinsic!(_mm512_srli_epi16::<4>(codes)), &NIBBLES);
        let (low, high) = to.split_at_mut(4);
        self.store_bytes(
            intrinsic!(_mm512_unpacklo_epi8(even, odd)),
            low.as_flattened_mut(),
        );
        self.store_bytes(
            intrinsic!(_mm512_unpackhi_epi8(even, odd)),
            high.as_flattened_mut(),
        );
    }

    #[inline(always)]
    fn spread_bfp2(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 16]) {
        let order = intrinsic!(_mm512_loadu_si512(SIXTEEN_ROWS.as_ptr().cast()));
        let codes = intrinsic!(_mm512_permutexvar_epi32(order, self.load_bytes(codes)));
        let first = self.look_up(codes, &PAIRS);
        let second = self.look_up(intrinsic!(_mm512_srli_epi16::<2>(codes)), &PAIRS);
        let third = self.look_up(intrinsic!(_mm512_srli_epi16::<4>(codes)), &PAIRS);
        let fourth = self.look_up(intrinsic!(_mm512_srli_epi16::<6>(codes)), &PAIRS);
        let left = intrinsic!(_mm512_unpacklo_epi8(first, second));
        let right = intrinsic!(_mm512_unpacklo_epi8(third, fourth));
        self.store_bytes(
            intrinsic!(_mm512_unpacklo_epi16(left, right)),
            to[..4].as_flattened_mut(),
        );
        self.store_bytes(
            intrinsic!(_mm512_unpackhi_epi16(left, right)),
            to[4..8].as_flattened_mut(),
        );
        let left = intrinsic!(_mm512_unpackhi_epi8(first, second));
        let right = intrinsic!(_mm512_unpackhi_epi8(third, fourth));
        self.store_bytes(
            intrinsic!(_mm512_unpacklo_epi16(left, right)),
            to[8..12].as_flattened_mut(),
        );
        self.store_bytes(
            intrinsic!(_mm512_unpackhi_epi16(left, right)),
            to[12..].as_flattened_mut(),
        );
    }

    #[inline(always)]
    fn units(self, exponents: &[u8; 16]) -> __m512 {
        let stored = intrinsic!(_mm_loadu_si128(exponents.as_ptr().cast()));
        let stored = intrinsic!(_mm512_cvtepu8_epi32(stored));
        let least = intrinsic!(_mm512_set1_epi32(WEIGHT_EXPONENT_MIN.into()));
        let seen = intrinsic!(_mm512_cmpge_epi32_mask(stored, least));
        let largest = intrinsic!(_mm512_set1_epi32(WEIGHT_EXPONENT_MAX.into()));
        let bounded = intrinsic!(_mm512_min_epi32(stored, largest));
        let offset = intrinsic!(_mm512_set1_epi32(UNIT_OFFSET));
        let field = intrinsic!(_mm512_maskz_add_epi32(seen, bounded, offset));
        let bits = intrinsic!(_mm512_slli_epi32::<23>(field));
        intrinsic!(_mm512_castsi512_ps(bits))
    }
}

impl Avx512 {
    /// 2^n of integers -126..=127.
    #[inline(always)]
    fn power_of_two(self, n: __m512i) -> __m512 {
        let bias = intrinsic!(_mm512_set1_epi32(127));
        let field = intrinsic!(_mm512_add_epi32(n, bias));
        let bits = intrinsic!(_mm512_slli_epi32::<23>(field));
        intrinsic!(_mm512_castsi512_ps(bits))
    }

    #[inline(always)]
    fn widen(self, x: __m256i) -> __m512 {
        let x = intrinsic!(_mm512_cvtepu16_epi32(x));
        let x = intrinsic!(_mm512_slli_epi32::<16>(x));
        intrinsic!(_mm512_castsi512_ps(x))
    }

    #[inline(always)]
    fn load_bytes(self, x: &[u8; 64]) -> __m512i {
        intrinsic!(_mm512_loadu_si512(x.as_ptr().cast()))
    }

    /// Stores 64 bytes.
    #[inline(always)]
    fn store_bytes(self, x: __m512i, to: &mut [i8]) {
        let to: &mut [i8; 64] = to.first_chunk_mut().expect("four rows of sixteen");
        intrinsic!(_mm512_storeu_si512(to.as_mut_ptr().cast(), x));
    }

    /// The table's bytes at the low four bits of each byte.
    #[inline(always)]
    fn look_up(self, index: __m512i, table: &[i8; 16]) -> __m512i {
        let table = intrinsic!(_mm_loadu_si128(table.as_ptr().cast()));
        let table = intrinsic!(_mm512_broadcast_i32x4(table));
        let low = intrinsic!(_mm512_set1_epi8(0x0f));
        let index = intrinsic!(_mm512_and_si512(index, low));
        intrinsic!(_mm512_shuffle_epi8(table, index))
    }
}
