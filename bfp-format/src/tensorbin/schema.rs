//! The codes of the schema's unions, shared by reader and writer.

/// A page is a row of elements.
pub(super) const ROW_MAJOR_PAGE: u8 = 1;
/// A page is a tile.
pub(super) const TILE_PAGE: u8 = 2;
/// A shard's bytes lie in the same file.
pub(super) const INLINE_STORAGE: u8 = 1;
