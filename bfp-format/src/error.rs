//! What can be wrong with shapes, bytes and names.

use crate::TileShape;

/// Why numbers could not be packed, bytes not unpacked, or a name not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A tile shape that block formats are not stored in.
    #[error("tile shape {rows}x{columns} does not exist")]
    TileShape {
        /// Rows asked for.
        rows: usize,
        /// Columns asked for.
        columns: usize,
    },
    /// A shape whose elements or bytes cannot be counted in a `usize`.
    #[error("shape {shape:?} is too large to count")]
    ShapeOverflow {
        /// The shape given.
        shape: Vec<usize>,
    },
    /// As many values as the shape has elements are needed.
    #[error("shape {shape:?} has {expected} elements, found {found} values")]
    ValueCount {
        /// The shape given.
        shape: Vec<usize>,
        /// Elements of the shape (of its padded tiles, where tiled values are given).
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The packed bytes are not as many as the padded tiles of the shape need.
    #[error("shape {shape:?} in {tile} tiles takes {expected} bytes, found {found}")]
    PackedBytes {
        /// The shape given.
        shape: Vec<usize>,
        /// The tile shape.
        tile: TileShape,
        /// Bytes of the tiles asked for.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A range of tile rows that the matrix does not have.
    #[error("tile rows {start}..{end} of a matrix with {tile_rows}")]
    TileRows {
        /// First tile row asked for.
        start: usize,
        /// One past the last.
        end: usize,
        /// Tile rows there are.
        tile_rows: usize,
    },
    /// A name that is no block format.
    #[error("unknown block format {found:?}, expected bfp8_b, bfp4_b or bfp2_b")]
    UnknownBlockFormat {
        /// The name given.
        found: String,
    },
    /// A name that is no rounding rule.
    #[error("unknown rounding {found:?}, expected host-nearest-even or device-nearest-away")]
    UnknownRounding {
        /// The name given.
        found: String,
    },
    /// A file too short for its header, or a header longer than can be counted.
    #[error("header of {header} bytes in a file of {file}")]
    HeaderSize {
        /// Bytes of the header, as its first word says (8 when there is no such word).
        header: u64,
        /// Bytes of the file.
        file: usize,
    },
    /// A header field that refers outside the header.
    #[error("header field {field} lies outside the header's {size} bytes")]
    HeaderBounds {
        /// The field.
        field: &'static str,
        /// Bytes of the header.
        size: usize,
    },
    /// A header without a field that ttnn's loader needs.
    #[error("header field {field} is missing")]
    MissingField {
        /// The field.
        field: &'static str,
    },
    /// A header field with a code that is not known.
    #[error("header field {field} has the unknown code {found}")]
    UnknownCode {
        /// The field.
        field: &'static str,
        /// Its code.
        found: u16,
    },
    /// A header field that does not fit the others.
    #[error("header field {field}: expected {expected}, found {found}")]
    HeaderField {
        /// The field.
        field: &'static str,
        /// What the other fields ask for.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// A shard whose bytes are not those of the header's shape, type and layout.
    #[error("shard {shard}: the shape takes {expected} bytes, found {found}")]
    ShardBytes {
        /// Its number.
        shard: usize,
        /// Bytes of the shape.
        expected: u64,
        /// Bytes the shard has.
        found: u64,
    },
    /// A shard that reaches past the end of the data.
    #[error("shard {shard}: {size} bytes at {offset} of {data} bytes of data")]
    ShardRange {
        /// Its number.
        shard: usize,
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        size: u64,
        /// Bytes of data there are.
        data: u64,
    },
    /// Two shards that share some of their bytes, but are not replicas.
    #[error("shards {first} and {second} overlap")]
    ShardOverlap {
        /// The number of one.
        first: usize,
        /// The number of the other.
        second: usize,
    },
    /// A shard that the header does not have.
    #[error("shard {shard} of {shards}")]
    NoSuchShard {
        /// The number asked for.
        shard: usize,
        /// Shards there are.
        shards: usize,
    },
}
