//! Tiles and the faces they are made of.

use std::fmt;

use crate::{FormatError, GROUP};

/// Rows and columns of a tile; only the shapes that block formats are stored in can be made.
///
/// A tile is cut into faces of `min(16, rows)` x 16: the left one before the right one, the upper pair before the
/// lower. Faces lie one after another, each row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileShape {
    rows: u8,
    columns: u8,
}

impl TileShape {
    /// 32 x 32, the shape of nearly every file.
    pub const T32: Self = Self {
        rows: 32,
        columns: 32,
    };

    /// Every shape there is.
    pub const ALL: [Self; 8] = [
        Self::T32,
        Self {
            rows: 16,
            columns: 32,
        },
        Self {
            rows: 8,
            columns: 32,
        },
        Self {
            rows: 4,
            columns: 32,
        },
        Self {
            rows: 2,
            columns: 32,
        },
        Self {
            rows: 1,
            columns: 32,
        },
        Self {
            rows: 32,
            columns: 16,
        },
        Self {
            rows: 16,
            columns: 16,
        },
    ];

    /// The shape of `rows` x `columns`.
    ///
    /// # Errors
    /// [`FormatError::TileShape`] when tiles of that shape do not exist.
    pub fn new(rows: usize, columns: usize) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|tile| tile.rows() == rows && tile.columns() == columns)
            .ok_or(FormatError::TileShape { rows, columns })
    }

    /// Rows of the tile.
    #[must_use]
    pub const fn rows(self) -> usize {
        self.rows as usize
    }

    /// Columns of the tile, 16 or 32.
    #[must_use]
    pub const fn columns(self) -> usize {
        self.columns as usize
    }

    /// Rows and columns as a file's header holds them.
    pub(crate) fn dimensions(self) -> [u32; 2] {
        [self.rows.into(), self.columns.into()]
    }

    /// Elements of the tile.
    #[must_use]
    pub const fn elements(self) -> usize {
        self.rows() * self.columns()
    }

    /// Rows of one face: 16, or the tile's where it has fewer.
    #[must_use]
    pub const fn face_rows(self) -> usize {
        if self.rows < 16 {
            self.rows as usize
        } else {
            16
        }
    }

    /// Faces of the tile: 1, 2 or 4.
    #[must_use]
    pub const fn faces(self) -> usize {
        self.groups() / self.face_rows()
    }

    /// Groups of 16 that share an exponent.
    #[must_use]
    pub const fn groups(self) -> usize {
        self.elements() / GROUP
    }

    /// Bytes of the exponent section: one a group, zero-padded to at least 16.
    #[must_use]
    pub const fn exponent_bytes(self) -> usize {
        if self.groups() < 16 {
            16
        } else {
            self.groups()
        }
    }

    /// Row and column of the first element of a face.
    #[must_use]
    pub(crate) const fn face_origin(self, face: usize) -> (usize, usize) {
        let across = self.columns() / GROUP;
        (face / across * self.face_rows(), face % across * GROUP)
    }
}

impl Default for TileShape {
    fn default() -> Self {
        Self::T32
    }
}

impl fmt::Display for TileShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_outside_the_list_are_refused() {
        for (rows, columns) in [(0, 32), (3, 32), (64, 32), (8, 16), (32, 8), (288, 32)] {
            let error = TileShape::new(rows, columns).unwrap_err();
            assert!(
                matches!(error, FormatError::TileShape { rows: r, columns: c } if (r, c) == (rows, columns))
            );
        }
    }

    #[test]
    fn faces_tile_the_tile() {
        for tile in TileShape::ALL {
            assert_eq!(tile.faces() * tile.face_rows() * GROUP, tile.elements());
            let origins: Vec<_> = (0..tile.faces())
                .map(|face| tile.face_origin(face))
                .collect();
            assert!(origins.is_sorted());
            let (row, column) = origins[tile.faces() - 1];
            assert_eq!(
                (row + tile.face_rows(), column + GROUP),
                (tile.rows(), tile.columns())
            );
        }
    }

    #[test]
    fn small_tiles_pad_their_exponent_section() {
        let bytes = TileShape::ALL.map(TileShape::exponent_bytes);
        assert_eq!(bytes, [64, 32, 16, 16, 16, 16, 32, 16]);
    }
}
