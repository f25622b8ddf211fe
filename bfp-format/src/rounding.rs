//! The two rounding rules that make block float bytes, by name.

use std::fmt;
use std::str::FromStr;

use crate::FormatError;

/// Which rule turned numbers into codes. The bytes of the two differ, so whoever writes bytes names it.
///
/// Decoding is the same for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rounding {
    /// ttnn's rule on the host, since early 2025: one rounding to nearest, ties to even, after the bits that
    /// alignment shifts out have been dropped. Measured against ttnn 0.65 to 0.81.
    #[default]
    HostNearestEven,
    /// The packer of a Tensix core, without stochastic rounding: truncate to bf16, round to BFP8 to nearest with
    /// ties away from zero, and for BFP4 and BFP2 truncate that. From the documentation
    /// (tenstorrent/tt-isa-documentation `WormholeB0/TensixTile/TensixCoprocessor/Packers/FormatConversion.md`,
    /// "Late format conversion"), not measured on a card.
    DeviceNearestAway,
}

impl Rounding {
    /// Both rules.
    pub const ALL: [Self; 2] = [Self::HostNearestEven, Self::DeviceNearestAway];

    /// The name for manifests and proofs: `host-nearest-even` or `device-nearest-away`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HostNearestEven => "host-nearest-even",
            Self::DeviceNearestAway => "device-nearest-away",
        }
    }
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Rounding {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|rounding| rounding.as_str() == name)
            .ok_or_else(|| FormatError::UnknownRounding {
                found: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for rounding in Rounding::ALL {
            assert_eq!(rounding.as_str().parse::<Rounding>().unwrap(), rounding);
        }
        let error = "nearest".parse::<Rounding>().unwrap_err();
        assert!(matches!(error, FormatError::UnknownRounding { found } if found == "nearest"));
    }
}
