//! The definition of contract `tensix/1`, in plain scalar Rust.
//!
//! This is the judge of every kernel: it is written to be read beside the rules, not to be fast.
//! All arithmetic is on integers, so no machine can round it differently.

use super::{Accumulate, MatmulShape, MatrixUnit, Phase};

/// Products that one step of the unit adds to a destination.
pub const STEP: usize = 16;
/// Products that share one alignment; a step has two such groups.
pub const GROUP: usize = 8;
/// k is padded with zeros to a multiple of this, the side of a tile.
pub const BLOCK: usize = 32;

/// Bits that a sum of products has below the lowest bit of a product, so that its binary point is
/// that of a 24-bit destination: 4 + 6 fraction bits of a product and these make 23.
const SUM_SCALE: u32 = 13;
/// The leading bit of a destination's 24-bit significand.
const LEADING: u32 = 1 << 23;
/// The exponent of infinity.
const INFINITE: i32 = 255;

/// `out[m, n] = activations[m, k] x weights[k, n]`, all row-major, as destination registers hold it.
///
/// Operands are read as bf16 by truncation, as the unpacker makes them of f32. Destinations start
/// at zero; per 32 of k the phases run in order, in each phase first k 0-15 and then k 16-31. With
/// [`Accumulate::Bf16`] every result is a bf16 value.
///
/// # Panics
/// When a slice is not as long as `shape` says.
pub fn matmul(
    unit: MatrixUnit,
    activations: &[f32],
    weights: &[f32],
    shape: MatmulShape,
    out: &mut [f32],
) {
    shape.check(activations.len(), weights.len(), out.len());
    let MatmulShape { k, n, .. } = shape;
    for (at, out) in out.iter_mut().enumerate() {
        let (row, column) = (at / n, at % n);
        let mut dest = 0;
        for block in (0..k).step_by(BLOCK) {
            for &phase in unit.fidelity.phases() {
                for first in [block, block + STEP] {
                    let padded = |k0: usize, value: &dyn Fn(usize) -> f32| {
                        std::array::from_fn(|i| if k0 + i < k { value(k0 + i) } else { 0.0 })
                    };
                    let a = padded(first, &|i| activations[row * k + i]);
                    let w = padded(first, &|i| weights[i * n + column]);
                    dest = step(dest, &a, &w, phase, unit.accumulate);
                }
            }
        }
        *out = f32::from_bits(dest);
    }
}

/// One multiply step: adds 16 products to a destination. `dest` and the result are f32 bits.
#[must_use]
pub fn step(
    dest: u32,
    activations: &[f32; STEP],
    weights: &[f32; STEP],
    phase: Phase,
    accumulate: Accumulate,
) -> u32 {
    let products: [Product; STEP] =
        std::array::from_fn(|i| Product::new(activations[i], weights[i], phase));
    let (first, second) = products.split_at(GROUP);
    add(dest, [Sum::of(first), Sum::of(second)], accumulate)
}

/// A bf16 operand in a source register.
#[derive(Clone, Copy)]
struct Operand {
    negative: bool,
    exponent: i32,
    /// 11 bits, the leading one included; the low three of a bf16 are zero.
    mantissa: u32,
}

impl Operand {
    /// None when the exponent field is 0: zeros and subnormals. A field of 255 is a number like any
    /// other: the unit knows neither infinity nor NaN in its operands.
    fn new(value: f32) -> Option<Self> {
        let bits = value.to_bits();
        let field = (bits >> 23) & 0xff;
        (field != 0).then(|| Self {
            negative: bits >> 31 != 0,
            exponent: field.cast_signed(),
            mantissa: 0x400 | ((bits >> 16) & 0x7f) << 3,
        })
    }
}

/// The product of one phase: `magnitude * 2^(exponent - 127 - 10)`.
#[derive(Clone, Copy)]
struct Product {
    negative: bool,
    /// Biased by 127, and not limited to a byte.
    exponent: i32,
    /// At most 31 x 127. May be 0 where the phase's part of a mantissa is: its exponent counts still.
    magnitude: u32,
}

impl Product {
    /// A zero operand makes a product of exponent 0, so that it never raises the group's exponent.
    const ZERO: Self = Self {
        negative: false,
        exponent: 0,
        magnitude: 0,
    };

    fn new(activation: f32, weight: f32, phase: Phase) -> Self {
        let (Some(a), Some(w)) = (Operand::new(activation), Operand::new(weight)) else {
            return Self::ZERO;
        };
        let weight = if phase.low_weight() {
            (w.mantissa >> 1) & 31
        } else {
            w.mantissa >> 6
        };
        let activation = if phase.low_activation() {
            (a.mantissa & 15) << 3
        } else {
            a.mantissa >> 4
        };
        Self {
            negative: a.negative != w.negative,
            exponent: a.exponent + w.exponent - 127 - i32::from(phase.exponent_drop()),
            magnitude: weight * activation,
        }
    }
}

/// A sum of products or a destination, as the adder sees it: `value * 2^(exponent - 127 - 23)`.
#[derive(Clone, Copy)]
struct Sum {
    exponent: i32,
    value: i64,
}

impl Sum {
    /// Eight products, each aligned to the largest exponent of them and rounded half up in magnitude.
    ///
    /// A group whose largest exponent is not above 0 is zero as a whole.
    fn of(group: &[Product]) -> Self {
        let exponent = group
            .iter()
            .map(|product| product.exponent)
            .max()
            .unwrap_or(0);
        if exponent <= 0 {
            return Self {
                exponent: 0,
                value: 0,
            };
        }
        let value: i64 = group
            .iter()
            .map(|product| {
                let magnitude = half_up(product.magnitude.into(), exponent - product.exponent);
                if product.negative {
                    -magnitude
                } else {
                    magnitude
                }
            })
            .sum();
        Self {
            exponent,
            value: value << SUM_SCALE,
        }
    }
}

/// Adds both sums to a destination.
///
/// The sums are two's complement, so rounding half up takes their halves towards plus infinity;
/// the destination is sign and magnitude, so its halves go away from zero. An exponent counts in
/// the alignment even where the sum itself came out as zero.
fn add(dest: u32, sums: [Sum; 2], accumulate: Accumulate) -> u32 {
    let dest_exponent = ((dest >> 23) & 0xff).cast_signed();
    let dest_magnitude = if dest_exponent == 0 {
        0
    } else {
        i64::from(LEADING | dest & (LEADING - 1))
    };
    let exponent = sums
        .iter()
        .map(|sum| sum.exponent)
        .fold(dest_exponent, i32::max);

    let narrow = |term: i64| match accumulate {
        Accumulate::F32 => term,
        Accumulate::Bf16 => half_up(term, 13) << 13,
    };
    let dest_magnitude = narrow(half_up(dest_magnitude, exponent - dest_exponent));
    let mut total = if dest >> 31 != 0 {
        -dest_magnitude
    } else {
        dest_magnitude
    };
    for sum in sums {
        total += narrow(half_up(sum.value, exponent - sum.exponent));
    }
    encode(exponent, total, accumulate)
}

/// `total * 2^(exponent - 127 - 23)` as the bits of a destination: rounded half away from zero,
/// infinite above the range, zero (without a sign) below it.
fn encode(exponent: i32, total: i64, accumulate: Accumulate) -> u32 {
    let magnitude = total.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    // The position of the leading bit above that of a normalised 24-bit significand.
    let above = magnitude.ilog2().cast_signed() - 23;
    let dropped = match accumulate {
        Accumulate::F32 => 0,
        Accumulate::Bf16 => 16,
    };
    let right = above + dropped;
    let kept = if right > 0 {
        half_up(magnitude.cast_signed(), right)
    } else {
        magnitude.cast_signed() << -right
    };
    let mut significand = kept << dropped;
    let mut exponent = exponent + above;
    if significand >> 24 != 0 {
        significand >>= 1;
        exponent += 1;
    }
    let sign = u32::from(total < 0) << 31;
    if exponent <= 0 {
        0
    } else if exponent >= INFINITE {
        sign | INFINITE.cast_unsigned() << 23
    } else {
        let fraction = u32::try_from(significand).expect("24 bits") & (LEADING - 1);
        sign | exponent.cast_unsigned() << 23 | fraction
    }
}

/// `value / 2^shift`, rounded to nearest with halves towards plus infinity.
fn half_up(value: i64, shift: i32) -> i64 {
    match shift {
        0 => value,
        // Every value here is below 2^30 in magnitude: from here on nothing is left of it.
        32.. => 0,
        _ => (value + (1 << (shift - 1))) >> shift,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensix::Fidelity;

    const PHASE_0: Phase = Fidelity::LoFi.phases()[0];

    fn first_products(pairs: &[(f32, f32)]) -> ([f32; STEP], [f32; STEP]) {
        let (mut a, mut w) = ([0.0; STEP], [0.0; STEP]);
        for (i, &(activation, weight)) in pairs.iter().enumerate() {
            (a[i], w[i]) = (activation, weight);
        }
        (a, w)
    }

    fn step_f32(dest: f32, pairs: &[(f32, f32)]) -> f32 {
        let (a, w) = first_products(pairs);
        f32::from_bits(step(dest.to_bits(), &a, &w, PHASE_0, Accumulate::F32))
    }

    #[test]
    fn a_product_below_the_group_rounds_half_up_in_magnitude() {
        // The lowest bit kept beside 1 is 2^-10: half of it counts whole, with either sign.
        let half = 2.0f32.powi(-11);
        let lowest = 2.0f32.powi(-10);
        assert_eq!(step_f32(0.0, &[(1.0, 1.0), (half, 1.0)]), 1.0 + lowest);
        assert_eq!(step_f32(0.0, &[(1.0, 1.0), (-half, 1.0)]), 1.0 - lowest);
        assert_eq!(step_f32(0.0, &[(1.0, 1.0), (half / 2.0, 1.0)]), 1.0);
    }

    #[test]
    fn the_two_groups_of_a_step_align_apart() {
        let mut pairs = [(0.0, 0.0); 9];
        pairs[0] = (1.0, 1.0);
        pairs[8] = (2.0f32.powi(-20), 1.0);
        assert_eq!(step_f32(0.0, &pairs), 1.0 + 2.0f32.powi(-20));
        pairs[7] = pairs[8];
        pairs[8] = (0.0, 0.0);
        assert_eq!(step_f32(0.0, &pairs), 1.0);
    }

    #[test]
    fn halves_of_a_sum_go_up_and_halves_of_the_destination_away_from_zero() {
        let half = 2.0f32.powi(-24);
        let lowest = 2.0f32.powi(-23);
        assert_eq!(step_f32(1.0, &[(half, 1.0)]), 1.0 + lowest);
        assert_eq!(step_f32(1.0, &[(-half, 1.0)]), 1.0);
        assert_eq!(step_f32(-1.0, &[(half, 1.0)]), -1.0 + lowest);
        assert_eq!(step_f32(half, &[(1.0, 1.0)]), 1.0 + lowest);
        assert_eq!(step_f32(-half, &[(1.0, 1.0)]), 1.0 - lowest);
    }

    #[test]
    fn a_zero_operand_raises_no_exponent() {
        let tiny = 2.0f32.powi(-60);
        assert_eq!(
            step_f32(0.0, &[(tiny, 1.0), (0.0, f32::MAX), (1e-40, f32::MAX)]),
            tiny
        );
    }

    #[test]
    fn a_phase_of_empty_parts_aligns_the_destination_still() {
        // 1 - 1 leaves nothing, but phase 1 of the same operands has exponent -5: what is more than 24
        // bits below that is rounded away.
        let (a, w) = first_products(&[(1.0, 1.0), (-1.0, 1.0)]);
        let low_weights = Fidelity::HiFi2.phases()[1];
        let after =
            |dest: f32| f32::from_bits(step(dest.to_bits(), &a, &w, low_weights, Accumulate::F32));
        assert_eq!(after(2.0f32.powi(-28)), 2.0f32.powi(-28));
        assert_eq!(after(2.0f32.powi(-30)), 0.0);
    }

    #[test]
    fn results_overflow_to_infinity_and_underflow_to_zero() {
        assert_eq!(step_f32(0.0, &[(f32::MAX, 2.0)]), f32::INFINITY);
        assert_eq!(step_f32(0.0, &[(f32::MAX, -2.0)]), f32::NEG_INFINITY);
        assert_eq!(step_f32(f32::INFINITY, &[(1.0, 1.0)]), f32::INFINITY);
        // Infinity is the number 2^128: it can be taken away again.
        assert_eq!(
            step_f32(f32::INFINITY, &[(-(2.0f32.powi(127)), 1.0)]),
            2.0f32.powi(127)
        );
        assert_eq!(
            step_f32(0.0, &[(f32::MIN_POSITIVE, 1.0)]).to_bits(),
            f32::MIN_POSITIVE.to_bits()
        );
        assert_eq!(step_f32(0.0, &[(-f32::MIN_POSITIVE, 0.5)]).to_bits(), 0);
        let (a, w) = (1.5 * f32::MIN_POSITIVE, f32::MIN_POSITIVE);
        assert_eq!(step_f32(a, &[(-w, 1.0)]).to_bits(), 0);
    }

    #[test]
    fn a_bf16_destination_drops_what_lies_below_bit_13_of_each_term() {
        let (a, w) = first_products(&[(2.0f32.powi(-11), 1.0)]);
        let add =
            |dest: f32| f32::from_bits(step(dest.to_bits(), &a, &w, PHASE_0, Accumulate::Bf16));
        // 2^-11 is half of the lowest kept bit: it enters as 2^-10, and bf16 then has no room for it.
        assert_eq!(add(1.0), 1.0);
        // Below 1 the result has 2^-8 as its lowest bit.
        let (a, w) = first_products(&[(-(2.0f32.powi(-9)), 1.0)]);
        let add =
            |dest: f32| f32::from_bits(step(dest.to_bits(), &a, &w, PHASE_0, Accumulate::Bf16));
        assert_eq!(add(1.0), 1.0);
        let (a, w) = first_products(&[(-(2.0f32.powi(-8)), 1.0)]);
        let add =
            |dest: f32| f32::from_bits(step(dest.to_bits(), &a, &w, PHASE_0, Accumulate::Bf16));
        assert_eq!(add(1.0), 1.0 - 2.0f32.powi(-8));
    }
}
