//! The three block formats and their sizes.

use std::fmt;
use std::str::FromStr;

use crate::{FormatError, TileShape};

/// Elements that share one exponent byte: 16 neighbours of one face row.
pub const GROUP: usize = 16;

/// A block floating point format with an 8-bit shared exponent (Tenstorrent's `_b` family).
///
/// An element is a sign bit above [`magnitude_bits`](Self::magnitude_bits) of magnitude `q`, without a hidden
/// bit; its value is `(-1)^s * q * 2^(E - 127 - (magnitude_bits - 1))`, where `E` is the byte of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockFormat {
    /// 8 bits an element: sign and 7 bits of magnitude.
    Bfp8,
    /// 4 bits an element: sign and 3 bits of magnitude.
    Bfp4,
    /// 2 bits an element: sign and 1 bit of magnitude.
    Bfp2,
}

impl BlockFormat {
    /// All formats, widest first.
    pub const ALL: [Self; 3] = [Self::Bfp8, Self::Bfp4, Self::Bfp2];

    /// Bits of magnitude in a code: 7, 3 or 1.
    #[must_use]
    pub const fn magnitude_bits(self) -> u32 {
        match self {
            Self::Bfp8 => 7,
            Self::Bfp4 => 3,
            Self::Bfp2 => 1,
        }
    }

    /// Bits of a code, sign included: 8, 4 or 2.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.magnitude_bits() + 1
    }

    /// The largest magnitude: 127, 7 or 1.
    #[must_use]
    pub const fn max_magnitude(self) -> u8 {
        u8::MAX >> (8 - self.magnitude_bits())
    }

    /// Bytes of the codes of one group of [`GROUP`] elements: 16, 8 or 4.
    #[must_use]
    pub const fn group_code_bytes(self) -> usize {
        match self {
            Self::Bfp8 => 16,
            Self::Bfp4 => 8,
            Self::Bfp2 => 4,
        }
    }

    /// Bytes of a packed tile: its exponent section and its codes.
    #[must_use]
    pub const fn tile_bytes(self, tile: TileShape) -> usize {
        tile.exponent_bytes() + tile.groups() * self.group_code_bytes()
    }

    /// Bits an element of a whole tile costs, its share of the exponents included (8.5 for BFP8).
    #[must_use]
    pub fn bits_per_element(self) -> f64 {
        f64::from(self.bits()) + 0.5
    }

    /// The name that files and manifests carry: `bfp8_b`, `bfp4_b` or `bfp2_b`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfp8 => "bfp8_b",
            Self::Bfp4 => "bfp4_b",
            Self::Bfp2 => "bfp2_b",
        }
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BlockFormat {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| FormatError::UnknownBlockFormat {
                found: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_32x32_tile_has_the_published_sizes() {
        let sizes = BlockFormat::ALL.map(|format| format.tile_bytes(TileShape::T32));
        assert_eq!(sizes, [1088, 576, 320]);
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for format in BlockFormat::ALL {
            assert_eq!(format.name().parse::<BlockFormat>().unwrap(), format);
        }
        let error = "bfp8".parse::<BlockFormat>().unwrap_err();
        assert!(matches!(error, FormatError::UnknownBlockFormat { found } if found == "bfp8"));
    }
}
