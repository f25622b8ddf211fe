//! A whole file, read.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::FormatError;
use crate::tensorbin::{Header, Shard};

/// A `.tensorbin` file over bytes of any kind: a slice, a `Vec`, a memory map, [`Bytes`]. Nothing is copied.
///
/// Every shard lies inside the bytes and is as long as the header's shape, type and layout say.
#[derive(Clone)]
pub struct TensorFile<D> {
    header: Header,
    data: Range<usize>,
    bytes: D,
}

impl<D: AsRef<[u8]>> TensorFile<D> {
    /// Reads the header and checks it against the bytes.
    ///
    /// # Errors
    /// [`FormatError::HeaderSize`], [`FormatError::HeaderBounds`], [`FormatError::MissingField`],
    /// [`FormatError::UnknownCode`], [`FormatError::HeaderField`], [`FormatError::TileShape`] or
    /// [`FormatError::ShapeOverflow`] for what the header holds; [`FormatError::ShardBytes`],
    /// [`FormatError::ShardRange`] or [`FormatError::ShardOverlap`] for data that is not as it says.
    pub fn parse(bytes: D) -> Result<Self, FormatError> {
        let file = bytes.as_ref();
        let (header, start) = Header::parse(file)?;
        let data = (file.len() - start) as u64;
        let outside = |shard: &Shard| {
            shard
                .offset
                .checked_add(shard.size)
                .is_none_or(|end| end > data)
        };
        if let Some((shard, found)) = header
            .shards
            .iter()
            .enumerate()
            .find(|(_, shard)| outside(shard))
        {
            return Err(FormatError::ShardRange {
                shard,
                offset: found.offset,
                size: found.size,
                data,
            });
        }
        // No more than the file's length, now that every shard lies inside.
        let length = usize::try_from(header.data_bytes()).unwrap_or(file.len() - start);
        Ok(Self {
            header,
            data: start..start + length,
            bytes,
        })
    }

    /// What the file says about its data.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The byte of the file that the data region starts at.
    #[must_use]
    pub const fn data_start(&self) -> usize {
        self.data.start
    }

    /// Bytes after the last shard. ttnn ignores them, and so does this reader.
    #[must_use]
    pub fn trailing_bytes(&self) -> usize {
        self.bytes.as_ref().len().saturating_sub(self.data.end)
    }

    /// Where a shard lies in the file.
    ///
    /// # Errors
    /// [`FormatError::NoSuchShard`].
    pub fn shard_range(&self, shard: usize) -> Result<Range<usize>, FormatError> {
        let shards = self.header.shards.len();
        let place = self
            .header
            .shards
            .get(shard)
            .ok_or(FormatError::NoSuchShard { shard, shards })?;
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let start = self.data.start + count(place.offset);
        Ok(start..start + count(place.size))
    }

    /// The stored bytes of a shard.
    ///
    /// # Errors
    /// [`FormatError::NoSuchShard`].
    pub fn shard_bytes(&self, shard: usize) -> Result<&[u8], FormatError> {
        Ok(&self.bytes.as_ref()[self.shard_range(shard)?])
    }

    /// The values of a shard, row-major, of the header's shape; integers to the nearest f32.
    ///
    /// # Errors
    /// [`FormatError::NoSuchShard`], or [`FormatError::HeaderField`] for transposed tiles.
    pub fn shard_values(&self, shard: usize) -> Result<Vec<f32>, FormatError> {
        self.header.decode(self.shard_bytes(shard)?)
    }

    /// The bytes that the file was read from.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.bytes
    }
}

impl<D> fmt::Debug for TensorFile<D> {
    /// Without the bytes, which may be gigabytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorFile")
            .field("header", &self.header)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

impl TensorFile<Bytes> {
    /// The stored bytes of a shard, sharing the file's memory.
    ///
    /// # Errors
    /// [`FormatError::NoSuchShard`].
    pub fn shard_slice(&self, shard: usize) -> Result<Bytes, FormatError> {
        Ok(self.bytes.slice(self.shard_range(shard)?))
    }
}

impl Header {
    /// Reads the header of a file from its first bytes (all of the header at least). Also gives the byte that the
    /// data region starts at. Whether the data is there is not looked at.
    ///
    /// # Errors
    /// Those of [`TensorFile::parse`] that are about the header.
    pub fn parse(file: &[u8]) -> Result<(Self, usize), FormatError> {
        let Some((size, rest)) = file.split_first_chunk::<8>() else {
            return Err(FormatError::HeaderSize {
                header: 8,
                file: file.len(),
            });
        };
        let size = u64::from_le_bytes(*size);
        let buffer = usize::try_from(size).ok().and_then(|size| rest.get(..size));
        let buffer = buffer.ok_or(FormatError::HeaderSize {
            header: size,
            file: file.len(),
        })?;
        Ok((Self::from_flatbuffer(buffer)?, 8 + buffer.len()))
    }
}
