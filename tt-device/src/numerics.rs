//! The numerics contracts: what is computed, to the bit.
//!
//! A contract fixes the value of every output bit for given package, tokens and settings, whatever
//! the instruction set, the thread count, the prefill chunk or the draft setting. Its definition
//! is [`crate::reference`]; `docs/numerics.md` is the prose.

use std::fmt;
use std::str::FromStr;

use half::bf16;

/// Which definition a backend computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Contract {
    /// `host/1`: activations rounded to bf16 at the input of each linear, KV rows stored as bf16.
    Host1,
    /// `host-f32/1`: the same order of operations, without the rounding of activations and with f32 KV
    /// rows; for comparison with float32 references.
    HostF32,
}

impl Contract {
    /// The identifier that proofs and `/props` carry.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Host1 => "host/1",
            Self::HostF32 => "host-f32/1",
        }
    }

    /// An activation as a linear sees it under this contract.
    #[must_use]
    pub fn activation(self, x: f32) -> f32 {
        match self {
            Self::Host1 => round_activation(x),
            Self::HostF32 => x,
        }
    }

    /// A key or value element as the KV rows keep it under this contract.
    #[must_use]
    pub fn kv(self, x: f32) -> f32 {
        match self {
            Self::Host1 => bf16::from_f32(x).to_f32(),
            Self::HostF32 => x,
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// A contract identifier that this build does not compute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown numerics contract {0:?}: expected \"host/1\" or \"host-f32/1\"")]
pub struct UnknownContract(pub String);

impl FromStr for Contract {
    type Err = UnknownContract;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "host/1" => Ok(Self::Host1),
            "host-f32/1" => Ok(Self::HostF32),
            other => Err(UnknownContract(other.to_owned())),
        }
    }
}

/// Magnitudes below 2^-40 become zero when an activation is rounded.
pub const ACTIVATION_MIN: f32 = f32::from_bits((127 - 40) << 23);
/// Magnitudes above 2^63 become 2^63 when an activation is rounded.
pub const ACTIVATION_MAX: f32 = f32::from_bits((127 + 63) << 23);
/// Exponent fields below this one (magnitudes under 2^-72) read as zero in the weights of a linear.
///
/// With [`ACTIVATION_MIN`] it makes every product and every partial sum a multiple of 2^-126 (the
/// lowest bit of an activation is worth 2^-47 or more, of a weight 2^-79 or more), so that no
/// denormal can arise and units that flush denormals (`vdpbf16ps`) agree with those that do not.
pub const WEIGHT_EXPONENT_MIN: u8 = 55;
/// Shared exponents above this one read as this one, so that `activation * 2^(E - 133)` is finite.
pub const WEIGHT_EXPONENT_MAX: u8 = 196;

/// An activation rounded as `host/1` says: to bf16, nearest even, then magnitudes under
/// [`ACTIVATION_MIN`] to zero and over [`ACTIVATION_MAX`] to that bound. NaN stays NaN.
#[must_use]
pub fn round_activation(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    let rounded = bf16::from_f32(x).to_f32();
    if rounded.abs() < ACTIVATION_MIN {
        0.0
    } else {
        rounded.clamp(-ACTIVATION_MAX, ACTIVATION_MAX)
    }
}

/// A shared exponent as the weights of a linear see it; `None` reads as a group of zeros.
#[must_use]
pub const fn weight_exponent(stored: u8) -> Option<u8> {
    if stored < WEIGHT_EXPONENT_MIN {
        None
    } else if stored > WEIGHT_EXPONENT_MAX {
        Some(WEIGHT_EXPONENT_MAX)
    } else {
        Some(stored)
    }
}

/// A bf16 weight as a linear sees it: magnitudes under 2^-72 are zero.
#[must_use]
pub fn bf16_weight(stored: bf16) -> f32 {
    if (stored.to_bits() >> 7) & 0xff < WEIGHT_EXPONENT_MIN.into() {
        0.0
    } else {
        stored.to_f32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_round_to_nearest_even_and_saturate() {
        assert_eq!(round_activation(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(round_activation(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(round_activation(1e-13), 0.0);
        assert_eq!(round_activation(ACTIVATION_MIN), ACTIVATION_MIN);
        assert_eq!(round_activation(f32::NEG_INFINITY), -ACTIVATION_MAX);
        assert!(round_activation(f32::NAN).is_nan());
    }

    #[test]
    fn contract_ids_are_read_back() {
        for contract in [Contract::Host1, Contract::HostF32] {
            assert_eq!(contract.id().parse(), Ok(contract));
        }
        assert_eq!(
            "host/2".parse::<Contract>(),
            Err(UnknownContract("host/2".into()))
        );
    }
}
