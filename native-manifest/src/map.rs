//! Files as bytes in memory, without reading them.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use crate::error::ManifestError;

/// Maps a regular file. Slices of the result share the map; it is closed with the last of them.
///
/// The file must not be changed while it is mapped: packages and checkpoints are immutable.
///
/// # Errors
/// [`ManifestError::Io`], also for what is no regular file.
pub fn map_file(path: &Path) -> Result<Bytes, ManifestError> {
    // Looked at by name first: to open a pipe is to wait for its other end.
    let metadata = fs::metadata(path).map_err(ManifestError::io("look at", path))?;
    if !metadata.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(ManifestError::io("map", path)(source));
    }
    let file = File::open(path).map_err(ManifestError::io("open", path))?;
    let length = file
        .metadata()
        .map_err(ManifestError::io("look at", path))?
        .len();
    if length == 0 {
        // An empty map is an error on some systems.
        return Ok(Bytes::new());
    }
    // SAFETY: the map is private and read-only. Packages and checkpoints are immutable by contract: a process that
    // truncates a file in use gets this one a SIGBUS, and one that rewrites it makes other numbers, never other types;
    // every byte pattern is a valid u8.
    let map = unsafe { Mmap::map(&file) }.map_err(ManifestError::io("map", path))?;
    Ok(Bytes::from_owner(map))
}
