//! A checked reader of flatbuffer tables: every position is looked at before it is used, nothing is allocated from a
//! length that the buffer does not hold.

use crate::FormatError;

/// Most entries of a shape or coordinate. With [`MAX_TABLES`] it bounds what a few bytes that many references share
/// can grow to.
const MAX_RANK: usize = 16;

/// Most shards, placements or core ranges; far more than devices that were ever put together.
const MAX_TABLES: usize = 1 << 16;

/// One table. Slot `i` of its vtable says where field `i` lies; a field that is absent has its default.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    buffer: &'a [u8],
    position: usize,
    vtable: usize,
    slots: usize,
}

impl<'a> Table<'a> {
    /// The table that the first word of `buffer` refers to.
    pub(super) fn root(buffer: &'a [u8], field: &'static str) -> Result<Self, FormatError> {
        Self::at(buffer, reference(buffer, 0, field)?, field)
    }

    fn at(buffer: &'a [u8], position: usize, field: &'static str) -> Result<Self, FormatError> {
        let back = i64::from(i32::from_le_bytes(bytes_at(buffer, position, field)?));
        let outside = || FormatError::HeaderBounds {
            field,
            size: buffer.len(),
        };
        let vtable = i64::try_from(position)
            .ok()
            .and_then(|position| position.checked_sub(back));
        let vtable = vtable
            .and_then(|vtable| usize::try_from(vtable).ok())
            .ok_or_else(outside)?;
        let size = usize::from(u16::from_le_bytes(bytes_at(buffer, vtable, field)?));
        let fits = vtable
            .checked_add(size)
            .is_some_and(|end| end <= buffer.len());
        let slots = size.checked_sub(4).filter(|_| fits).ok_or_else(outside)? / 2;
        Ok(Self {
            buffer,
            position,
            vtable,
            slots,
        })
    }

    pub(super) fn u8(&self, slot: usize, field: &'static str) -> Result<u8, FormatError> {
        Ok(self.scalar(slot, field)?.map_or(0, u8::from_le_bytes))
    }

    pub(super) fn u16(&self, slot: usize, field: &'static str) -> Result<u16, FormatError> {
        Ok(self.scalar(slot, field)?.map_or(0, u16::from_le_bytes))
    }

    pub(super) fn u32(&self, slot: usize, field: &'static str) -> Result<u32, FormatError> {
        Ok(self.scalar(slot, field)?.map_or(0, u32::from_le_bytes))
    }

    pub(super) fn i32(&self, slot: usize, field: &'static str) -> Result<i32, FormatError> {
        Ok(self.scalar(slot, field)?.map_or(0, i32::from_le_bytes))
    }

    /// The table that a field refers to.
    pub(super) fn table(
        &self,
        slot: usize,
        field: &'static str,
    ) -> Result<Option<Self>, FormatError> {
        let target = self.target(slot, field)?;
        target
            .map(|position| Self::at(self.buffer, position, field))
            .transpose()
    }

    /// [`table`](Self::table) of a field that must be there.
    pub(super) fn required(&self, slot: usize, field: &'static str) -> Result<Self, FormatError> {
        self.table(slot, field)?
            .ok_or(FormatError::MissingField { field })
    }

    /// A structure of two u64, which a field refers to.
    pub(super) fn u64_pair(
        &self,
        slot: usize,
        field: &'static str,
    ) -> Result<[u64; 2], FormatError> {
        let position = self
            .target(slot, field)?
            .ok_or(FormatError::MissingField { field })?;
        let pair: [u8; 16] = bytes_at(self.buffer, position, field)?;
        let (first, second) = pair.split_at(8);
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        Ok([number(first), number(second)])
    }

    /// A short vector of u32, of a field that must be there.
    pub(super) fn u32s(&self, slot: usize, field: &'static str) -> Result<Vec<u32>, FormatError> {
        let entries = self
            .vector(slot, field)?
            .ok_or(FormatError::MissingField { field })?;
        at_most(MAX_RANK, entries.len(), field)?;
        entries
            .map(|entry| Ok(u32::from_le_bytes(bytes_at(self.buffer, entry, field)?)))
            .collect()
    }

    /// A vector of tables; none when the field is absent.
    pub(super) fn tables(
        &self,
        slot: usize,
        field: &'static str,
    ) -> Result<Vec<Self>, FormatError> {
        let Some(entries) = self.vector(slot, field)? else {
            return Ok(Vec::new());
        };
        at_most(MAX_TABLES, entries.len(), field)?;
        entries
            .map(|entry| Self::at(self.buffer, reference(self.buffer, entry, field)?, field))
            .collect()
    }

    /// The positions of a vector's four-byte entries, all inside the buffer.
    fn vector(
        &self,
        slot: usize,
        field: &'static str,
    ) -> Result<Option<impl ExactSizeIterator<Item = usize> + use<>>, FormatError> {
        let Some(position) = self.target(slot, field)? else {
            return Ok(None);
        };
        let count = u32::from_le_bytes(bytes_at(self.buffer, position, field)?);
        let start = position + 4;
        let end = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(4)?.checked_add(start));
        let end = end.filter(|&end| end <= self.buffer.len());
        let end = end.ok_or(FormatError::HeaderBounds {
            field,
            size: self.buffer.len(),
        })?;
        Ok(Some((start..end).step_by(4)))
    }

    fn scalar<const N: usize>(
        &self,
        slot: usize,
        field: &'static str,
    ) -> Result<Option<[u8; N]>, FormatError> {
        self.place(slot, field)?
            .map(|place| bytes_at(self.buffer, place, field))
            .transpose()
    }

    fn target(&self, slot: usize, field: &'static str) -> Result<Option<usize>, FormatError> {
        self.place(slot, field)?
            .map(|place| reference(self.buffer, place, field))
            .transpose()
    }

    fn place(&self, slot: usize, field: &'static str) -> Result<Option<usize>, FormatError> {
        if slot >= self.slots {
            return Ok(None);
        }
        let offset = usize::from(u16::from_le_bytes(bytes_at(
            self.buffer,
            self.vtable + 4 + 2 * slot,
            field,
        )?));
        Ok((offset != 0).then_some(self.position + offset))
    }
}

/// The position that the reference at `place` leads to: so many bytes further on.
fn reference(buffer: &[u8], place: usize, field: &'static str) -> Result<usize, FormatError> {
    let distance = u32::from_le_bytes(bytes_at(buffer, place, field)?);
    let target = usize::try_from(distance)
        .ok()
        .and_then(|distance| place.checked_add(distance));
    target
        .filter(|&target| target < buffer.len())
        .ok_or(FormatError::HeaderBounds {
            field,
            size: buffer.len(),
        })
}

fn at_most(limit: usize, found: usize, field: &'static str) -> Result<(), FormatError> {
    if found <= limit {
        return Ok(());
    }
    Err(FormatError::HeaderField {
        field,
        expected: format!("at most {limit} entries"),
        found: found.to_string(),
    })
}

fn bytes_at<const N: usize>(
    buffer: &[u8],
    position: usize,
    field: &'static str,
) -> Result<[u8; N], FormatError> {
    let rest = buffer.get(position..).and_then(|rest| rest.first_chunk());
    rest.copied().ok_or(FormatError::HeaderBounds {
        field,
        size: buffer.len(),
    })
}
