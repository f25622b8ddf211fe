//! Why a fetch failed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use native_manifest::PackagePath;

/// Everything that keeps a revision from becoming verified files.
///
/// Addresses in these errors carry no query and no credentials: signed download links hold secrets there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The endpoint address is not one that files can be fetched from.
    #[error("endpoint {given:?} cannot be used: {reason}")]
    Endpoint {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The proxy or certificate settings cannot be used.
    #[error("{setting} cannot be used: {reason}")]
    Setting {
        /// Which setting, in the words of the options.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The server answered with a status that no retry mends, or kept answering with one that retries did not mend.
    #[error("{url}: HTTP status {status}{}", hint.as_deref().map(|h| format!(" ({h})")).unwrap_or_default())]
    Status {
        /// Address without query.
        url: String,
        /// HTTP status.
        status: u16,
        /// What usually mends it.
        hint: Option<String>,
    },

    /// No answer, or the connection broke more often than the retry policy allows.
    #[error("{url}: connection failed after {attempts} attempts: {reason}")]
    Connection {
        /// Address without query.
        url: String,
        /// Attempts made without progress.
        attempts: u32,
        /// The last failure.
        reason: String,
    },

    /// The server sent fewer bytes a second than the stall floor, on each attempt.
    #[error(
        "{url}: stalled: {received} bytes within {window:?}, the floor is {floor} (attempt {attempts})"
    )]
    Stalled {
        /// Address without query.
        url: String,
        /// Bytes that came in the last window.
        received: u64,
        /// Bytes that had to come.
        floor: u64,
        /// Length of the window.
        window: Duration,
        /// Attempts made without progress.
        attempts: u32,
    },

    /// A redirect that breaks the redirect rule.
    #[error("{url}: redirect refused: {reason}")]
    Redirect {
        /// Address that redirected, without query.
        url: String,
        /// The rule it breaks.
        reason: String,
    },

    /// The answer is not the answer to the question: wrong range, wrong length, an encoding that was not asked for.
    #[error("{url}: wrong answer: {reason}")]
    Protocol {
        /// Address without query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A web page where a file should be: a login page of a proxy, most often.
    #[error(
        "{url}: got {found} bytes of {content_type} instead of a file of {expected} bytes; a proxy or login page answered"
    )]
    WebPage {
        /// Address without query.
        url: String,
        /// Content-Type of the answer.
        content_type: String,
        /// Length the answer claims, 0 when it claims none.
        found: u64,
        /// Length of the file.
        expected: u64,
    },

    /// The file on the Hub is another than the inventory says, after every retry.
    #[error("{path}: digest mismatch: expected {expected}, found {found}")]
    Digest {
        /// File of the package.
        path: PackagePath,
        /// Digest in the inventory.
        expected: String,
        /// Digest of the bytes that came.
        found: String,
    },

    /// The file changed on the server while it was fetched, more often than the retry policy allows.
    #[error("{path}: changed on the server while it was fetched")]
    Changed {
        /// File of the package.
        path: PackagePath,
    },

    /// The Hub named another commit than the one that was asked for.
    #[error("asked for commit {expected}, the hub answered for {found}")]
    Commit {
        /// Commit that was asked for.
        expected: String,
        /// Commit in the answer.
        found: String,
    },

    /// The answer to a question about the repository could not be read.
    #[error("{what} cannot be read: {reason}")]
    Metadata {
        /// Which document.
        what: String,
        /// What is wrong with it.
        reason: String,
    },

    /// Offline, and not everything is here.
    #[error("offline: {missing} of {files} files are not here (first: {first})")]
    OfflineMissing {
        /// Number of missing files.
        missing: usize,
        /// Number of files of the package.
        files: usize,
        /// The first of them.
        first: String,
    },

    /// Offline, and the revision was never resolved on this machine.
    #[error(
        "offline: revision {revision:?} of {repo} was never resolved here; give a 40-hex commit or go online once"
    )]
    OfflineRevision {
        /// Repository.
        repo: String,
        /// Revision.
        revision: String,
    },

    /// Not enough room. Nothing was fetched.
    #[error("{at}: {needed} bytes needed, {free} bytes free", at = at.display())]
    DiskSpace {
        /// Folder on the file system that is too full.
        at: PathBuf,
        /// Bytes that are still missing.
        needed: u64,
        /// Bytes that an unprivileged user may write.
        free: u64,
    },

    /// Another process fetches the same commit and did not finish in time.
    #[error("{lock}: held by {holder} for longer than {waited:?}", lock = lock.display())]
    Locked {
        /// The lock file.
        lock: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
        /// How long this process waited.
        waited: Duration,
    },

    /// A file or folder operation failed. A part that was begun is kept and resumed by the next run.
    #[error("{doing} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// The operating system's words.
        #[source]
        source: io::Error,
    },

    /// A symbolic link or another odd thing stands where this crate writes.
    #[error("{path}: {reason}", path = path.display())]
    Obstacle {
        /// Where.
        path: PathBuf,
        /// What stands there.
        reason: &'static str,
    },

    /// The inventory of the package breaks a rule of `native-manifest`.
    #[error("the inventory is refused: {0}")]
    Inventory(native_manifest::ManifestError),
}

/// Gives an I/O failure the two facts that `io::Error` lacks.
pub(crate) trait IoContext<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, FetchError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, FetchError> {
        self.map_err(|source| FetchError::Io {
            doing,
            path: path.to_owned(),
            source,
        })
    }
}
