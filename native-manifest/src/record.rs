//! What was verified, remembered outside the package.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;
use crate::files::Files;
use crate::path::PackagePath;

/// What a file looked like when its bytes were hashed. A file that looks the same is taken for the same: this is a
/// convenience for warm starts on a disk that nobody tampers with, not a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Size.
    pub bytes: u64,
    /// Modification time, nanoseconds since 1970; 0 where there is none.
    pub modified_ns: u64,
    /// Inode, 0 where there is none.
    pub inode: u64,
}

/// Files of one package that were hashed and found right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedRecord {
    manifest: Sha256Digest,
    files: BTreeMap<PackagePath, (Stamp, Sha256Digest)>,
}

impl VerifiedRecord {
    pub(crate) fn new(manifest: Sha256Digest) -> Self {
        Self {
            manifest,
            files: BTreeMap::new(),
        }
    }

    pub(crate) fn remember(&mut self, path: PackagePath, stamp: Stamp, sha256: Sha256Digest) {
        self.files.insert(path, (stamp, sha256));
    }

    /// Whether the file was found to have this digest and still looks as it did. Files without a time or an
    /// inode are never taken on trust.
    pub(crate) fn holds(&self, path: &PackagePath, stamp: &Stamp, sha256: &Sha256Digest) -> bool {
        stamp.modified_ns != 0
            && stamp.inode != 0
            && self
                .files
                .get(path)
                .is_some_and(|known| known == &(*stamp, *sha256))
    }

    /// Digest of the manifest it belongs to.
    pub fn manifest(&self) -> Sha256Digest {
        self.manifest
    }
}

impl Files {
    pub(crate) fn stamp(&self, path: &PackagePath) -> Stamp {
        let Self::Folder(root) = self else {
            return Stamp::default();
        };
        let Ok(metadata) = std::fs::metadata(path.join_to(root)) else {
            return Stamp::default();
        };
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Stamp {
            bytes: metadata.len(),
            modified_ns: modified
                .and_then(|time| u64::try_from(time.as_nanos()).ok())
                .unwrap_or(0),
            inode,
        }
    }
}
