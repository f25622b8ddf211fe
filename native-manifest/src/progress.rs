//! How a long check tells its caller where it is.

use crate::path::PackagePath;

/// Receives the progress of a check, from several threads at once.
///
/// Every method has an empty default; `()` is the receiver that ignores all.
pub trait Progress: Sync {
    /// The work is known: so many files, so many bytes to hash.
    fn started(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// More bytes were hashed.
    fn advanced(&self, bytes: u64) {
        let _ = bytes;
    }

    /// A file was hashed to its end, or given up.
    fn file_done(&self, path: &PackagePath) {
        let _ = path;
    }

    /// Asked every few MiB; true ends the check with [`ManifestError::Cancelled`](crate::ManifestError::Cancelled).
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}
