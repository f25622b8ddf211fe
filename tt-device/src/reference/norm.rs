//! Root-mean-square norms.

use super::math::rsqrt;
use super::sum::dot;

/// `out_i = (x_i * rsqrt(mean(x^2) + eps)) * scale_i` over one row (Zhang and Sennrich 2019, eq. 4).
///
/// Qwen3.5's zero-centred norms pass `scale = 1 + w`, the gated norm of the delta rule its plain `w`.
/// The mean is `dot(x, x) / n`, one f32 division.
///
/// # Panics
/// When the slices differ in length.
pub fn rms_norm(x: &[f32], scale: &[f32], eps: f32, out: &mut [f32]) {
    assert!(
        x.len() == scale.len() && x.len() == out.len(),
        "a norm takes rows of one length"
    );
    #[expect(clippy::cast_precision_loss, reason = "row widths are far below 2^24")]
    let r = rsqrt(dot(x, x) / x.len() as f32 + eps);
    for ((o, x), s) in out.iter_mut().zip(x).zip(scale) {
        *o = (x * r) * s;
    }
}

/// `out_i = (x_i * rsqrt(sum(x^2) + eps)) * scale`: the l2 norm of delta-rule queries and keys.
///
/// # Panics
/// When the slices differ in length.
pub fn l2_norm(x: &[f32], eps: f32, scale: f32, out: &mut [f32]) {
    assert_eq!(x.len(), out.len(), "a norm takes rows of one length");
    let r = rsqrt(dot(x, x) + eps);
    for (o, x) in out.iter_mut().zip(x) {
        *o = (x * r) * scale;
    }
}
