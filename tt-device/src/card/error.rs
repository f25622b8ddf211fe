//! What can be wrong with a card or with the claim on it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that keeps a card from being found, owned or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// Somebody else uses the card and did not stop in time.
    #[error("card {number} is in use after {waited:?} of waiting: {}", holders.join("; "))]
    Held {
        /// The card.
        number: u32,
        /// How long was waited.
        waited: Duration,
        /// Who holds what, one sentence each.
        holders: Vec<String>,
    },

    /// An image reference that does not name one set of bytes.
    #[error("image {given:?} is refused: {reason}")]
    Image {
        /// What was given.
        given: String,
        /// The rule it breaks.
        reason: &'static str,
    },

    /// A path that cannot stand in a mount.
    #[error("{path} cannot be mounted: {reason}", path = path.display())]
    Mount {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// A file operation failed.
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
}
