//! The kernel for every machine: plain loops over lanes.
//!
//! ```text
//! for each row:
//!   for each group of 8 k:
//!     e[j] = exponent(a[j]) + exponent(w[j]);  top = max e;  d[j] = top - e[j]
//!     for each phase: sum = sum over j of sign * half_up(a[j] * w[j], d[j])
//!   for each phase, each half: destination = normalise(destination + both groups)
//! ```

use super::{ActivationRow, Destination, WeightParts};
use crate::tensix::Phase;
use crate::tensix::definition::{GROUP, STEP};
use crate::weight::TILE;

/// Outputs that are worked on at once.
const LANES: usize = 16;

type Lanes = [i32; LANES];

/// Adds one block of 32 k to all `destinations`, a row each.
pub(super) fn accumulate<const PHASES: usize, const F32: bool>(
    parts: &WeightParts,
    rows: &[ActivationRow],
    destinations: &mut [Destination],
) {
    for (row, destination) in rows.iter().zip(destinations) {
        for (at, bits) in destination
            .bits
            .as_chunks_mut::<LANES>()
            .0
            .iter_mut()
            .enumerate()
        {
            lanes::<PHASES, F32>(parts, at * LANES, row, bits);
        }
    }
}

#[inline(always)]
fn lanes<const PHASES: usize, const F32: bool>(
    parts: &WeightParts,
    first: usize,
    row: &ActivationRow,
    bits: &mut [u32; LANES],
) {
    let mut tops = [[0; LANES]; TILE / GROUP];
    let mut sums = [[[0; LANES]; PHASES]; TILE / GROUP];
    for (group, sums) in sums.iter_mut().enumerate() {
        tops[group] = products(parts, first, row, group * GROUP, sums);
    }
    for (phase, of) in Phase::ALL.iter().enumerate().take(PHASES) {
        let drop = i32::from(of.exponent_drop());
        for half in 0..TILE / STEP {
            for lane in 0..LANES {
                let top = |group: usize| (tops[2 * half + group][lane] - drop).max(0);
                let sum = |group: usize| {
                    let sum = sums[2 * half + group][phase][lane];
                    if top(group) == 0 { 0 } else { sum }
                };
                bits[lane] = add::<F32>(bits[lane], [top(0), top(1)], [sum(0), sum(1)]);
            }
        }
    }
}

/// The sums of eight products at `k`, a phase each; returns the largest exponent.
#[inline(always)]
fn products<const PHASES: usize>(
    parts: &WeightParts,
    first: usize,
    row: &ActivationRow,
    k: usize,
    sums: &mut [Lanes; PHASES],
) -> Lanes {
    let mut exponents = [[0; LANES]; GROUP];
    let mut top = [i32::MIN; LANES];
    for (j, exponents) in exponents.iter_mut().enumerate() {
        let exponent = low_half(row.exponent[k + j]);
        let weights = parts.exponents(k + j);
        for lane in 0..LANES {
            exponents[lane] = i32::from(weights[first + lane]) + exponent;
            top[lane] = top[lane].max(exponents[lane]);
        }
    }
    for (j, exponents) in exponents.iter().enumerate() {
        let turn = low_half(row.turn[k + j]);
        let activation = [low_half(row.high[k + j]), low_half(row.low[k + j])];
        for lane in 0..LANES {
            let distance = (top[lane] - exponents[lane]).min(31);
            let sign = i32::from(parts.signs(k + j)[first + lane]) ^ turn;
            for (phase, sums) in sums.iter_mut().enumerate() {
                let weight = i32::from(parts.mantissas(phase, k + j)[first + lane]);
                let rounded = (((weight * activation[phase / 2]) >> distance) + 1) >> 1;
                sums[lane] += rounded * sign;
            }
        }
    }
    top
}

/// `definition::add` on one lane, without a branch. `tops` are not negative; a sum of exponent 0 is 0.
#[inline(always)]
fn add<const F32: bool>(dest: u32, tops: [i32; 2], sums: [i32; 2]) -> u32 {
    let dest_exponent = ((dest >> 23) & 0xff).cast_signed();
    let dest_magnitude = if dest_exponent == 0 {
        0
    } else {
        (dest & 0x7f_ffff | 0x80_0000).cast_signed()
    };
    let exponent = dest_exponent.max(tops[0]).max(tops[1]);
    let narrow = |term: i32| if F32 { term } else { (term + 0x1000) & !0x1fff };
    // 14 places: the 13 that scale a sum, and the doubling that rounding half up wants.
    let aligned =
        |group: usize| narrow((((sums[group] << 14) >> (exponent - tops[group]).min(31)) + 1) >> 1);
    let magnitude =
        narrow((((dest_magnitude << 1) >> (exponent - dest_exponent).min(31)) + 1) >> 1);
    let sign = dest.cast_signed() >> 31;
    let total = (magnitude ^ sign) - sign + aligned(0) + aligned(1);

    let magnitude = total.unsigned_abs();
    let leading = magnitude.leading_zeros().cast_signed();
    let (right, dropped) = if F32 {
        (8 - leading, 0)
    } else {
        (24 - leading, 16)
    };
    // Only one of the two shifts is in range; both are the identity for 0.
    let shifted_left = magnitude << right.min(0).wrapping_neg().min(31);
    let rounded = (((magnitude << 1) >> right.clamp(0, 31)) + 1) >> 1;
    let significand = (if right < 0 { shifted_left } else { rounded }) << dropped;
    // The significand's leading bit (or its carry) adds one to the exponent field: start one lower.
    let below = exponent + 7 - leading;
    let finite = (below.cast_unsigned() << 23).wrapping_add(significand);
    let carried = below + (significand >> 24).cast_signed();
    let value = if carried >= 254 { 0x7f80_0000 } else { finite };
    let nothing = magnitude == 0 || carried < 0;
    if nothing {
        0
    } else {
        value | total.cast_unsigned() & 0x8000_0000
    }
}

/// One of the two equal halves of an [`ActivationRow`] word.
#[inline(always)]
fn low_half(word: u32) -> i32 {
    word.cast_signed() << 16 >> 16
}
