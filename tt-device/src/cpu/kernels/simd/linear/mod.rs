//! A part of a linear by f32 fused multiply-adds over tiles as they lie in the file.
//!
//! Few rows of the formats that models are stored in go through [`decode`], which is made to keep up
//! with memory; all else goes through [`panel`], which is made for arithmetic.

mod decode;
mod panel;

use bfp_format::BlockFormat;

use super::Simd;
use super::tile::{Bf16Tile, Bfp2Tile, Bfp4Tile, Bfp8Tile, F32Tile};
use crate::Contract;
use crate::cpu::kernels::LinearPart;
use crate::weight::{TILE, WeightFormat};

#[inline(always)]
pub(in crate::cpu::kernels) fn linear<S: Simd>(
    s: S,
    part: &LinearPart<'_>,
    out: &mut [&mut [f32]],
) {
    let width = part.width.next_multiple_of(TILE);
    if width == part.width {
        whole(s, part, out);
        return;
    }
    // The last tile column is computed whole, and its padding dropped.
    let mut padded = vec![0.0; out.len() * width];
    {
        let mut padded: Vec<_> = padded.chunks_exact_mut(width).collect();
        whole(s, &LinearPart { width, ..*part }, &mut padded);
    }
    for (out, padded) in out.iter_mut().zip(padded.chunks_exact(width)) {
        out.copy_from_slice(&padded[..part.width]);
    }
}

/// A part of whole tile columns.
#[inline(always)]
fn whole<S: Simd>(s: S, part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    let few = part.x.rows <= decode::ROWS && part.contract == Contract::Host1;
    match part.format {
        WeightFormat::Block(BlockFormat::Bfp8) if few => {
            decode::decode::<S, Bfp8Tile>(s, part, out);
        }
        WeightFormat::Block(BlockFormat::Bfp4) if few => {
            decode::decode::<S, Bfp4Tile>(s, part, out);
        }
        WeightFormat::Block(BlockFormat::Bfp8) => panel::multiply::<S, Bfp8Tile>(s, part, out),
        WeightFormat::Block(BlockFormat::Bfp4) => panel::multiply::<S, Bfp4Tile>(s, part, out),
        WeightFormat::Block(BlockFormat::Bfp2) => panel::multiply::<S, Bfp2Tile>(s, part, out),
        WeightFormat::Bf16 => panel::multiply::<S, Bf16Tile>(s, part, out),
        WeightFormat::F32 => panel::multiply::<S, F32Tile>(s, part, out),
    }
}
