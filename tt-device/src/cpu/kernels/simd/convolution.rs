//! The depthwise convolution of one token.

use super::math::silu;
use super::{LANES, Simd};
use crate::reference::convolution::TAPS;

#[inline(always)]
pub(in crate::cpu::kernels) fn conv_silu<S: Simd>(
    s: S,
    taps: [&[f32]; TAPS],
    rows: [&[f32]; TAPS],
    out: &mut [f32],
) {
    let len = out.len();
    let (out, out_tail) = out.as_chunks_mut::<LANES>();
    let whole = out.len() * LANES;
    let tap_chunks = [0, 1, 2, 3].map(|j| &taps[j][..len].as_chunks::<LANES>().0[..out.len()]);
    let row_chunks = [0, 1, 2, 3].map(|j| &rows[j][..len].as_chunks::<LANES>().0[..out.len()]);
    for (c, out) in out.iter_mut().enumerate() {
        let mut y = s.splat(0.0);
        for j in 0..TAPS {
            y = s.fma(s.load(&tap_chunks[j][c]), s.load(&row_chunks[j][c]), y);
        }
        s.store(silu(s, y), out);
    }
    if !out_tail.is_empty() {
        let mut y = s.splat(0.0);
        for j in 0..TAPS {
            y = s.fma(
                s.load_part(&taps[j][whole..len]),
                s.load_part(&rows[j][whole..len]),
                y,
            );
        }
        s.store_part(silu(s, y), out_tail);
    }
}
