//! exp, sigmoid, silu, softplus, reciprocal square root, sine and cosine, written out.
//!
//! The platform's libm differs between systems in the last bit, so none of it is used. Every
//! function here is a fixed sequence of IEEE operations (add, multiply, fused multiply-add,
//! divide, square root), each correctly rounded, so that a vector unit that does the same
//! sequence gives the same bits. The `f64` functions serve tables that are made once.

/// Largest argument of [`exp`] with a finite result; above it the result is infinity.
pub const EXP_MAX: f32 = 88.722_83;
/// Smallest argument of [`exp`] with a non-zero result; below it the result is zero.
pub const EXP_MIN: f32 = -87.336_54;

pub(crate) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts: the first has 15 trailing zero bits, so `n * LN_2_HIGH` is exact for |n| < 2^9.
pub(crate) const LN_2_HIGH: f32 = 0.693_359_4;
pub(crate) const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, ties to even.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// 1/k! for k = 7 down to 0, the Taylor polynomial of e^r; over |r| <= ln(2)/2 it is off by 6e-9.
pub(crate) const EXP_TERMS: [f32; 8] = [
    1.0 / 5040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];
/// 1/(2k+1) for k = 8 down to 0: ln(1+y) = 2 (s + s^3/3 + ..), s = y/(2+y).
pub(crate) const LOG_TERMS: [f32; 9] = [
    1.0 / 17.0,
    1.0 / 15.0,
    1.0 / 13.0,
    1.0 / 11.0,
    1.0 / 9.0,
    1.0 / 7.0,
    1.0 / 5.0,
    1.0 / 3.0,
    1.0,
];

/// e^x, within 2 ulp of the exact value; 0 below [`EXP_MIN`], infinity above [`EXP_MAX`], NaN for NaN.
///
/// `n = round(x log2 e)`, `r = x - n ln 2` in two fused steps, a degree-7 polynomial in r by
/// Horner's rule with fused multiply-adds, and a multiplication by 2^n in two exact halves.
#[must_use]
pub fn exp(x: f32) -> f32 {
    if x > EXP_MAX {
        return f32::INFINITY;
    }
    if x < EXP_MIN {
        return 0.0;
    }
    if x.is_nan() {
        return x;
    }
    let n = x.mul_add(LOG2_E, ROUND) - ROUND;
    let r = n.mul_add(-LN_2_HIGH, x);
    let r = n.mul_add(-LN_2_LOW, r);
    let mut p = EXP_TERMS[0];
    for term in &EXP_TERMS[1..] {
        p = p.mul_add(r, *term);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "n is an integer in -126..=128"
    )]
    let n = n as i32;
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n - half)
}

/// 1 / (1 + e^-x), within 3 ulp.
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// x / (1 + e^-x), within 4 ulp.
#[must_use]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|), within 4 ulp.
#[must_use]
pub fn softplus(x: f32) -> f32 {
    let y = exp(-x.abs());
    let s = y / (2.0 + y);
    let square = s * s;
    let mut p = LOG_TERMS[0];
    for term in &LOG_TERMS[1..] {
        p = p.mul_add(square, *term);
    }
    let log = (s + s) * p;
    // `max` as the vector units define it: the second operand when the first is not greater.
    (if x > 0.0 { x } else { 0.0 }) + log
}

/// 1 / sqrt(x) by an exact square root and an exact division, within 1 ulp.
#[must_use]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// Sine and cosine of an angle in radians, |x| < 2^20, from `f64` arithmetic, each rounded once to
/// `f32` (so within 0.5 ulp of the exact value but for a few ties).
///
/// Cody-Waite reduction by pi/2 in two parts, then Taylor polynomials of degree 17 and 16 over
/// |r| <= pi/4.
#[must_use]
pub fn sin_cos(x: f32) -> (f32, f32) {
    const HALF_PI_HIGH: f64 = std::f64::consts::FRAC_PI_2;
    const HALF_PI_LOW: f64 = 6.123_233_995_736_766e-17;
    const ROUND_64: f64 = 6_755_399_441_055_744.0;
    let x = f64::from(x);
    let n = x.mul_add(std::f64::consts::FRAC_2_PI, ROUND_64) - ROUND_64;
    let r = n.mul_add(-HALF_PI_HIGH, x);
    let r = n.mul_add(-HALF_PI_LOW, r);
    let square = r * r;
    let mut sine = 0.0f64;
    let mut cosine = 0.0f64;
    for k in (0..=8u32).rev() {
        let odd = f64::from((2 * k + 2) * (2 * k + 3));
        let even = f64::from((2 * k + 1) * (2 * k + 2));
        // Horner over the ratio of consecutive terms: 1 - r^2/((2k+2)(2k+3)) (1 - ..).
        sine = (-square / odd).mul_add(1.0 + sine, 0.0);
        cosine = (-square / even).mul_add(1.0 + cosine, 0.0);
    }
    let (sine, cosine) = (r * (1.0 + sine), 1.0 + cosine);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "|n| < 2^20, and the one rounding to f32 is the point"
    )]
    let (quadrant, sine, cosine) = ((n as i64) & 3, sine as f32, cosine as f32);
    match quadrant {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

/// The rotation frequencies of rope: `theta^(-2j/rotary_dim)` for `j` below `rotary_dim / 2`, computed
/// in `f64` and rounded once.
#[must_use]
pub fn rope_frequencies(theta: f64, rotary_dim: usize) -> Vec<f32> {
    let ln_theta = ln_f64(theta);
    (0..rotary_dim / 2)
        .map(|j| {
            #[expect(clippy::cast_precision_loss, reason = "head widths are far below 2^53")]
            let exponent = -((2 * j) as f64) / rotary_dim as f64;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the one rounding to f32 is the point"
            )]
            let frequency = exp_f64(exponent * ln_theta) as f32;
            frequency
        })
        .collect()
}

/// 2^n as a float, for n in -126..=127.
#[expect(
    clippy::cast_sign_loss,
    reason = "n + 127 is in 1..=254 by the caller's range"
)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// e^x in f64 for |x| < 700: halve until |r| < 2^-7, Taylor to degree 9, square back.
fn exp_f64(x: f64) -> f64 {
    let mut r = x;
    let mut doublings = 0;
    while r.abs() > 1.0 / 128.0 {
        r *= 0.5;
        doublings += 1;
    }
    // e^r - 1, kept apart from 1 so that squaring loses nothing: (1+m)^2 - 1 = m (2 + m).
    let mut m = 0.0f64;
    for k in (1..=9u32).rev() {
        m = (r / f64::from(k)).mul_add(1.0 + m, 0.0);
    }
    for _ in 0..doublings {
        m *= 2.0 + m;
    }
    1.0 + m
}

/// ln x in f64 for normal x > 0: exponent apart, then the atanh series of the fraction.
fn ln_f64(x: f64) -> f64 {
    let bits = x.to_bits();
    #[expect(clippy::cast_possible_wrap, reason = "an 11-bit field")]
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let fraction = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    let s = (fraction - 1.0) / (fraction + 1.0);
    let square = s * s;
    let mut p = 0.0f64;
    for k in (0..=17u32).rev() {
        p = p.mul_add(square, 1.0 / f64::from(2 * k + 1));
    }
    #[expect(clippy::cast_precision_loss, reason = "|exponent| < 2^11")]
    let exponent = exponent as f64;
    exponent.mul_add(std::f64::consts::LN_2, 2.0 * s * p)
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test's numbers are small"
)]
mod tests {
    use super::*;

    fn ulps(got: f32, exact: f64) -> f64 {
        let near = exact as f32;
        let ulp = f64::from(f32::from_bits(near.abs().to_bits() + 1)) - f64::from(near.abs());
        (f64::from(got) - exact).abs() / ulp
    }

    fn sweep(from: f32, to: f32, steps: u32) -> impl Iterator<Item = f32> {
        (0..=steps).map(move |i| from + (to - from) * (i as f32 / steps as f32))
    }

    #[test]
    fn exp_and_its_kin_stay_within_their_stated_error() {
        for x in sweep(EXP_MIN, EXP_MAX, 400_000) {
            let e = f64::from(x).exp();
            assert!(ulps(exp(x), e) <= 2.0, "exp({x})");
        }
        for x in sweep(-80.0, 80.0, 400_000) {
            let e = (-f64::from(x)).exp();
            assert!(ulps(sigmoid(x), 1.0 / (1.0 + e)) <= 3.0, "sigmoid({x})");
            assert!(ulps(silu(x), f64::from(x) / (1.0 + e)) <= 4.0, "silu({x})");
            assert!(
                ulps(softplus(x), f64::from(x).exp().ln_1p()) <= 4.0,
                "softplus({x})"
            );
        }
    }

    #[test]
    fn exp_ends_in_zero_and_infinity() {
        assert_eq!(exp(-1e30), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(1e30), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(EXP_MAX).is_finite());
        assert!(exp(EXP_MIN) >= f32::MIN_POSITIVE);
        assert_eq!(silu(f32::NEG_INFINITY.max(-1e30)), -0.0);
    }

    #[test]
    fn sine_and_cosine_are_rounded_once() {
        for x in sweep(-300_000.0, 300_000.0, 500_000) {
            let (sine, cosine) = sin_cos(x);
            assert!(
                ulps(sine, f64::from(x).sin()) <= 0.51 || f64::from(x).sin().abs() < 1e-9,
                "sin({x})"
            );
            assert!(
                ulps(cosine, f64::from(x).cos()) <= 0.51 || f64::from(x).cos().abs() < 1e-9,
                "cos({x})"
            );
        }
    }

    #[test]
    fn rope_frequencies_equal_the_power() {
        for (theta, dim) in [(1e7, 64), (1e4, 16), (5e5, 128)] {
            for (j, f) in rope_frequencies(theta, dim).into_iter().enumerate() {
                let exact = theta.powf(-2.0 * j as f64 / dim as f64);
                assert!(ulps(f, exact) <= 0.501, "theta {theta} j {j}");
            }
        }
    }
}
