//! The unit's arithmetic on lanes of outputs; one file an instruction set.
//!
//! Departures from [`super::definition`], none of which changes a bit:
//!
//! - The exponents of a group's products differ between phases by a constant only, so the largest one and
//!   the distances from it are found once for all phases.
//! - A zero operand has a mantissa of 0 and an exponent so low that its product never is the largest beside a real
//!   one; a group whose largest exponent is 0 or below is cleared as a whole.
//! - Signs are 1 and -1: `1 ^ -2` is -1 and `-1 ^ -2` is 1, so an activation's sign is an exclusive or with 0 or -2.
//! - Weights' parts are stored doubled, so that `(2p >> d, plus 1) >> 1` rounds `p >> d` half up without a
//!   special case for d = 0.

mod dispatch;
mod parts;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use dispatch::Kernel;
pub(super) use parts::{Tile, WeightParts};

use crate::weight::TILE;

/// The exponent of a zero operand; the sum of two, or of one and any other, stays far below 0, and in 16 bits.
const ZERO_EXPONENT: i16 = -1000;

/// 32 of k of one activation row. Each 32-bit word holds the same 16 bits twice, so that a
/// broadcast is a plain load.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct ActivationRow {
    /// The exponent field less 127.
    exponent: [u32; TILE],
    /// The mantissa's top 7 bits.
    high: [u32; TILE],
    /// What a low phase reads: 0 or 64.
    low: [u32; TILE],
    /// What turns the sign of a weight, 1 or -1, into that of the product: -2 when negative.
    turn: [u32; TILE],
}

impl ActivationRow {
    pub(super) const ZERO: Self = Self {
        exponent: [twice(ZERO_EXPONENT.cast_unsigned()); TILE],
        high: [0; TILE],
        low: [0; TILE],
        turn: [0; TILE],
    };

    /// Element `at` from bf16 bits. Elements start as zero.
    pub(super) fn set(&mut self, at: usize, half: u16) {
        let field = (half >> 7) & 0xff;
        if field == 0 {
            return;
        }
        self.exponent[at] = twice(field.wrapping_sub(127));
        self.high[at] = twice(0x40 | (half & 0x7f) >> 1);
        self.low[at] = twice((half & 1) << 6);
        self.turn[at] = twice((half.cast_signed() >> 15).cast_unsigned() << 1);
    }
}

const fn twice(half: u16) -> u32 {
    (half as u32) << 16 | half as u32
}

/// One row's destinations for 32 outputs, f32 bits.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Destination {
    pub(super) bits: [u32; TILE],
}

impl Destination {
    pub(super) const ZERO: Self = Self { bits: [0; TILE] };
}
