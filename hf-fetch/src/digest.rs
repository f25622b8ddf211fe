//! The digests that a file is held against.

use std::fmt::{self, Write as _};

use native_manifest::Sha256Digest;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// What the bytes of a file must hash to.
///
/// A native package names SHA-256 for each file. The file list of an ordinary repository names SHA-256 for large files
/// and only Git's object name for small ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Digest {
    /// SHA-256 of the bytes.
    Sha256(Sha256Digest),
    /// Git's name of a blob: SHA-1 of `"blob <length>\0"` and the bytes, 40 lower-case hexadecimal digits.
    GitBlob(String),
}

impl Digest {
    /// The hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        match self {
            Self::Sha256(digest) => digest.to_string(),
            Self::GitBlob(name) => name.clone(),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(digest) => write!(f, "sha256:{digest}"),
            Self::GitBlob(name) => write!(f, "git-blob:{name}"),
        }
    }
}

/// Hashes bytes in their order by the rule of the expected digest.
#[derive(Clone)]
pub(crate) enum Hasher {
    Sha256(sha2::Sha256),
    GitBlob(sha1::Sha1),
}

impl Hasher {
    pub(crate) fn new(expected: &Digest, bytes: u64) -> Self {
        match expected {
            Digest::Sha256(_) => Self::Sha256(sha2::Sha256::new()),
            Digest::GitBlob(_) => {
                let mut hasher = sha1::Sha1::new();
                hasher.update(format!("blob {bytes}\0"));
                Self::GitBlob(hasher)
            }
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::GitBlob(hasher) => hasher.update(bytes),
        }
    }

    /// Hexadecimal digits of what was hashed.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => hex(&hasher.finalize()),
            Self::GitBlob(hasher) => hex(&hasher.finalize()),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_git_blob_is_named_as_git_names_it() {
        // `printf 'hello\n' | git hash-object --stdin`
        let name = "ce013625030ba8dba906f756967f9e9ca394464a";
        let mut hasher = Hasher::new(&Digest::GitBlob(name.to_owned()), 6);
        hasher.update(b"hello\n");
        assert_eq!(hasher.finish(), name);
    }

    #[test]
    fn sha256_is_that_of_the_bytes_however_they_are_cut() {
        let expected = Digest::Sha256(
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
                .parse::<Sha256Digest>()
                .unwrap(),
        );
        let mut hasher = Hasher::new(&expected, 3);
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), expected.hex());
    }
}
