//! What a fetch tells while it runs.

use std::time::Duration;

use native_manifest::{CommitId, PackagePath, RepoId};

/// Listens to a fetch. Called from several threads at once, and on the path of the data: be quick.
pub trait Progress: Send + Sync {
    /// Takes note of one event.
    fn report(&self, event: &Event<'_>);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _event: &Event<'_>) {}
}

/// How the bytes of a file came to be here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// Fetched from the Hub, in whole or from where an earlier run stopped.
    Hub,
    /// Copied from a Hugging Face cache.
    HfCache,
    /// Was complete already and its digest was computed again.
    Rehashed,
}

/// One thing that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The revision is this commit; from here on only the commit counts.
    Resolved {
        /// Repository.
        repo: &'a RepoId,
        /// Commit.
        commit: &'a CommitId,
    },
    /// What will be done, before the first byte of a file is asked for.
    Planned {
        /// Files of the package.
        files: usize,
        /// Their bytes.
        bytes: u64,
        /// Files that are not complete here.
        missing_files: usize,
        /// Bytes that will be fetched.
        fetch_bytes: u64,
        /// Bytes that will be copied from a Hugging Face cache.
        copy_bytes: u64,
        /// Bytes that will be written to disk.
        disk_bytes: u64,
    },
    /// Another process works on the same commit.
    WaitingForLock {
        /// What it wrote about itself.
        holder: &'a str,
    },
    /// Work on a file begins.
    FileStarted {
        /// File.
        path: &'a PackagePath,
        /// Its length.
        bytes: u64,
        /// Bytes of it that an earlier run left.
        have: u64,
    },
    /// Bytes of a file were written.
    FileAdvanced {
        /// File.
        path: &'a PackagePath,
        /// Bytes since the last event of this kind.
        bytes: u64,
    },
    /// What was there of a file was dropped, it begins anew.
    FileRewound {
        /// File.
        path: &'a PackagePath,
        /// Bytes dropped.
        bytes: u64,
        /// Why.
        reason: &'a str,
    },
    /// An attempt failed and another follows.
    Retrying {
        /// Which document or file.
        what: &'a str,
        /// Failures in a row so far.
        failed: u32,
        /// Pause before the next attempt.
        pause: Duration,
        /// The failure.
        reason: &'a str,
    },
    /// A file is whole, its size and digest are right, and it stands under its name.
    FileVerified {
        /// File.
        path: &'a PackagePath,
        /// Its length.
        bytes: u64,
        /// Where it came from.
        source: Source,
    },
    /// All files of the commit are verified and stand in its folder.
    Published {
        /// The snapshot folder.
        folder: &'a std::path::Path,
        /// Bytes of file content that came over the network, the wasted ones included.
        received: u64,
    },
}
