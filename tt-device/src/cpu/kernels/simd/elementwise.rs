//! Operations on each element alone, and the largest element of a row.

use super::math::{sigmoid, silu};
use super::{LANES, Simd};
use crate::numerics::{ACTIVATION_MAX, ACTIVATION_MIN};

#[inline(always)]
pub(in crate::cpu::kernels) fn add<S: Simd>(s: S, x: &mut [f32], y: &[f32]) {
    let len = x.len().min(y.len());
    let (x, x_tail) = x[..len].as_chunks_mut::<LANES>();
    let (y, y_tail) = y[..len].as_chunks::<LANES>();
    for (x, y) in x.iter_mut().zip(y) {
        s.store(s.add(s.load(x), s.load(y)), x);
    }
    if !x_tail.is_empty() {
        let sum = s.add(s.load_part(x_tail), s.load_part(y_tail));
        s.store_part(sum, x_tail);
    }
}

#[inline(always)]
pub(in crate::cpu::kernels) fn silu_mul<S: Simd>(s: S, gate: &[f32], up: &[f32], out: &mut [f32]) {
    let len = out.len().min(gate.len()).min(up.len());
    let (out, out_tail) = out[..len].as_chunks_mut::<LANES>();
    let (gate, gate_tail) = gate[..len].as_chunks::<LANES>();
    let (up, up_tail) = up[..len].as_chunks::<LANES>();
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        s.store(s.mul(silu(s, s.load(gate)), s.load(up)), out);
    }
    if !out_tail.is_empty() {
        let product = s.mul(silu(s, s.load_part(gate_tail)), s.load_part(up_tail));
        s.store_part(product, out_tail);
    }
}

#[inline(always)]
pub(in crate::cpu::kernels) fn sigmoid_mul<S: Simd>(s: S, x: &mut [f32], gate: &[f32]) {
    let len = x.len().min(gate.len());
    let (x, x_tail) = x[..len].as_chunks_mut::<LANES>();
    let (gate, gate_tail) = gate[..len].as_chunks::<LANES>();
    for (x, gate) in x.iter_mut().zip(gate) {
        s.store(s.mul(s.load(x), sigmoid(s, s.load(gate))), x);
    }
    if !x_tail.is_empty() {
        let product = s.mul(s.load_part(x_tail), sigmoid(s, s.load_part(gate_tail)));
        s.store_part(product, x_tail);
    }
}

/// [`crate::numerics::round_activation`] of each.
#[inline(always)]
pub(in crate::cpu::kernels) fn round<S: Simd>(s: S, x: &[f32], out: &mut [f32]) {
    let len = x.len().min(out.len());
    let (x, x_tail) = x[..len].as_chunks::<LANES>();
    let (out, out_tail) = out[..len].as_chunks_mut::<LANES>();
    for (out, x) in out.iter_mut().zip(x) {
        s.store(activation(s, s.load(x)), out);
    }
    if !out_tail.is_empty() {
        s.store_part(activation(s, s.load_part(x_tail)), out_tail);
    }
}

#[inline(always)]
fn activation<S: Simd>(s: S, x: S::V) -> S::V {
    let rounded = s.through_bf16(x);
    let magnitude = s.abs(rounded);
    let (least, most) = (s.splat(ACTIVATION_MIN), s.splat(ACTIVATION_MAX));
    let flushed = s.select(s.greater(least, magnitude), s.splat(0.0), rounded);
    let bounded = s.select(s.greater(flushed, most), most, flushed);
    let bounded = s.select(s.greater(s.neg(most), bounded), s.neg(most), bounded);
    // What is not a number is neither above nor below, and may have been rounded to one.
    s.select(s.ordered(x), bounded, x)
}

/// The largest value first, over lanes; then the first element that equals it.
#[inline(always)]
pub(in crate::cpu::kernels) fn argmax<S: Simd>(s: S, row: &[f32]) -> usize {
    let (chunks, tail) = row.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut largest = s.load(&lanes);
    for chunk in chunks {
        let x = s.load(chunk);
        largest = s.select(s.greater(x, largest), x, largest);
    }
    s.store(largest, &mut lanes);
    let mut value = f32::NEG_INFINITY;
    for x in lanes.iter().chain(tail) {
        if *x > value {
            value = *x;
        }
    }
    if value == f32::NEG_INFINITY {
        return 0;
    }
    let value_lanes = s.splat(value);
    for (i, chunk) in chunks.iter().enumerate() {
        let equal = s.equal_bits(s.load(chunk), value_lanes);
        if equal != 0 {
            return i * LANES + equal.trailing_zeros() as usize;
        }
    }
    chunks.len() * LANES + tail.iter().position(|x| *x == value).unwrap_or(0)
}
