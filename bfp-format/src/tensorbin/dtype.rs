//! Element types and layouts of a file.

use std::fmt;

use crate::{BlockFormat, FormatError, TileGrid, TileShape};

/// The type of a tensor's elements, by ttnn's names and codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DataType {
    /// bfloat16.
    BFloat16,
    /// IEEE binary32.
    Float32,
    /// Unsigned, 32 bits.
    UInt32,
    /// Block float, 8 bits an element; tiles only.
    BFloat8B,
    /// Block float, 4 bits an element; tiles only.
    BFloat4B,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 8 bits; ttnn since 0.81.
    Int8,
}

impl DataType {
    /// All types, in the order of their codes.
    pub const ALL: [Self; 9] = [
        Self::BFloat16,
        Self::Float32,
        Self::UInt32,
        Self::BFloat8B,
        Self::BFloat4B,
        Self::UInt8,
        Self::UInt16,
        Self::Int32,
        Self::Int8,
    ];

    /// The code that a file holds.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// ttnn's name in lower case, `bfloat8_b` for example.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::UInt32 => "uint32",
            Self::BFloat8B => "bfloat8_b",
            Self::BFloat4B => "bfloat4_b",
            Self::UInt8 => "uint8",
            Self::UInt16 => "uint16",
            Self::Int32 => "int32",
            Self::Int8 => "int8",
        }
    }

    /// The block format, of the types that are one.
    #[must_use]
    pub const fn block_format(self) -> Option<BlockFormat> {
        match self {
            Self::BFloat8B => Some(BlockFormat::Bfp8),
            Self::BFloat4B => Some(BlockFormat::Bfp4),
            _ => None,
        }
    }

    /// Bytes of one element, of the types whose elements stand alone.
    #[must_use]
    pub const fn element_bytes(self) -> Option<usize> {
        match self {
            Self::BFloat8B | Self::BFloat4B => None,
            Self::UInt8 | Self::Int8 => Some(1),
            Self::BFloat16 | Self::UInt16 => Some(2),
            Self::Float32 | Self::UInt32 | Self::Int32 => Some(4),
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The order of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row after row, without padding. Not for block formats.
    RowMajor,
    /// Tile after tile, padded.
    Tile {
        /// The shape of a tile.
        shape: TileShape,
        /// Whether each tile is stored transposed. No file with it was seen; its values are not read.
        transposed: bool,
    },
}

impl Layout {
    /// Tiles of 32 x 32, as nearly every file has.
    pub const TILE: Self = Self::Tile {
        shape: TileShape::T32,
        transposed: false,
    };

    /// The bytes of a tensor of logical `shape` with elements of `dtype` in this layout.
    ///
    /// # Errors
    /// [`FormatError::ShapeOverflow`], or [`FormatError::HeaderField`] for a block format row-major.
    pub fn data_bytes(self, dtype: DataType, shape: &[usize]) -> Result<usize, FormatError> {
        let overflow = || FormatError::ShapeOverflow {
            shape: shape.to_vec(),
        };
        match (self, dtype.element_bytes(), dtype.block_format()) {
            (Self::Tile { shape: tile, .. }, _, Some(format)) => {
                Ok(TileGrid::new(shape, tile)?.packed_bytes(format))
            }
            (Self::Tile { shape: tile, .. }, Some(element), _) => TileGrid::new(shape, tile)?
                .padded_elements()
                .checked_mul(element)
                .ok_or_else(overflow),
            (Self::RowMajor, Some(element), _) => {
                // The grid's count of a 1 x 32 tile guards every product that this layout needs.
                TileGrid::new(shape, TileShape::T32)?
                    .elements()
                    .checked_mul(element)
                    .ok_or_else(overflow)
            }
            (Self::RowMajor, None, _) | (Self::Tile { .. }, None, None) => {
                Err(FormatError::HeaderField {
                    field: "spec.layout.page",
                    expected: format!("tiles, for {dtype}"),
                    found: "row-major".to_owned(),
                })
            }
        }
    }
}
