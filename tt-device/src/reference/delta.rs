//! The gated delta rule (Yang, Kautz and Hatamizadeh 2024, eq. 10), one token at a time.
//!
//! There is one execution order for prefill and decode; the chunked (WY) form would be another
//! contract.

use super::math::{exp, sigmoid, softplus};

/// The decay of a head for one token: `exp(-(rate * softplus(a + dt_bias)))`, `rate = exp(A_log)`.
#[must_use]
pub fn decay(a: f32, rate: f32, dt_bias: f32) -> f32 {
    exp(-(rate * softplus(a + dt_bias)))
}

/// The write strength of a head for one token.
#[must_use]
pub fn beta(b: f32) -> f32 {
    sigmoid(b)
}

/// One token of one value head. `state` is `[key_dim, value_dim]` row-major, f32, updated in place.
///
/// For each value column j, with i ascending over the key dimension and every sum one fused
/// multiply-add chain from 0:
///
/// ```text
/// m_j   = sum_i k_i S_ij
/// u_j   = beta * fma(-decay, m_j, v_j)
/// S_ij  = fma(k_i, u_j, decay * S_ij)
/// o_j   = sum_i q_i S_ij
/// ```
///
/// # Panics
/// When a slice is not of its shape.
pub fn delta_step(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    decay: f32,
    beta: f32,
    state: &mut [f32],
    out: &mut [f32],
) {
    let width = v.len();
    assert!(q.len() == k.len() && state.len() == k.len() * width && out.len() == width);
    for (j, o) in out.iter_mut().enumerate() {
        let mut m = 0.0f32;
        for (i, k) in k.iter().enumerate() {
            m = k.mul_add(state[i * width + j], m);
        }
        let u = beta * (-decay).mul_add(m, v[j]);
        let mut sum = 0.0f32;
        for (i, (k, q)) in k.iter().zip(q).enumerate() {
            let s = &mut state[i * width + j];
            *s = k.mul_add(u, decay * *s);
            sum = q.mul_add(*s, sum);
        }
        *o = sum;
    }
}
