//! AVX2 and FMA: sixteen lanes are two registers.

use std::arch::x86_64::*;

use crate::cpu::isa::Isa;
use crate::cpu::kernels::simd::{self, LANES, Simd, UNIT_OFFSET};
use crate::cpu::kernels::{AttendGroup, DeltaHead, FourRows, Kernels, LinearPart};
use crate::numerics::{WEIGHT_EXPONENT_MAX, WEIGHT_EXPONENT_MIN};

/// Proof that AVX2 and FMA are present.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Lanes 0..8 and 8..16.
#[derive(Clone, Copy)]
pub(super) struct Pair(__m256, __m256);

kernel_table!(Isa::Avx2, Avx2, "avx2,fma");

const HALF: usize = LANES / 2;
/// Three-bit magnitudes in the unit of seven-bit ones.
const MAGNITUDES: [f32; HALF] = [0.0, 16.0, 32.0, 48.0, 64.0, 80.0, 96.0, 112.0];
/// Numbers of the 4 codes of two bits in that unit, whatever the bit above says.
const PAIRS: [f32; HALF] = [0.0, 64.0, -0.0, -64.0, 0.0, 64.0, -0.0, -64.0];
const PAIR_SHIFTS: [i32; HALF] = [0, 2, 4, 6, 8, 10, 12, 14];
const SIGN: i32 = i32::MIN;

impl Simd for Avx2 {
    type V = Pair;
    type M = Pair;

    const REGISTERS: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Pair {
        let x = intrinsic!(_mm256_set1_ps(x));
        Pair(x, x)
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Pair {
        let (low, high) = halves(x);
        Pair(self.load_half(low), self.load_half(high))
    }

    #[inline(always)]
    fn store(self, x: Pair, to: &mut [f32; LANES]) {
        let (low, high) = to.as_mut_slice().split_at_mut(HALF);
        intrinsic!(_mm256_storeu_ps(low.as_mut_ptr(), x.0));
        intrinsic!(_mm256_storeu_ps(high.as_mut_ptr(), x.1));
    }

    #[inline(always)]
    fn add(self, a: Pair, b: Pair) -> Pair {
        Pair(intrinsic!(_mm256_add_ps(a.0, b.0)), intrinsic!(_mm256_add_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn sub(self, a: Pair, b: Pair) -> Pair {
        Pair(intrinsic!(_mm256_sub_ps(a.0, b.0)), intrinsic!(_mm256_sub_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn mul(self, a: Pair, b: Pair) -> Pair {
        Pair(intrinsic!(_mm256_mul_ps(a.0, b.0)), intrinsic!(_mm256_mul_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn div(self, a: Pair, b: Pair) -> Pair {
        Pair(intrinsic!(_mm256_div_ps(a.0, b.0)), intrinsic!(_mm256_div_ps(a.1, b.1)))
    }

    #[inline(always)]
    fn fma(self, a: Pair, b: Pair, c: Pair) -> Pair {
        Pair(intrinsic!(_mm256_fmadd_ps(a.0, b.0, c.0)), intrinsic!(_mm256_fmadd_ps(a.1, b.1, c.1)))
    }

    #[inline(always)]
    fn neg(self, a: Pair) -> Pair {
        let sign = intrinsic!(_mm256_set1_ps(-0.0));
        Pair(intrinsic!(_mm256_xor_ps(a.0, sign)), intrinsic!(_mm256_xor_ps(a.1, sign)))
    }

    #[inline(always)]
    fn greater(self, a: Pair, b: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_cmp_ps::<_CMP_GT_OQ>(a.0, b.0)),
            intrinsic!(_mm256_cmp_ps::<_CMP_GT_OQ>(a.1, b.1)),
        )
    }

    #[inline(always)]
    fn equal_bits(self, a: Pair, b: Pair) -> u32 {
        let low = intrinsic!(_mm256_cmp_ps::<_CMP_EQ_OQ>(a.0, b.0));
        let high = intrinsic!(_mm256_cmp_ps::<_CMP_EQ_OQ>(a.1, b.1));
        let low = intrinsic!(_mm256_movemask_ps(low)).cast_unsigned();
        let high = intrinsic!(_mm256_movemask_ps(high)).cast_unsigned();
        low | high << HALF
    }

    #[inline(always)]
    fn select(self, mask: Pair, yes: Pair, no: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_blendv_ps(no.0, yes.0, mask.0)),
            intrinsic!(_mm256_blendv_ps(no.1, yes.1, mask.1)),
        )
    }

    #[inline(always)]
    fn scale(self, p: Pair, n: Pair) -> Pair {
        Pair(self.scale_half(p.0, n.0), self.scale_half(p.1, n.1))
    }

    #[inline(always)]
    fn tree(self, a: Pair) -> f32 {
        let a = intrinsic!(_mm256_add_ps(a.0, a.1));
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
    fn bf16(self, x: &[u16; LANES]) -> Pair {
        let (low, high) = halves::<_, LANES, 8>(x);
        let low = intrinsic!(_mm_loadu_si128(low.as_ptr().cast()));
        let high = intrinsic!(_mm_loadu_si128(high.as_ptr().cast()));
        Pair(self.widen(low), self.widen(high))
    }

    #[inline(always)]
    fn bf16_weights(self, x: &[u8; 32]) -> Pair {
        let (low, high) = halves::<_, 32, 16>(x);
        let low = intrinsic!(_mm_loadu_si128(low.as_ptr().cast()));
        let high = intrinsic!(_mm_loadu_si128(high.as_ptr().cast()));
        Pair(self.flush(self.widen(low)), self.flush(self.widen(high)))
    }

    #[inline(always)]
    fn f32_weights(self, x: &[u8; 64]) -> Pair {
        let (low, high) = halves::<_, 64, 32>(x);
        Pair(intrinsic!(_mm256_loadu_ps(low.as_ptr().cast())), intrinsic!(_mm256_loadu_ps(high.as_ptr().cast())))
    }

    #[inline(always)]
    fn bfp8_codes(self, x: &[u8; 16]) -> Pair {
        let (low, high) = self.bytes(x);
        Pair(self.sign_magnitude(low), self.sign_magnitude(high))
    }

    #[inline(always)]
    fn bfp4_codes(self, x: &[u8; 8]) -> Pair {
        let codes = intrinsic!(_mm_cvtsi64_si128(i64::from_le_bytes(*x)));
        let upper = intrinsic!(_mm_srli_epi16::<4>(codes));
        let nibbles = intrinsic!(_mm_unpacklo_epi8(codes, upper));
        let low = intrinsic!(_mm256_cvtepu8_epi32(nibbles));
        let high = intrinsic!(_mm_unpackhi_epi64(nibbles, nibbles));
        let high = intrinsic!(_mm256_cvtepu8_epi32(high));
        Pair(self.nibble(low), self.nibble(high))
    }

    #[inline(always)]
    fn bfp2_codes(self, x: &[u8; 4]) -> Pair {
        let low = intrinsic!(_mm256_set1_epi32(i32::from_le_bytes(*x)));
        let high = intrinsic!(_mm256_srli_epi32::<16>(low));
        let shifts = intrinsic!(_mm256_loadu_si256(PAIR_SHIFTS.as_ptr().cast()));
        let low = intrinsic!(_mm256_srlv_epi32(low, shifts));
        let high = intrinsic!(_mm256_srlv_epi32(high, shifts));
        let table = self.load_half(&PAIRS);
        Pair(intrinsic!(_mm256_permutevar8x32_ps(table, low)), intrinsic!(_mm256_permutevar8x32_ps(table, high)))
    }

    #[inline(always)]
    fn units(self, exponents: &[u8; 16]) -> Pair {
        let (low, high) = self.bytes(exponents);
        Pair(self.unit_half(low), self.unit_half(high))
    }
}

impl Avx2 {
    #[inline(always)]
    fn load_half(self, x: &[f32; HALF]) -> __m256 {
        intrinsic!(_mm256_loadu_ps(x.as_ptr()))
    }

    #[inline(always)]
    fn scale_half(self, p: __m256, n: __m256) -> __m256 {
        let n = intrinsic!(_mm256_cvttps_epi32(n));
        let half = intrinsic!(_mm256_srai_epi32::<1>(n));
        let rest = intrinsic!(_mm256_sub_epi32(n, half));
        let p = intrinsic!(_mm256_mul_ps(p, self.power_of_two(half)));
        intrinsic!(_mm256_mul_ps(p, self.power_of_two(rest)))
    }

    /// 2^n of integers -126..=127.
    #[inline(always)]
    fn power_of_two(self, n: __m256i) -> __m256 {
        let bias = intrinsic!(_mm256_set1_epi32(127));
        let field = intrinsic!(_mm256_add_epi32(n, bias));
        let bits = intrinsic!(_mm256_slli_epi32::<23>(field));
        intrinsic!(_mm256_castsi256_ps(bits))
    }

    #[inline(always)]
    fn widen(self, x: __m128i) -> __m256 {
        let x = intrinsic!(_mm256_cvtepu16_epi32(x));
        let x = intrinsic!(_mm256_slli_epi32::<16>(x));
        intrinsic!(_mm256_castsi256_ps(x))
    }

    /// Zero where the exponent field is under the least one.
    #[inline(always)]
    fn flush(self, w: __m256) -> __m256 {
        let sign = intrinsic!(_mm256_set1_ps(-0.0));
        let magnitude = intrinsic!(_mm256_andnot_ps(sign, w));
        let least = intrinsic!(_mm256_set1_ps(f32::from_bits(u32::from(WEIGHT_EXPONENT_MIN) << 23)));
        let below = intrinsic!(_mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, least));
        intrinsic!(_mm256_andnot_ps(below, w))
    }

    #[inline(always)]
    fn bytes(self, x: &[u8; 16]) -> (__m256i, __m256i) {
        let x = intrinsic!(_mm_loadu_si128(x.as_ptr().cast()));
        let low = intrinsic!(_mm256_cvtepu8_epi32(x));
        let x = intrinsic!(_mm_unpackhi_epi64(x, x));
        (low, intrinsic!(_mm256_cvtepu8_epi32(x)))
    }

    #[inline(always)]
    fn sign_magnitude(self, codes: __m256i) -> __m256 {
        let magnitude = intrinsic!(_mm256_and_si256(codes, _mm256_set1_epi32(0x7f)));
        let q = intrinsic!(_mm256_cvtepi32_ps(magnitude));
        let sign = intrinsic!(_mm256_slli_epi32::<24>(codes));
        let sign = intrinsic!(_mm256_and_si256(sign, _mm256_set1_epi32(SIGN)));
        let sign = intrinsic!(_mm256_castsi256_ps(sign));
        intrinsic!(_mm256_or_ps(q, sign))
    }

    /// The number of the code in the low four bits of each lane.
    #[inline(always)]
    fn nibble(self, code: __m256i) -> __m256 {
        let table = self.load_half(&MAGNITUDES);
        // Only the low three bits of an index count: the magnitude.
        let q = intrinsic!(_mm256_permutevar8x32_ps(table, code));
        let sign = intrinsic!(_mm256_slli_epi32::<28>(code));
        let sign = intrinsic!(_mm256_and_si256(sign, _mm256_set1_epi32(SIGN)));
        let sign = intrinsic!(_mm256_castsi256_ps(sign));
        intrinsic!(_mm256_or_ps(q, sign))
    }

    #[inline(always)]
    fn unit_half(self, stored: __m256i) -> __m256 {
        let below_least = intrinsic!(_mm256_set1_epi32(i32::from(WEIGHT_EXPONENT_MIN) - 1));
        let seen = intrinsic!(_mm256_cmpgt_epi32(stored, below_least));
        let largest = intrinsic!(_mm256_set1_epi32(WEIGHT_EXPONENT_MAX.into()));
        let bounded = intrinsic!(_mm256_min_epi32(stored, largest));
        let offset = intrinsic!(_mm256_set1_epi32(UNIT_OFFSET));
        let field = intrinsic!(_mm256_add_epi32(bounded, offset));
        let bits = intrinsic!(_mm256_slli_epi32::<23>(field));
        let bits = intrinsic!(_mm256_and_si256(bits, seen));
        intrinsic!(_mm256_castsi256_ps(bits))
    }
}

/// The first and the last half of an array of known length.
#[inline(always)]
fn halves<T, const N: usize, const H: usize>(x: &[T; N]) -> (&[T; H], &[T; H]) {
    const { assert!(N == 2 * H) };
    let (low, high) = x.split_at(H);
    (low.first_chunk().expect("half of the array"), high.first_chunk().expect("half of the array"))
}
