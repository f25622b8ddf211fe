//! Root-mean-square norms and the row reductions.

use super::{LANES, Simd};
use crate::reference::math::rsqrt;

#[inline(always)]
pub(in crate::cpu::kernels) fn rms_norm<S: Simd>(
    s: S,
    x: &[f32],
    scale: &[f32],
    eps: f32,
    out: &mut [f32],
) {
    assert!(
        x.len() == scale.len() && x.len() == out.len(),
        "a norm takes rows of one length"
    );
    #[expect(clippy::cast_precision_loss, reason = "row widths are far below 2^24")]
    let r = rsqrt(sum_of_squares(s, x) / x.len() as f32 + eps);
    let r = s.splat(r);
    let (out, out_tail) = out.as_chunks_mut::<LANES>();
    let (x, x_tail) = x.as_chunks::<LANES>();
    let (scale, scale_tail) = scale.as_chunks::<LANES>();
    for ((out, x), scale) in out.iter_mut().zip(x).zip(scale) {
        s.store(s.mul(s.mul(s.load(x), r), s.load(scale)), out);
    }
    if !out_tail.is_empty() {
        let normed = s.mul(s.mul(s.load_part(x_tail), r), s.load_part(scale_tail));
        s.store_part(normed, out_tail);
    }
}

#[inline(always)]
pub(in crate::cpu::kernels) fn l2_norm<S: Simd>(
    s: S,
    x: &[f32],
    eps: f32,
    scale: f32,
    out: &mut [f32],
) {
    assert_eq!(x.len(), out.len(), "a norm takes rows of one length");
    let r = s.splat(rsqrt(sum_of_squares(s, x) + eps));
    let scale = s.splat(scale);
    let (out, out_tail) = out.as_chunks_mut::<LANES>();
    let (x, x_tail) = x.as_chunks::<LANES>();
    for (out, x) in out.iter_mut().zip(x) {
        s.store(s.mul(s.mul(s.load(x), r), scale), out);
    }
    if !out_tail.is_empty() {
        s.store_part(s.mul(s.mul(s.load_part(x_tail), r), scale), out_tail);
    }
}

/// `sum(x^2)` in the order of [`crate::reference::sum::dot`]: one chain a lane, so it runs at the
/// latency of a fused multiply-add. A lane never holds -0, so the zeros after a tail change nothing.
#[inline(always)]
fn sum_of_squares<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (x, tail) = x.as_chunks::<LANES>();
    let mut lanes = s.splat(0.0);
    for x in x {
        let x = s.load(x);
        lanes = s.fma(x, x, lanes);
    }
    if !tail.is_empty() {
        let x = s.load_part(tail);
        lanes = s.fma(x, x, lanes);
    }
    s.tree(lanes)
}

/// `sum(x)` of numbers that are not negative, in the order of [`crate::reference::sum::total`].
#[inline(always)]
pub(super) fn total<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (x, tail) = x.as_chunks::<LANES>();
    let mut lanes = s.splat(0.0);
    for x in x {
        lanes = s.add(lanes, s.load(x));
    }
    if !tail.is_empty() {
        lanes = s.add(lanes, s.load_part(tail));
    }
    s.tree(lanes)
}
