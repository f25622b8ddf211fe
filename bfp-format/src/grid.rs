//! How a tensor of any rank is cut into tiles.

use crate::{BlockFormat, FormatError, TileShape};

/// A tensor's trailing matrices, each padded to whole tiles.
///
/// Tiles of a matrix lie row-major; matrices follow in the order of the leading dimensions. A tensor of rank 0 or 1
/// is one row. Counts are checked: those of a grid fit `usize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileGrid {
    tile: TileShape,
    matrices: usize,
    rows: usize,
    columns: usize,
}

impl TileGrid {
    /// The grid of a tensor of logical `shape`.
    ///
    /// # Errors
    /// [`FormatError::ShapeOverflow`] when the padded elements, four bytes each, cannot be counted.
    pub fn new(shape: &[usize], tile: TileShape) -> Result<Self, FormatError> {
        let (leading, rows, columns) = match *shape {
            [] => (&[][..], 1, 1),
            [columns] => (&[][..], 1, columns),
            [ref leading @ .., rows, columns] => (leading, rows, columns),
        };
        let overflow = || FormatError::ShapeOverflow {
            shape: shape.to_vec(),
        };
        let matrices = leading
            .iter()
            .try_fold(1usize, |all, &n| all.checked_mul(n));
        // An empty dimension counts as one here, so that no product of some of the dimensions overflows either.
        // Four bytes an element also covers every packed format.
        leading
            .iter()
            .try_fold(size_of::<f32>(), |all, &n| all.checked_mul(n.max(1)))
            .and_then(|all| all.checked_mul(rows.max(1).checked_next_multiple_of(tile.rows())?))
            .and_then(|all| {
                all.checked_mul(columns.max(1).checked_next_multiple_of(tile.columns())?)
            })
            .ok_or_else(overflow)?;
        let matrices = matrices.ok_or_else(overflow)?;
        Ok(Self {
            tile,
            matrices,
            rows,
            columns,
        })
    }

    /// The shape of the tiles.
    #[must_use]
    pub const fn tile(&self) -> TileShape {
        self.tile
    }

    /// Matrices: the product of the leading dimensions.
    #[must_use]
    pub const fn matrices(&self) -> usize {
        self.matrices
    }

    /// Logical rows of each matrix.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Logical columns of each matrix.
    #[must_use]
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Logical elements of the tensor.
    #[must_use]
    pub const fn elements(&self) -> usize {
        self.matrices * self.rows * self.columns
    }

    /// Tiles down a matrix, the last one padded.
    #[must_use]
    pub const fn tile_rows(&self) -> usize {
        self.rows.div_ceil(self.tile.rows())
    }

    /// Tiles across a matrix, the last one padded.
    #[must_use]
    pub const fn tile_columns(&self) -> usize {
        self.columns.div_ceil(self.tile.columns())
    }

    /// Tiles of the whole tensor.
    #[must_use]
    pub const fn tiles(&self) -> usize {
        self.matrices * self.tile_rows() * self.tile_columns()
    }

    /// Elements of the tensor with its padding.
    #[must_use]
    pub const fn padded_elements(&self) -> usize {
        self.tiles() * self.tile.elements()
    }

    /// Bytes of the tensor packed in a block format.
    #[must_use]
    pub const fn packed_bytes(&self, format: BlockFormat) -> usize {
        self.tiles() * format.tile_bytes(self.tile)
    }
}
