//! What packed bytes are made of.

use crate::{BlockFormat, Rounding, TileShape};

/// What bytes to make: the format, the tiles, the rounding rule, and what padding holds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Packing {
    /// The block format of the codes.
    pub format: BlockFormat,
    /// Rows and columns of a tile.
    pub tile: TileShape,
    /// The rounding rule, to be named beside the bytes.
    pub rounding: Rounding,
    /// What padded elements hold. Other than 0, it can raise the exponent of edge groups and cost their elements bits.
    pub pad_value: f32,
}

impl Packing {
    /// 32 x 32 tiles padded with 0, by ttnn's host rule.
    #[must_use]
    pub const fn new(format: BlockFormat) -> Self {
        Self {
            format,
            tile: TileShape::T32,
            rounding: Rounding::HostNearestEven,
            pad_value: 0.0,
        }
    }

    /// The same in other tiles.
    #[must_use]
    pub const fn tile(self, tile: TileShape) -> Self {
        Self { tile, ..self }
    }

    /// The same by another rounding rule.
    #[must_use]
    pub const fn rounding(self, rounding: Rounding) -> Self {
        Self { rounding, ..self }
    }

    /// The same with other padding.
    #[must_use]
    pub const fn pad_value(self, pad_value: f32) -> Self {
        Self { pad_value, ..self }
    }
}

impl From<BlockFormat> for Packing {
    fn from(format: BlockFormat) -> Self {
        Self::new(format)
    }
}
