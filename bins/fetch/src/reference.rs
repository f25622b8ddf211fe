//! `OWNER/NAME[@REVISION]` as one argument.

use std::str::FromStr;

use native_manifest::{ManifestError, RepoId, Revision};

/// A repository, and the revision if one was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Repository.
    pub repo: RepoId,
    /// Revision.
    pub revision: Option<Revision>,
}

impl FromStr for Reference {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        let (repo, revision) = match text.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision.parse()?)),
            None => (text, None),
        };
        Ok(Self {
            repo: repo.parse()?,
            revision,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_and_revision_are_checked_apart() {
        let plain: Reference = "Qwen/Qwen3.5-9B".parse().unwrap();
        assert_eq!(
            (plain.repo.as_str(), plain.revision),
            ("Qwen/Qwen3.5-9B", None)
        );
        let pinned: Reference = "a/b@refs/pr/1".parse().unwrap();
        assert_eq!(pinned.revision.unwrap().as_str(), "refs/pr/1");
        // Fault report I19.
        for bad in [
            "../x/y",
            "a/..",
            "a",
            "a/b@",
            "a/b@../../main",
            "a/b@x@y@{1}",
            "a/b/c",
            "/a/b",
            "a\\b/c",
            "",
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad:?}");
        }
    }
}
