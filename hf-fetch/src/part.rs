//! A begun file: bytes at their places, and a journal that says which of them are there.
//!
//! The file is divided into ranges; the journal holds, for each, how many bytes from its start are written. A data write
//! always comes before its journal write, so whatever moment a process is killed at, the journal claims no byte that was
//! not written (a power loss may break that; the digest of the whole finds it out). The journal also keeps the entity tag,
//! so that a later run can ask for the rest of the *same* file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::{FetchError, IoContext};
use crate::layout::make_folders;

const MAGIC: &[u8; 8] = b"hfpart1\n";
/// Longest entity tag that is kept. A longer one is as good as none.
const TAG_BYTES: usize = 254;
/// Magic, file length, range length, tag length, tag.
const HEAD_BYTES: usize = 8 + 8 + 8 + 2 + TAG_BYTES;

/// A span of bytes that is still missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) start: u64,
    /// One past the last byte.
    pub(crate) end: u64,
}

/// A begun file, open for writing.
#[derive(Debug)]
pub(crate) struct Part {
    data_path: PathBuf,
    journal_path: PathBuf,
    data: File,
    journal: File,
    bytes: u64,
    range_bytes: u64,
    done: Vec<u64>,
    tag: Option<String>,
}

impl Part {
    /// Takes up what an earlier run left, or begins anew when that is nothing, or for a file of another length, or damaged.
    pub(crate) fn open(
        root: &Path,
        (data_path, journal_path): (PathBuf, PathBuf),
        bytes: u64,
        range_bytes: u64,
    ) -> Result<Self, FetchError> {
        make_folders(root, &data_path)?;
        let data = open_here(&data_path).at("opening", &data_path)?;
        let journal = open_here(&journal_path).at("opening", &journal_path)?;
        let found = data.metadata().at("looking at", &data_path)?.len();
        let read = read_journal(&journal).at("reading", &journal_path)?;
        let kept = read.filter(|j| j.bytes == bytes && found == bytes);
        let mut part = Self {
            data_path,
            journal_path,
            data,
            journal,
            bytes,
            range_bytes: kept.as_ref().map_or(range_bytes.max(1), |j| j.range_bytes),
            done: Vec::new(),
            tag: None,
        };
        match kept {
            Some(journal) => {
                part.done = journal.done;
                part.tag = journal.tag;
            }
            None => part.begin()?,
        }
        Ok(part)
    }

    /// Bytes that an earlier run left, without opening anything for writing.
    pub(crate) fn peek((data_path, journal_path): &(PathBuf, PathBuf), bytes: u64) -> u64 {
        let look = || -> io::Result<u64> {
            if fs::symlink_metadata(data_path)?.len() != bytes {
                return Ok(0);
            }
            let journal = File::open(journal_path)?;
            let read = read_journal(&journal)?.filter(|j| j.bytes == bytes);
            Ok(read.map_or(0, |j| j.done.iter().sum()))
        };
        look().unwrap_or(0)
    }

    /// Drops everything and begins anew. The number of bytes that were there.
    pub(crate) fn rewind(&mut self) -> Result<u64, FetchError> {
        let dropped = self.have();
        self.begin()?;
        Ok(dropped)
    }

    /// Bytes that are there.
    pub(crate) fn have(&self) -> u64 {
        self.done.iter().sum()
    }

    /// Entity tag of the file that the bytes are of.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// What is missing, in ascending order, one gap a range at most.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        (0..self.done.len())
            .filter_map(|index| self.gap(index))
            .collect()
    }

    /// Bytes from the start of the file up to the first missing one.
    pub(crate) fn contiguous(&self) -> u64 {
        (0..self.done.len())
            .find_map(|index| self.gap(index))
            .map_or(self.bytes, |gap| gap.start)
    }

    /// Remembers the entity tag.
    pub(crate) fn set_tag(&mut self, tag: &str) -> Result<(), FetchError> {
        self.tag = (tag.len() <= TAG_BYTES).then(|| tag.to_owned());
        self.write_head()
    }

    /// Writes bytes at their place and takes note of them.
    pub(crate) fn write(
        &mut self,
        disk: &dyn Disk,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), FetchError> {
        disk.write_at(&self.data, at, bytes)
            .at("writing", &self.data_path)?;
        let end = at + bytes.len() as u64;
        let mut from = at;
        while from < end {
            let index = self.index(from);
            let (start, range_end) = self.range(index);
            let to = end.min(range_end);
            // Bytes beyond a hole do not count: the journal knows prefixes only.
            if from <= start + self.done[index] && to - start > self.done[index] {
                self.done[index] = to - start;
                let offset = HEAD_BYTES as u64 + 8 * index as u64;
                let note = self.done[index].to_le_bytes();
                disk.write_at(&self.journal, offset, &note)
                    .at("writing", &self.journal_path)?;
            }
            from = to;
        }
        Ok(())
    }

    /// Reads bytes that were written.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), FetchError> {
        self.data
            .read_exact_at(into, at)
            .at("reading", &self.data_path)
    }

    /// Moves the whole file to its name, after everything in it is on the disk. The journal goes.
    pub(crate) fn finish(self, root: &Path, to: &Path) -> Result<fs::Metadata, FetchError> {
        make_folders(root, to)?;
        let mut permissions = self
            .data
            .metadata()
            .at("looking at", &self.data_path)?
            .permissions();
        permissions.set_readonly(true);
        self.data
            .set_permissions(permissions)
            .at("protecting", &self.data_path)?;
        self.data.sync_all().at("syncing", &self.data_path)?;
        fs::rename(&self.data_path, to).at("renaming to", to)?;
        let found = self.data.metadata().at("looking at", to)?;
        // Without its data the journal says nothing, so its removal may fail.
        let _ = fs::remove_file(&self.journal_path);
        Ok(found)
    }

    /// Removes the begun file.
    pub(crate) fn discard(self) -> Result<(), FetchError> {
        fs::remove_file(&self.data_path).at("removing", &self.data_path)?;
        fs::remove_file(&self.journal_path).at("removing", &self.journal_path)
    }

    fn begin(&mut self) -> Result<(), FetchError> {
        self.done =
            vec![0; usize::try_from(self.bytes.div_ceil(self.range_bytes)).unwrap_or(usize::MAX)];
        self.tag = None;
        // The journal first: while it is empty, no old byte in the data file counts.
        self.journal.set_len(0).at("emptying", &self.journal_path)?;
        self.data.set_len(0).at("emptying", &self.data_path)?;
        self.data
            .set_len(self.bytes)
            .at("extending", &self.data_path)?;
        self.journal
            .set_len((HEAD_BYTES + 8 * self.done.len()) as u64)
            .at("extending", &self.journal_path)?;
        self.write_head()
    }

    fn write_head(&self) -> Result<(), FetchError> {
        let tag = self.tag.as_deref().unwrap_or_default().as_bytes();
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&self.bytes.to_le_bytes());
        head.extend_from_slice(&self.range_bytes.to_le_bytes());
        // `set_tag` keeps tags below TAG_BYTES.
        head.extend_from_slice(&u16::try_from(tag.len()).unwrap_or_default().to_le_bytes());
        head.extend_from_slice(tag);
        head.resize(HEAD_BYTES, 0);
        self.journal
            .write_all_at(&head, 0)
            .at("writing", &self.journal_path)
    }

    fn gap(&self, index: usize) -> Option<Gap> {
        let (start, end) = self.range(index);
        let start = start + self.done[index];
        (start < end).then_some(Gap { start, end })
    }

    fn index(&self, at: u64) -> usize {
        usize::try_from(at / self.range_bytes).unwrap_or(usize::MAX)
    }

    fn range(&self, index: usize) -> (u64, u64) {
        let start = index as u64 * self.range_bytes;
        (start, self.bytes.min(start + self.range_bytes))
    }
}

struct Journal {
    bytes: u64,
    range_bytes: u64,
    tag: Option<String>,
    done: Vec<u64>,
}

/// The journal, or `None` when it is empty, cut, or says what cannot be.
fn read_journal(file: &File) -> io::Result<Option<Journal>> {
    let found = file.metadata()?.len();
    if found < HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, 0)?;
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let (bytes, range_bytes) = (number(8), number(16));
    let tag_bytes = usize::from(u16::from_le_bytes([head[24], head[25]]));
    if &head[..8] != MAGIC || range_bytes == 0 || tag_bytes > TAG_BYTES {
        return Ok(None);
    }
    // Compared before anything is allocated: a damaged head must not ask for gigabytes.
    let ranges = bytes.div_ceil(range_bytes);
    if ranges
        .checked_mul(8)
        .and_then(|n| n.checked_add(HEAD_BYTES as u64))
        != Some(found)
    {
        return Ok(None);
    }
    let mut done = Vec::new();
    for index in 0..ranges {
        let mut slot = [0; 8];
        file.read_exact_at(&mut slot, HEAD_BYTES as u64 + 8 * index)?;
        let value = u64::from_le_bytes(slot);
        if value > range_bytes.min(bytes - index * range_bytes) {
            return Ok(None);
        }
        done.push(value);
    }
    let tag = String::from_utf8(head[26..26 + tag_bytes].to_vec())
        .ok()
        .filter(|t| !t.is_empty());
    Ok(Some(Journal {
        bytes,
        range_bytes,
        tag,
        done,
    }))
}

/// Opens a file to write, here and nowhere that a symbolic link leads to.
fn open_here(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(nofollow())
        .open(path)
}

/// `O_NOFOLLOW` as the standard library wants it.
pub(crate) fn nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}
