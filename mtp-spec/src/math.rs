//! exp and ln of this crate: the tokens drawn must be the same on every machine, and a platform's libm may
//! differ in the last bit. Both are made of IEEE-754 additions, multiplications, divisions and integer operations alone,
//! each rounded once (Rust never contracts them), so their bits are fixed by this file.

/// The high part of ln 2: its low 21 bits are zero, so that a product with an integer of 11 bits is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
/// ln 2 minus [`LN2_HIGH`], rounded.
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// 1.5 * 2^52: added to a number below 2^51 it leaves the nearest integer in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// 1/13!, 1/12!, .. 1/2!: the coefficients of e^r from the highest power down.
const INVERSE_FACTORIALS: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];
/// 1/21, 1/19, .. 1/3: the coefficients of the series of artanh from the highest power down.
const INVERSE_ODD: [f64; 10] = [
    1.0 / 21.0,
    1.0 / 19.0,
    1.0 / 17.0,
    1.0 / 15.0,
    1.0 / 13.0,
    1.0 / 11.0,
    1.0 / 9.0,
    1.0 / 7.0,
    1.0 / 5.0,
    1.0 / 3.0,
];

/// e^x within 2 ulp. Below -708 it is 0 (no denormal results), above 709 infinity; NaN stays NaN.
///
/// x = k ln 2 + r with |r| <= 0.347, the Taylor polynomial of degree 13 at r (its remainder is under 2^-57 of the
/// result), then the exponent is raised by k. Written without early returns, so that a loop over it can be vectorised.
#[inline]
pub(crate) fn exp(x: f64) -> f64 {
    let bounded = if x < -708.0 { -708.0 } else { x };
    let bounded = if bounded > 709.0 { 709.0 } else { bounded };
    let shifted = bounded * std::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (bounded - k * LN2_HIGH) - k * LN2_LOW;
    let p = INVERSE_FACTORIALS
        .iter()
        .fold(0.0, |p, coefficient| p * r + coefficient);
    // 1 + (r + r^2 p): the small part is summed first.
    let result = 1.0 + (r + r * r * p);
    // The low bits of `shifted` are k in two's complement; |k| <= 1023, so the biased exponent stays that of a normal number.
    let scaled = result * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let scaled = if x < -708.0 { 0.0 } else { scaled };
    if x > 709.0 { f64::INFINITY } else { scaled }
}

/// The natural logarithm of a positive normal number, within 2 ulp. 0 and denormals give minus infinity, negative numbers
/// and NaN give NaN.
///
/// x = 2^e m with m in [0.707, 1.415), ln m = 2 artanh(s) with s = (m - 1) / (m + 1), |s| < 0.172, by the odd series up to s^21
/// (its remainder is under 2^-60 of the result).
#[inline]
pub(crate) fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x < f64::MIN_POSITIVE {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // Adding the difference between 1 and sqrt(1/2) to the bits moves the border between two exponents from 1 to sqrt(1/2).
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    const ONE: u64 = 1.0_f64.to_bits();
    let moved = x.to_bits() + (ONE - SQRT_HALF);
    let e = f64::from((moved >> 52) as u32) - 1023.0;
    let m = f64::from_bits((moved & ((1 << 52) - 1)) + SQRT_HALF);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let p = INVERSE_ODD
        .iter()
        .fold(0.0, |p, coefficient| p * s2 + coefficient);
    // 2 artanh(s) = f - s (f - 2 s^2 p): 2 s = f - s f holds exactly, and f carries no rounding.
    let tail = s * (f - 2.0 * s2 * p);
    e * LN2_HIGH + (f - (tail - e * LN2_LOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units in the last place of `judge`.
    fn ulp(value: f64, judge: f64) -> f64 {
        let next = f64::from_bits(judge.abs().to_bits() + 1);
        ((value - judge) / (next - judge.abs())).abs()
    }

    /// Numbers spread over [0, 1).
    fn spread() -> impl Iterator<Item = f64> {
        (0..400_000_u64)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64)
    }

    #[test]
    fn exp_is_within_two_ulp_of_the_platform() {
        let worst = spread()
            .flat_map(|u| [-708.0 * u, 709.0 * u, -u, -30.0 * u, u * 1e-9])
            .map(|x| ulp(exp(x), x.exp()))
            .fold(0.0, f64::max);
        assert!(worst <= 2.0, "{worst} ulp");
    }

    #[test]
    fn ln_is_within_two_ulp_of_the_platform() {
        let tiny = 1.0 / (1_u64 << 53) as f64;
        let worst = spread()
            .flat_map(|u| {
                [
                    u + tiny,
                    1.0 - u * 1e-3,
                    1.0 + u,
                    1.0 - tiny * (u * 64.0).round(),
                    u * 1e-300 + 1e-307,
                    u * 1e300 + 1.0,
                ]
            })
            .filter(|&x| x != 1.0)
            .map(|x| ulp(ln(x), x.ln()))
            .fold(0.0, f64::max);
        assert!(worst <= 2.0, "{worst} ulp");
    }

    #[test]
    fn the_ends_are_as_documented() {
        assert_eq!(exp(0.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!(exp(-708.5).to_bits(), 0.0_f64.to_bits());
        assert_eq!(exp(f64::NEG_INFINITY).to_bits(), 0.0_f64.to_bits());
        assert!(exp(-708.0) > 0.0 && exp(-708.0).is_normal());
        assert!(exp(709.5).is_infinite() && exp(709.0).is_finite());
        assert!(exp(f64::NAN).is_nan() && ln(f64::NAN).is_nan() && ln(-1.0).is_nan());
        assert_eq!(ln(1.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(f64::INFINITY), f64::INFINITY);
        assert_eq!(ln(2.0).to_bits(), std::f64::consts::LN_2.to_bits());
    }

    #[test]
    fn bits_are_pinned() {
        let digest = spread().fold(0_u64, |digest, u| {
            let values = exp(-40.0 * u).to_bits() ^ ln(u + 1e-12).to_bits().rotate_left(1);
            (digest ^ values).wrapping_mul(0x100_0000_01b3)
        });
        assert_eq!(digest, 0x63ae_9f3e_bcf2_32e5, "{digest:#018x}");
    }
}
