//! What a kernel's author chooses: fidelity and accumulator.

use std::fmt;
use std::str::FromStr;

/// How many phases a multiply runs; each reads other bits of the operands.
///
/// | | phases | weight bits | activation bits |
/// |---|---|---|---|
/// | LoFi | 0 | top 5 | top 7 |
/// | HiFi2 | 0 1 | all 8 | top 7 |
/// | HiFi3 | 0 1 2 | all 8, top 5 against the last activation bit | all 8 |
/// | HiFi4 | 0 1 2 3 | all 8 | all 8 |
///
/// Bits count the leading one. BFP4 weights have 3, BFP8 have 7, bf16 has 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fidelity {
    /// Phase 0.
    LoFi,
    /// Phases 0 and 1.
    HiFi2,
    /// Phases 0, 1 and 2.
    HiFi3,
    /// All four.
    HiFi4,
}

impl Fidelity {
    /// Every fidelity, the cheapest first.
    pub const ALL: [Self; 4] = [Self::LoFi, Self::HiFi2, Self::HiFi3, Self::HiFi4];

    /// The phases, in the order they run.
    #[must_use]
    pub const fn phases(self) -> &'static [Phase] {
        match self {
            Self::LoFi => Phase::ALL.split_at(1).0,
            Self::HiFi2 => Phase::ALL.split_at(2).0,
            Self::HiFi3 => Phase::ALL.split_at(3).0,
            Self::HiFi4 => &Phase::ALL,
        }
    }

    /// The name that settings and proofs carry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LoFi => "lofi",
            Self::HiFi2 => "hifi2",
            Self::HiFi3 => "hifi3",
            Self::HiFi4 => "hifi4",
        }
    }
}

/// One pass of the multiplier, which is 5 bits (weights) by 7 bits (activations) wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase(u8);

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self(0), Self(1), Self(2), Self(3)];

    /// Whether the low part of the weights is read: bit 0 of the phase.
    #[must_use]
    pub const fn low_weight(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the low part of the activations is read: bit 1 of the phase.
    #[must_use]
    pub const fn low_activation(self) -> bool {
        self.0 & 2 != 0
    }

    /// What the products of this phase are worth less, as a power of two.
    #[must_use]
    pub const fn exponent_drop(self) -> u8 {
        (if self.low_weight() { 5 } else { 0 }) + (if self.low_activation() { 7 } else { 0 })
    }
}

/// The type of the destination register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Accumulate {
    /// f32: `fp32_dest_acc_en`.
    F32,
    /// bf16: each term is rounded at bit 13 of its 24 before it is added.
    Bf16,
}

impl Accumulate {
    /// Both accumulators.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// The name that settings and proofs carry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// A name that is none of a setting's values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {setting} {found:?}: expected one of {expected}")]
pub struct UnknownSetting {
    /// Which setting.
    pub setting: &'static str,
    /// What was written.
    pub found: String,
    /// What could have been, separated by commas.
    pub expected: &'static str,
}

/// Display and `FromStr` by `name()`, over the values in `ALL`.
macro_rules! named {
    ($type:ty, $setting:literal, $expected:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownSetting;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .into_iter()
                    .find(|value| value.name() == text)
                    .ok_or_else(|| UnknownSetting {
                        setting: $setting,
                        found: text.to_owned(),
                        expected: $expected,
                    })
            }
        }
    };
}

named!(Fidelity, "fidelity", "lofi, hifi2, hifi3, hifi4");
named!(Accumulate, "accumulator", "f32, bf16");
named!(super::ActivationFormat, "activation format", "bf16, bfp8");
named!(super::ResultFormat, "result format", "bf16, f32");

#[cfg(test)]
mod tests {
    use super::super::{ActivationFormat, ResultFormat};
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        for fidelity in Fidelity::ALL {
            assert_eq!(fidelity.to_string().parse(), Ok(fidelity));
        }
        for accumulate in Accumulate::ALL {
            assert_eq!(accumulate.to_string().parse(), Ok(accumulate));
        }
        for format in ActivationFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        for format in ResultFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "hifi5".parse::<Fidelity>().unwrap_err();
        assert_eq!((error.setting, error.found.as_str()), ("fidelity", "hifi5"));
        assert_eq!(
            error.to_string(),
            "unknown fidelity \"hifi5\": expected one of lofi, hifi2, hifi3, hifi4"
        );
    }

    #[test]
    fn each_fidelity_adds_one_phase() {
        let drops = Fidelity::HiFi4
            .phases()
            .iter()
            .map(|phase| phase.exponent_drop());
        assert_eq!(drops.collect::<Vec<_>>(), [0, 5, 7, 12]);
        for (fidelity, phases) in Fidelity::ALL.into_iter().zip(1..) {
            assert_eq!(fidelity.phases().len(), phases);
        }
    }
}
