//! The depthwise causal convolution before the delta rule.

use super::math::silu;

/// Taps of the convolution; the last one meets the current token.
pub const TAPS: usize = 4;

/// One token of the width-4 depthwise convolution and its silu, for `out.len()` channels:
/// `y_c = silu(sum_j taps[j][c] * rows[j][c])`, from 0 in ascending j by fused multiply-adds, where
/// rows 0..3 are the window (the three rows before this token, oldest first) and row 3 is the token.
///
/// # Panics
/// When a slice is shorter than `out`.
pub fn conv_silu(taps: [&[f32]; TAPS], rows: [&[f32]; TAPS], out: &mut [f32]) {
    for (c, o) in out.iter_mut().enumerate() {
        let mut y = 0.0f32;
        for (tap, row) in taps.iter().zip(rows) {
            y = tap[c].mul_add(row[c], y);
        }
        *o = silu(y);
    }
}
