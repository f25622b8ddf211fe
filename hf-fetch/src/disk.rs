//! The two things about a disk that go wrong at the worst moment: free space and writing.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file system. Tests put a full one in between.
pub trait Disk: Debug + Send + Sync {
    /// Bytes that an unprivileged user may still write on the file system of `folder`.
    ///
    /// # Errors
    ///
    /// When the file system cannot be asked.
    fn free(&self, folder: &Path) -> io::Result<u64>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    ///
    /// As the operating system reports them, `ENOSPC` above all. Some bytes may have been written.
    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// The machine's own file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn free(&self, folder: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }
}
