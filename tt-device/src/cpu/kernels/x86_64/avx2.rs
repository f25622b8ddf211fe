//! AVX2 and FMA: sixteen lanes are two registers.

use std::arch::x86_64::*;

use crate::cpu::isa::Isa;
use crate::cpu::kernels::simd::{self, Kernel, LANES, Simd, UNIT_OFFSET};
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
const UPPER_HALF: i32 = !0xffff;
/// Signed bytes of the 16 codes of four bits, in the unit of seven-bit magnitudes.
const NIBBLES: [i8; 16] = [
    0, 16, 32, 48, 64, 80, 96, 112, 0, -16, -32, -48, -64, -80, -96, -112,
];
/// Signed bytes of the 4 codes of two bits in that unit, whatever the two bits above say.
const PAIRS: [i8; 16] = [0, 64, 0, -64, 0, 64, 0, -64, 0, 64, 0, -64, 0, 64, 0, -64];
/// Rows r, r + 2, r + 4 and r + 6 in one 128-bit lane, so that unpacking leaves rows in order.
const EIGHT_ROWS: [i32; HALF] = [0, 2, 4, 6, 1, 3, 5, 7];

impl Simd for Avx2 {
    type V = Pair;
    type M = Pair;

    const REGISTERS: usize = 8;

    #[inline(always)]
    fn enter<K: Kernel>(self, kernel: K) {
        kernel_table!(@enter "avx2,fma", self, kernel);
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
        Pair(
            intrinsic!(_mm256_add_ps(a.0, b.0)),
            intrinsic!(_mm256_add_ps(a.1, b.1)),
        )
    }

    #[inline(always)]
    fn sub(self, a: Pair, b: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_sub_ps(a.0, b.0)),
            intrinsic!(_mm256_sub_ps(a.1, b.1)),
        )
    }

    #[inline(always)]
    fn mul(self, a: Pair, b: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_mul_ps(a.0, b.0)),
            intrinsic!(_mm256_mul_ps(a.1, b.1)),
        )
    }

    #[inline(always)]
    fn div(self, a: Pair, b: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_div_ps(a.0, b.0)),
            intrinsic!(_mm256_div_ps(a.1, b.1)),
        )
    }

    #[inline(always)]
    fn fma(self, a: Pair, b: Pair, c: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_fmadd_ps(a.0, b.0, c.0)),
            intrinsic!(_mm256_fmadd_ps(a.1, b.1, c.1)),
        )
    }

    #[inline(always)]
    fn neg(self, a: Pair) -> Pair {
        let sign = intrinsic!(_mm256_set1_ps(-0.0));
        Pair(
            intrinsic!(_mm256_xor_ps(a.0, sign)),
            intrinsic!(_mm256_xor_ps(a.1, sign)),
        )
    }

    #[inline(always)]
    fn through_bf16(self, a: Pair) -> Pair {
        Pair(self.round_half(a.0), self.round_half(a.1))
    }

    #[inline(always)]
    fn abs(self, a: Pair) -> Pair {
        let sign = intrinsic!(_mm256_set1_ps(-0.0));
        Pair(
            intrinsic!(_mm256_andnot_ps(sign, a.0)),
            intrinsic!(_mm256_andnot_ps(sign, a.1)),
        )
    }

    #[inline(always)]
    fn greater(self, a: Pair, b: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_cmp_ps::<_CMP_GT_OQ>(a.0, b.0)),
            intrinsic!(_mm256_cmp_ps::<_CMP_GT_OQ>(a.1, b.1)),
        )
    }

    #[inline(always)]
    fn ordered(self, a: Pair) -> Pair {
        Pair(
            intrinsic!(_mm256_cmp_ps::<_CMP_ORD_Q>(a.0, a.0)),
            intrinsic!(_mm256_cmp_ps::<_CMP_ORD_Q>(a.1, a.1)),
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
        Pair(
            intrinsic!(_mm256_loadu_ps(low.as_ptr().cast())),
            intrinsic!(_mm256_loadu_ps(high.as_ptr().cast())),
        )
    }

    #[inline(always)]
    fn bytes(self, x: &[i8; LANES]) -> Pair {
        let (low, high) = halves::<_, LANES, HALF>(x);
        Pair(self.eight_bytes(low), self.eight_bytes(high))
    }

    #[inline(always)]
    fn spread_bfp8(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 4]) {
        let (low, high) = halves::<_, 64, 32>(codes);
        for (codes, to) in [low, high].into_iter().zip(to.chunks_exact_mut(2)) {
            let codes = self.load_bytes(codes);
            let magnitude = intrinsic!(_mm256_and_si256(codes, _mm256_set1_epi8(0x7f)));
            // Never zero, so that a sign keeps or negates and never clears.
            let sign = intrinsic!(_mm256_or_si256(codes, _mm256_set1_epi8(1)));
            self.store_bytes(
                intrinsic!(_mm256_sign_epi8(magnitude, sign)),
                to.as_flattened_mut(),
            );
        }
    }

    #[inline(always)]
    fn spread_bfp4(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 8]) {
        let (low, high) = halves::<_, 64, 32>(codes);
        for (codes, to) in [low, high].into_iter().zip(to.chunks_exact_mut(4)) {
            // Rows r and r + 2 in one 128-bit lane, so that unpacking leaves rows in order.
            let codes = intrinsic!(_mm256_permute4x64_epi64::<0b11_01_10_00>(
                self.load_bytes(codes)
            ));
            let even = self.look_up(codes, &NIBBLES);
            let odd = self.look_up(intrinsic!(_mm256_srli_epi16::<4>(codes)), &NIBBLES);
            self.store_bytes(
                intrinsic!(_mm256_unpacklo_epi8(even, odd)),
                to[..2].as_flattened_mut(),
            );
            self.store_bytes(
                intrinsic!(_mm256_unpackhi_epi8(even, odd)),
                to[2..].as_flattened_mut(),
            );
        }
    }

    #[inline(always)]
    fn spread_bfp2(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 16]) {
        let order = intrinsic!(_mm256_loadu_si256(EIGHT_ROWS.as_ptr().cast()));
        let (low, high) = halves::<_, 64, 32>(codes);
        for (codes, to) in [low, high].into_iter().zip(to.chunks_exact_mut(8)) {
            let codes = intrinsic!(_mm256_permutevar8x32_epi32(self.load_bytes(codes), order));
            let first = self.look_up(codes, &PAIRS);
            let second = self.look_up(intrinsic!(_mm256_srli_epi16::<2>(codes)), &PAIRS);
            let third = self.look_up(intrinsic!(_mm256_srli_epi16::<4>(codes)), &PAIRS);
            let fourth = self.look_up(intrinsic!(_mm256_srli_epi16::<6>(codes)), &PAIRS);
            let left = intrinsic!(_mm256_unpacklo_epi8(first, second));
            let right = intrinsic!(_mm256_unpacklo_epi8(third, fourth));
            self.store_bytes(
                intrinsic!(_mm256_unpacklo_epi16(left, right)),
                to[..2].as_flattened_mut(),
            );
            self.store_bytes(
                intrinsic!(_mm256_unpackhi_epi16(left, right)),
                to[2..4].as_flattened_mut(),
            );
            let left = intrinsic!(_mm256_unpackhi_epi8(first, second));
            let right = intrinsic!(_mm256_unpackhi_epi8(third, fourth));
            self.store_bytes(
                intrinsic!(_mm256_unpacklo_epi16(left, right)),
                to[4..6].as_flattened_mut(),
            );
            self.store_bytes(
                intrinsic!(_mm256_unpackhi_epi16(left, right)),
                to[6..].as_flattened_mut(),
            );
        }
    }

    #[inline(always)]
    fn units(self, exponents: &[u8; 16]) -> Pair {
        let stored = intrinsic!(_mm_loadu_si128(exponents.as_ptr().cast()));
        let low = intrinsic!(_mm256_cvtepu8_epi32(stored));
        let high = intrinsic!(_mm_unpackhi_epi64(stored, stored));
        let high = intrinsic!(_mm256_cvtepu8_epi32(high));
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
        let least = intrinsic!(_mm256_set1_ps(f32::from_bits(
            u32::from(WEIGHT_EXPONENT_MIN) << 23
        )));
        let below = intrinsic!(_mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, least));
        intrinsic!(_mm256_andnot_ps(below, w))
    }

    #[inline(always)]
    fn eight_bytes(self, x: &[i8; HALF]) -> __m256 {
        let x = intrinsic!(_mm_loadl_epi64(x.as_ptr().cast()));
        let x = intrinsic!(_mm256_cvtepi8_epi32(x));
        intrinsic!(_mm256_cvtepi32_ps(x))
    }

    #[inline(always)]
    fn load_bytes(self, x: &[u8; 32]) -> __m256i {
        intrinsic!(_mm256_loadu_si256(x.as_ptr().cast()))
    }

    /// Stores 32 bytes.
    #[inline(always)]
    fn store_bytes(self, x: __m256i, to: &mut [i8]) {
        let to: &mut [i8; 32] = to.first_chunk_mut().expect("two rows of sixteen");
        intrinsic!(_mm256_storeu_si256(to.as_mut_ptr().cast(), x));
    }

    /// The table's bytes at the low four bits of each byte.
    #[inline(always)]
    fn look_up(self, index: __m256i, table: &[i8; 16]) -> __m256i {
        let table = intrinsic!(_mm_loadu_si128(table.as_ptr().cast()));
        let table = intrinsic!(_mm256_broadcastsi128_si256(table));
        let index = intrinsic!(_mm256_and_si256(index, _mm256_set1_epi8(0x0f)));
        intrinsic!(_mm256_shuffle_epi8(table, index))
    }

    #[inline(always)]
    fn round_half(self, a: __m256) -> __m256 {
        let bits = intrinsic!(_mm256_castps_si256(a));
        let odd = intrinsic!(_mm256_srli_epi32::<16>(bits));
        let odd = intrinsic!(_mm256_and_si256(odd, _mm256_set1_epi32(1)));
        let half = intrinsic!(_mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        let bits = intrinsic!(_mm256_add_epi32(bits, half));
        let bits = intrinsic!(_mm256_and_si256(bits, _mm256_set1_epi32(UPPER_HALF)));
        intrinsic!(_mm256_castsi256_ps(bits))
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
    (
        low.first_chunk().expect("half of the array"),
        high.first_chunk().expect("half of the array"),
    )
}
