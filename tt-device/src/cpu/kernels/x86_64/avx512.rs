//! AVX-512 F, BW, DQ, VL: sixteen lanes are one register.

use std::arch::x86_64::*;

use crate::cpu::isa::Isa;
use crate::cpu::kernels::simd::{self, LANES, Simd, UNIT_OFFSET};
use crate::cpu::kernels::{AttendGroup, DeltaHead, FourRows, Kernels, LinearPart};
use crate::numerics::{WEIGHT_EXPONENT_MAX, WEIGHT_EXPONENT_MIN};

/// Proof that AVX-512 F, BW, DQ and VL are present.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

kernel_table!(Isa::Avx512, Avx512, "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl");

/// Numbers of the 16 codes of four bits, sign then magnitude, in the unit of seven-bit magnitudes.
const NIBBLES: [f32; LANES] = [
    0.0, 16.0, 32.0, 48.0, 64.0, 80.0, 96.0, 112.0, -0.0, -16.0, -32.0, -48.0, -64.0, -80.0, -96.0, -112.0,
];
/// Numbers of the 4 codes of two bits in that unit, whatever the two bits above say.
const PAIRS: [f32; LANES] =
    [0.0, 64.0, -0.0, -64.0, 0.0, 64.0, -0.0, -64.0, 0.0, 64.0, -0.0, -64.0, 0.0, 64.0, -0.0, -64.0];
const PAIR_SHIFTS: [i32; LANES] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
const SIGN: i32 = i32::MIN;

impl Simd for Avx512 {
    type V = __m512;
    type M = __mmask16;

    const REGISTERS: usize = 32;

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
    fn greater(self, a: __m512, b: __m512) -> __mmask16 {
        intrinsic!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b))
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
    fn bfp8_codes(self, x: &[u8; 16]) -> __m512 {
        let codes = self.bytes(x);
        let magnitude = intrinsic!(_mm512_and_si512(codes, _mm512_set1_epi32(0x7f)));
        let q = intrinsic!(_mm512_cvtepi32_ps(magnitude));
        let sign = intrinsic!(_mm512_slli_epi32::<24>(codes));
        let sign = intrinsic!(_mm512_and_si512(sign, _mm512_set1_epi32(SIGN)));
        let sign = intrinsic!(_mm512_castsi512_ps(sign));
        intrinsic!(_mm512_or_ps(q, sign))
    }

    #[inline(always)]
    fn bfp4_codes(self, x: &[u8; 8]) -> __m512 {
        let codes = intrinsic!(_mm_cvtsi64_si128(i64::from_le_bytes(*x)));
        let upper = intrinsic!(_mm_srli_epi16::<4>(codes));
        // Only the low four bits of an index count, so the neighbours in a byte need no mask.
        let nibbles = intrinsic!(_mm_unpacklo_epi8(codes, upper));
        let index = intrinsic!(_mm512_cvtepu8_epi32(nibbles));
        let table = self.load(&NIBBLES);
        intrinsic!(_mm512_permutexvar_ps(index, table))
    }

    #[inline(always)]
    fn bfp2_codes(self, x: &[u8; 4]) -> __m512 {
        let codes = intrinsic!(_mm512_set1_epi32(i32::from_le_bytes(*x)));
        let shifts = intrinsic!(_mm512_loadu_si512(PAIR_SHIFTS.as_ptr().cast()));
        let index = intrinsic!(_mm512_srlv_epi32(codes, shifts));
        let table = self.load(&PAIRS);
        intrinsic!(_mm512_permutexvar_ps(index, table))
    }

    #[inline(always)]
    fn units(self, exponents: &[u8; 16]) -> __m512 {
        let stored = self.bytes(exponents);
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
    fn bytes(self, x: &[u8; 16]) -> __m512i {
        let x = intrinsic!(_mm_loadu_si128(x.as_ptr().cast()));
        intrinsic!(_mm512_cvtepu8_epi32(x))
    }
}
