//! AVX-512 with VBMI and the bf16 dot product: linears by `vdpbf16ps`, all else as AVX-512.
//!
//! One lane of `vdpbf16ps` is `fma(x[2i], w[2i], fma(x[2i+1], w[2i+1], acc))`: the order that the
//! contract is written in. It flushes denormals, of which the bounds of [`crate::numerics`] leave none.
//! So a pair of inputs meets sixteen outputs in one instruction, and weights are expanded to bf16
//! rather than to f32. Not every CPU is quicker so: see [`prefers_dot`].

#![expect(
    clippy::needless_range_loop,
    reason = "registers are arrays that several of them are indexed in step"
)]

mod decode;
mod expand;
mod panel;
mod preference;

use bfp_format::BlockFormat;

use std::arch::x86_64::*;

use super::avx512;
use crate::Contract;
use crate::cpu::isa::Isa;
use crate::cpu::kernels::{Kernels, LinearPart};
use crate::weight::{TILE, WeightFormat};
pub(in crate::cpu::kernels) use preference::prefers_dot;

use expand::{Bf16Tile, Bfp2Tile, Bfp4Tile, Bfp8Tile};

pub(super) const KERNELS: Kernels = Kernels {
    isa: Isa::Avx512Bf16,
    linear,
    ..avx512::KERNELS
};

/// Proof that AVX-512 F, BW, DQ, VL, VBMI and BF16 are present.
#[derive(Clone, Copy)]
struct Dot(());

impl Dot {
    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
    fn present() -> Self {
        Self(())
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        intrinsic!(_mm512_setzero_si512())
    }

    #[inline(always)]
    fn zero_sums(self) -> __m512 {
        intrinsic!(_mm512_setzero_ps())
    }

    #[inline(always)]
    fn load_sums(self, x: &[f32; 16]) -> __m512 {
        intrinsic!(_mm512_loadu_ps(x.as_ptr()))
    }

    #[inline(always)]
    fn store_sums(self, x: __m512, to: &mut [f32; 16]) {
        intrinsic!(_mm512_storeu_ps(to.as_mut_ptr(), x));
    }

    /// A pair of activations into sixteen sums.
    #[inline(always)]
    fn dot(self, sums: __m512, pair: u32, weights: __m512i) -> __m512 {
        let pairs = intrinsic!(_mm512_set1_epi32(pair.cast_signed()));
        let pairs = bytes_as_bf16(pairs);
        intrinsic!(_mm512_dpbf16_ps(sums, bytes_as_bf16(weights), pairs))
    }

    /// Thirty-two rounded activations as bf16 in order: the upper halves.
    #[inline(always)]
    fn words(self, x: &[f32; TILE]) -> __m512i {
        let [low, high] = x.as_chunks::<16>().0 else {
            unreachable!("two vectors")
        };
        let low = intrinsic!(_mm512_srli_epi32::<16>(_mm512_castps_si512(
            self.load_sums(low)
        )));
        let high = intrinsic!(_mm512_srli_epi32::<16>(_mm512_castps_si512(
            self.load_sums(high)
        )));
        let words = intrinsic!(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)));
        intrinsic!(_mm512_inserti64x4::<1>(words, _mm512_cvtepi32_epi16(high)))
    }
}

/// The same bits as bf16 lanes.
#[inline(always)]
fn bytes_as_bf16(x: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes of plain data; the standard library has no cast between them.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(x) }
}

fn linear(part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    if part.contract != Contract::Host1 || part.format == WeightFormat::F32 {
        (avx512::KERNELS.linear)(part, out);
    } else {
        // SAFETY: `super::super::table`, the only way to this table, asserts that the set is present.
        unsafe { padded(part, out) }
    }
}

/// Lets the last tile column be whole: its padding is computed and dropped.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn padded(part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    let width = part.width.next_multiple_of(TILE);
    if width == part.width {
        whole(part, out);
        return;
    }
    let mut padded = vec![0.0; out.len() * width];
    {
        let mut padded: Vec<_> = padded.chunks_exact_mut(width).collect();
        whole(&LinearPart { width, ..*part }, &mut padded);
    }
    for (out, padded) in out.iter_mut().zip(padded.chunks_exact(width)) {
        out.copy_from_slice(&padded[..part.width]);
    }
}

/// A part of whole tile columns.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn whole(part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    let few = part.x.rows <= decode::ROWS;
    match part.format {
        WeightFormat::Block(BlockFormat::Bfp8) if few => decode::decode::<Bfp8Tile>(part, out),
        WeightFormat::Block(BlockFormat::Bfp4) if few => decode::decode::<Bfp4Tile>(part, out),
        WeightFormat::Block(BlockFormat::Bfp8) => panel::multiply::<Bfp8Tile>(part, out),
        WeightFormat::Block(BlockFormat::Bfp4) => panel::multiply::<Bfp4Tile>(part, out),
        WeightFormat::Block(BlockFormat::Bfp2) => panel::multiply::<Bfp2Tile>(part, out),
        WeightFormat::Bf16 | WeightFormat::F32 => panel::multiply::<Bf16Tile>(part, out),
    }
}
