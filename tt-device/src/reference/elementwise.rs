//! Operations on each element alone.

use super::math::{sigmoid, silu};

/// `x_i += y_i`: the residual.
pub fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += *y;
    }
}

/// `out_i = silu(gate_i) * up_i`: the gated MLP, and the output gate of the delta rule.
pub fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((o, g), u) in out.iter_mut().zip(gate).zip(up) {
        *o = silu(*g) * u;
    }
}

/// `x_i *= sigmoid(gate_i)`: the output gate of attention.
pub fn sigmoid_mul(x: &mut [f32], gate: &[f32]) {
    for (x, g) in x.iter_mut().zip(gate) {
        *x *= sigmoid(*g);
    }
}

/// The index of the largest element, the lowest one among equals; NaN is never larger. 0 for an
/// empty row.
#[must_use]
pub fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    let mut value = f32::NEG_INFINITY;
    for (i, x) in row.iter().enumerate() {
        if *x > value {
            value = *x;
            best = i;
        }
    }
    best
}
