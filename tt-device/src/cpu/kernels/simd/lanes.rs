//! The lane operations that a vector instruction set offers.

pub(in crate::cpu::kernels) use crate::reference::sum::LANES;

/// A kernel that is worth a function of its own: see [`Simd::enter`].
pub(in crate::cpu::kernels) trait Kernel {
    fn run<S: Simd>(self, s: S);
}

/// What is added to a bounded shared exponent to give the f32 exponent field of `2^(E - 133)`.
///
/// That is the unit of BFP8's seven-bit magnitudes. Shorter magnitudes are given in the same unit
/// (times 16, times 64), so that no scaled activation overflows: see
/// [`crate::numerics::WEIGHT_EXPONENT_MAX`].
pub(in crate::cpu::kernels) const UNIT_OFFSET: i32 = 127 - 133;

/// Sixteen f32 lanes of one instruction set.
///
/// Every operation is one correctly rounded IEEE operation a lane, so that a kernel written over it
/// gives the bits of the scalar definition. Methods are `inline(always)`: they only become the
/// instructions they stand for inside a function that enables the instruction set.
pub(in crate::cpu::kernels) trait Simd: Copy {
    /// Sixteen f32 lanes.
    type V: Copy;
    /// One truth a lane.
    type M: Copy;

    /// Vector registers of sixteen lanes that a kernel may count on.
    const REGISTERS: usize;

    /// Runs a kernel in a function of its own that enables the instruction set, so that large kernels
    /// do not grow into one another.
    fn enter<K: Kernel>(self, kernel: K);

    /// Asks for the cache line that lies `ahead` bytes past `from`, if it is there, into the
    /// first-level cache.
    fn ask_near<T>(self, from: &T, ahead: usize);
    /// The same into the second-level cache.
    fn ask_far<T>(self, from: &T, ahead: usize);

    fn splat(self, x: f32) -> Self::V;
    fn load(self, x: &[f32; LANES]) -> Self::V;
    fn store(self, x: Self::V, to: &mut [f32; LANES]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The sign flipped.
    fn neg(self, a: Self::V) -> Self::V;
    /// To bf16 and back, nearest even; NaN is unspecified.
    fn through_bf16(self, a: Self::V) -> Self::V;
    /// The sign cleared.
    fn abs(self, a: Self::V) -> Self::V;
    /// `a > b`, false for NaN.
    fn greater(self, a: Self::V, b: Self::V) -> Self::M;
    /// False for NaN.
    fn ordered(self, a: Self::V) -> Self::M;
    /// `a == b`, as a bit a lane, lane 0 lowest.
    fn equal_bits(self, a: Self::V, b: Self::V) -> u32;
    /// `yes` where the mask is true, else `no`.
    fn select(self, mask: Self::M, yes: Self::V, no: Self::V) -> Self::V;
    /// `p * 2^(n >> 1) * 2^(n - (n >> 1))` for lanes of `n` that are integers in -252..=254; other
    /// lanes are unspecified.
    fn scale(self, p: Self::V, n: Self::V) -> Self::V;
    /// Lane i added to lane i + 8, then i + 4, i + 2, i + 1: [`crate::reference::sum::tree`].
    fn tree(self, a: Self::V) -> f32;

    /// bf16 elements widened.
    fn bf16(self, x: &[u16; LANES]) -> Self::V;
    /// bf16 weights as a linear sees them: exponent fields under 55 are zero.
    fn bf16_weights(self, x: &[u8; 32]) -> Self::V;
    /// Little-endian f32.
    fn f32_weights(self, x: &[u8; 64]) -> Self::V;
    /// Signed bytes as numbers.
    fn bytes(self, x: &[i8; LANES]) -> Self::V;
    /// Sign-magnitude codes of four face rows as signed bytes in units of `2^(E - 133)`: `(-1)^s q`.
    fn spread_bfp8(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 4]);
    /// The same of eight face rows of four-bit codes, the lower nibble first: `(-1)^s 16 q`.
    fn spread_bfp4(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 8]);
    /// The same of sixteen face rows of two-bit codes, the lowest pair first: `(-1)^s 64 q`.
    fn spread_bfp2(self, codes: &[u8; 64], to: &mut [[i8; LANES]; 16]);
    /// `2^(E - 133)` of each shared exponent, bounded as [`crate::numerics::weight_exponent`] says; zero
    /// where that reads as zeros.
    fn units(self, exponents: &[u8; 16]) -> Self::V;

    /// The first lanes from `x`, zeros after; `x` is at most 16 long.
    #[inline(always)]
    fn load_part(self, x: &[f32]) -> Self::V {
        let mut whole = [0.0; LANES];
        whole[..x.len()].copy_from_slice(x);
        self.load(&whole)
    }

    /// The first lanes to `to`, which is at most 16 long.
    #[inline(always)]
    fn store_part(self, x: Self::V, to: &mut [f32]) {
        let mut whole = [0.0; LANES];
        self.store(x, &mut whole);
        to.copy_from_slice(&whole[..to.len()]);
    }
}
