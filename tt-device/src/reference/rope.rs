//! Rotary position embedding over a part of each head.

use super::math::sin_cos;

/// Cosines and sines for one position: `angle_j = position * frequency_j`, one f32 product, then
/// [`sin_cos`].
pub fn angles(position: u32, frequencies: &[f32], cosines: &mut [f32], sines: &mut [f32]) {
    #[expect(
        clippy::cast_precision_loss,
        reason = "positions stay below 2^24, where f32 is exact"
    )]
    let position = position as f32;
    for ((f, c), s) in frequencies.iter().zip(cosines).zip(sines) {
        (*s, *c) = sin_cos(position * f);
    }
}

/// Rotates the first `2 * cosines.len()` elements of a head in place, pairing `j` with `j + half`
/// (Su et al. 2021, in the half-split layout): `a' = fma(a, cos, -(b sin))`, `b' = fma(b, cos, a sin)`.
pub fn rotate(head: &mut [f32], cosines: &[f32], sines: &[f32]) {
    let (first, second) = head.split_at_mut(cosines.len());
    for (((a, b), c), s) in first.iter_mut().zip(second).zip(cosines).zip(sines) {
        (*a, *b) = (a.mul_add(*c, -(*b * s)), b.mul_add(*c, *a * s));
    }
}
