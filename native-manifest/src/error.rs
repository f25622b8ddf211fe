//! Everything that can go wrong with a package, as facts.

use std::io;
use std::path::PathBuf;

use crate::path::PathRule;
use crate::report::Report;

/// Why a package, a name or a record was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A file that must be there is not.
    #[error("file \"{path}\" is missing")]
    Absent {
        /// The file, relative to the package.
        path: String,
    },
    /// The caller's [`Progress`](crate::Progress) asked to stop.
    #[error("stopped on request")]
    Cancelled,
    /// An inventory lists itself, or a file whose digest hangs on it.
    #[error("inventory \"{inventory}\" lists \"{listed}\", whose digest depends on it")]
    Cycle {
        /// The file that holds the inventory.
        inventory: String,
        /// The path that it may not list.
        listed: String,
    },
    /// An entry is listed as a file and as a folder.
    #[error("\"{file}\" is listed as a file, and \"{below}\" below it")]
    FileAndFolder {
        /// The path listed as a file.
        file: String,
        /// The path that needs it to be a folder.
        below: String,
    },
    /// A tensor file's header cannot be read.
    #[error("file \"{path}\" of tensor \"{tensor}\" has no readable header")]
    Header {
        /// The file, relative to `checkpoint/`.
        path: String,
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        source: bfp_format::FormatError,
    },
    /// A newtype refused its text.
    #[error("{what} {text:?} {rule}")]
    Invalid {
        /// What the text should have been.
        what: &'static str,
        /// The text.
        text: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {action} \"{}\"", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A JSON file does not have the form it must have.
    #[error("{path}: field \"{field}\": {reason}")]
    Json {
        /// The file.
        path: String,
        /// The field, as `a.b[3].c`; `.` for the whole.
        field: String,
        /// What was wrong.
        reason: String,
    },
    /// A path of a package breaks a rule.
    #[error("path {path:?} {rule}")]
    Path {
        /// The path.
        path: String,
        /// The rule.
        rule: PathRule,
    },
    /// A proof record contradicts itself.
    #[error("proof: {field}: expected {expected}, found {found}")]
    Proof {
        /// The field.
        field: String,
        /// What the rest of the record asks for.
        expected: String,
        /// What it says.
        found: String,
    },
    /// The package is not what it claims to be; the report has every finding.
    #[error("package refused: {}", report.summary())]
    Rejected {
        /// All findings.
        report: Box<Report>,
    },
    /// Two paths that some file system takes for one.
    #[error("\"{first}\" and \"{second}\" are one name where case or composition does not count")]
    SameName {
        /// The path listed first.
        first: String,
        /// The path listed later.
        second: String,
    },
    /// Sizes or shapes do not fit 64 bits.
    #[error("sizes add up to more than 64 bits hold")]
    SizeOverflow,
    /// A line of a `SHA256SUMS` file cannot be read.
    #[error("line {line} of the checksum file: {reason}")]
    SumsLine {
        /// The line, counted from 1.
        line: usize,
        /// What was wrong.
        reason: String,
    },
    /// A file is larger than its kind may be.
    #[error("file \"{path}\" has {bytes} bytes, over the limit of {limit}")]
    TooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The package has no file of that name in its inventory.
    #[error("the package lists no file \"{path}\"")]
    UnknownFile {
        /// The name asked for.
        path: String,
    },
    /// The package has no tensor of that name.
    #[error("the package has no tensor \"{name}\"")]
    UnknownTensor {
        /// The name asked for.
        name: String,
    },
    /// A format of another major version.
    #[error("{path}: format {found:?} is not supported, this program reads \"{supported}\"")]
    Version {
        /// The file.
        path: String,
        /// What it says.
        found: String,
        /// What is understood.
        supported: &'static str,
    },
    /// The package writer was used against its rules.
    #[error("{reason}: \"{subject}\"")]
    Writer {
        /// The tensor, file or folder.
        subject: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl ManifestError {
    /// True when the input could not be read at all, false when it was read and found wrong.
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Cancelled)
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
