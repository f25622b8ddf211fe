//! exp and its kin over lanes, step for step as [`crate::reference::math`].

use super::Simd;
use crate::reference::math::{EXP_MAX, EXP_MIN, EXP_TERMS, LN_2_HIGH, LN_2_LOW, LOG2_E, ROUND};

#[inline(always)]
pub(super) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    let round = s.splat(ROUND);
    let n = s.sub(s.fma(x, s.splat(LOG2_E), round), round);
    let r = s.fma(n, s.splat(-LN_2_HIGH), x);
    let r = s.fma(n, s.splat(-LN_2_LOW), r);
    let mut p = s.splat(EXP_TERMS[0]);
    for term in &EXP_TERMS[1..] {
        p = s.fma(p, r, s.splat(*term));
    }
    let e = s.scale(p, n);
    let e = s.select(s.greater(x, s.splat(EXP_MAX)), s.splat(f32::INFINITY), e);
    s.select(s.greater(s.splat(EXP_MIN), x), s.splat(0.0), e)
}

#[inline(always)]
pub(super) fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    s.div(s.splat(1.0), one_plus_exp(s, s.neg(x)))
}

#[inline(always)]
pub(super) fn silu<S: Simd>(s: S, x: S::V) -> S::V {
    s.div(x, one_plus_exp(s, s.neg(x)))
}

#[inline(always)]
fn one_plus_exp<S: Simd>(s: S, x: S::V) -> S::V {
    s.add(s.splat(1.0), exp(s, x))
}
