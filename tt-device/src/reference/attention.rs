//! Causal attention of one query row over stored keys and values.

use super::math::exp;
use super::sum::total;

/// One query head over `rows` stored rows: `out = softmax(scale * q K^T) V`.
///
/// `key(t)` and `value(t)` give the stored rows. In order:
///
/// ```text
/// s_t = (sum_d q_d K_td) * scale          one fused chain over d ascending, from 0
/// m   = max_t s_t
/// e_t = exp(s_t - m)
/// z   = total(e)                          16 strided lanes and the tree
/// o_d = (sum_t e_t V_td) / z              one fused chain over t ascending, from 0
/// ```
///
/// Nothing is rescaled on the way, so neither a chunk nor a block has any part in the result.
/// `scores` is scratch.
///
/// # Panics
/// When `rows` is 0.
pub fn attend<'a>(
    q: &[f32],
    rows: usize,
    scale: f32,
    key: impl Fn(usize, usize) -> f32 + 'a,
    value: impl Fn(usize, usize) -> f32 + 'a,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    assert!(rows > 0, "a query sees at least its own row");
    scores.clear();
    let mut largest = f32::NEG_INFINITY;
    for t in 0..rows {
        let mut s = 0.0f32;
        for (d, q) in q.iter().enumerate() {
            s = q.mul_add(key(t, d), s);
        }
        let s = s * scale;
        if s > largest {
            largest = s;
        }
        scores.push(s);
    }
    for s in scores.iter_mut() {
        *s = exp(*s - largest);
    }
    let z = total(scores);
    for (d, o) in out.iter_mut().enumerate() {
        let mut sum = 0.0f32;
        for (t, e) in scores.iter().enumerate() {
            sum = e.mul_add(value(t, d), sum);
        }
        *o = sum / z;
    }
}
