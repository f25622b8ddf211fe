//! A matrix as a package stores it, borrowed from the bytes of a file.

use bfp_format::BlockFormat;
use bytes::Bytes;

use crate::DeviceError;

/// Rows and columns of a 32x32 tile.
pub const TILE: usize = 32;
/// Rows and columns of a face; a tile is four of them: top left, top right, bottom left, bottom right.
pub const FACE: usize = 16;

/// The logical shape of a weight: `y[outputs] = x[inputs] W`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixShape {
    /// Length of an activation row, k.
    pub inputs: usize,
    /// Length of a result row, n.
    pub outputs: usize,
}

impl MatrixShape {
    /// Tiles down the inputs, the last one padded.
    #[must_use]
    pub const fn tile_rows(self) -> usize {
        self.inputs.div_ceil(TILE)
    }

    /// Tiles across the outputs, the last one padded.
    #[must_use]
    pub const fn tile_columns(self) -> usize {
        self.outputs.div_ceil(TILE)
    }
}

/// How the elements of a weight are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightFormat {
    /// Block floating point: groups of 16 consecutive outputs of one input share an exponent.
    Block(BlockFormat),
    /// bfloat16, little endian.
    Bf16,
    /// IEEE binary32, little endian.
    F32,
}

impl WeightFormat {
    /// Bytes of one 32x32 tile.
    #[must_use]
    pub const fn tile_bytes(self) -> usize {
        match self {
            Self::Block(BlockFormat::Bfp8) => 1088,
            Self::Block(BlockFormat::Bfp4) => 576,
            Self::Block(BlockFormat::Bfp2) => 320,
            Self::Bf16 => 2048,
            Self::F32 => 4096,
        }
    }
}

/// Where the elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightLayout {
    /// `[inputs, outputs]` in 32x32 tiles, tiles row-major, as ttnn stores a linear's weight.
    Tiles,
    /// `[rows, width]` row after row, unpadded: an embedding table. Not for block formats.
    Rows,
}

/// A weight in the bytes of a file (or of memory), not yet on a device.
#[derive(Clone, Debug)]
pub struct WeightView {
    shape: MatrixShape,
    format: WeightFormat,
    layout: WeightLayout,
    bytes: Bytes,
}

impl WeightView {
    /// A linear's weight `[inputs, outputs]` in 32x32 tiles. `bytes` is kept, not copied.
    ///
    /// # Errors
    /// [`DeviceError::WeightBytes`] when the byte count is not that of the padded tiles.
    pub fn tiles(
        shape: MatrixShape,
        format: WeightFormat,
        bytes: Bytes,
    ) -> Result<Self, DeviceError> {
        let expected = shape
            .tile_rows()
            .checked_mul(shape.tile_columns())
            .and_then(|tiles| tiles.checked_mul(format.tile_bytes()));
        Self::checked(shape, format, WeightLayout::Tiles, bytes, expected)
    }

    /// An embedding table of `rows` vectors of `width` elements, row after row.
    ///
    /// # Errors
    /// [`DeviceError::WeightBytes`] when the byte count is not `rows * width` elements, or the
    /// format is a block format (which has no row layout).
    pub fn rows(
        rows: usize,
        width: usize,
        format: WeightFormat,
        bytes: Bytes,
    ) -> Result<Self, DeviceError> {
        let element = match format {
            WeightFormat::Block(_) => None,
            WeightFormat::Bf16 => Some(2usize),
            WeightFormat::F32 => Some(4),
        };
        let expected = element.and_then(|e| rows.checked_mul(width)?.checked_mul(e));
        let shape = MatrixShape {
            inputs: rows,
            outputs: width,
        };
        Self::checked(shape, format, WeightLayout::Rows, bytes, expected)
    }

    fn checked(
        shape: MatrixShape,
        format: WeightFormat,
        layout: WeightLayout,
        bytes: Bytes,
        expected: Option<usize>,
    ) -> Result<Self, DeviceError> {
        if expected != Some(bytes.len()) || shape.inputs == 0 || shape.outputs == 0 {
            return Err(DeviceError::WeightBytes {
                shape,
                format,
                expected,
                found: bytes.len(),
            });
        }
        Ok(Self {
            shape,
            format,
            layout,
            bytes,
        })
    }

    /// The logical shape; of an embedding table, `inputs` is its rows and `outputs` its width.
    #[must_use]
    pub const fn shape(&self) -> MatrixShape {
        self.shape
    }

    /// How elements are stored.
    #[must_use]
    pub const fn format(&self) -> WeightFormat {
        self.format
    }

    /// Where they lie.
    #[must_use]
    pub const fn layout(&self) -> WeightLayout {
        self.layout
    }

    /// The stored bytes, as given.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}
