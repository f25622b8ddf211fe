//! Where files come from: repositories, commits, revisions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::{parse_hex, write_hex};
use crate::error::ManifestError;

/// A git commit: 20 bytes, written as 40 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct CommitId([u8; 20]);

impl CommitId {
    /// The 20 bytes.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommitId({self})")
    }
}

impl FromStr for CommitId {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ManifestError::Invalid {
                what: "commit",
                text: text.to_owned(),
                rule: "must be 40 lower-case hexadecimal digits",
            })
    }
}

impl TryFrom<String> for CommitId {
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Self, ManifestError> {
        text.parse()
    }
}

impl From<CommitId> for String {
    fn from(commit: CommitId) -> Self {
        commit.to_string()
    }
}

/// A repository of a model hub: `owner/name`.
///
/// Each half is 1 to 96 of the characters `A-Z a-z 0-9 . _ -`, neither starts nor ends with `.` or `-`, and has no `..`
/// or `--`; the name does not end with `.git`. These are the hub's own rules, and they keep an id from leaving a folder
/// that is named after it.
///
/// ```
/// use native_manifest::RepoId;
/// let repo: RepoId = "Qwen/Qwen3.5-9B".parse()?;
/// assert_eq!((repo.owner(), repo.name()), ("Qwen", "Qwen3.5-9B"));
/// assert!("../x/y".parse::<RepoId>().is_err());
/// # Ok::<(), native_manifest::ManifestError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RepoId(String);

impl RepoId {
    /// `owner/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the slash.
    pub fn owner(&self) -> &str {
        self.0.split_once('/').map_or("", |(owner, _)| owner)
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RepoId {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        let refuse = |rule| ManifestError::Invalid {
            what: "repository",
            text: text.to_owned(),
            rule,
        };
        let (owner, name) = text
            .split_once('/')
            .ok_or_else(|| refuse("must be owner/name"))?;
        for half in [owner, name] {
            if half.is_empty() || half.len() > 96 {
                return Err(refuse("owner and name must have 1 to 96 characters"));
            }
            if !half
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            {
                return Err(refuse(
                    "owner and name may only have letters, digits, '.', '_' and '-', and one slash between",
                ));
            }
            if half.starts_with(['.', '-']) || half.ends_with(['.', '-']) {
                return Err(refuse(
                    "owner and name must not start or end with '.' or '-'",
                ));
            }
            if half.contains("..") || half.contains("--") {
                return Err(refuse("owner and name must not have \"..\" or \"--\""));
            }
        }
        if name.ends_with(".git") {
            return Err(refuse("the name must not end with \".git\""));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for RepoId {
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Self, ManifestError> {
        text.parse()
    }
}

impl From<RepoId> for String {
    fn from(repo: RepoId) -> Self {
        repo.0
    }
}

/// A branch, a tag or a commit, as a user names it: `main`, `v1.0`, `refs/pr/3`, 40 hexadecimal digits.
///
/// The rules are those of `git check-ref-format`, narrowed to visible ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Revision(String);

impl Revision {
    /// The revision as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The commit, if the revision is one. A branch may move; a commit cannot.
    pub fn commit(&self) -> Option<CommitId> {
        self.0.parse().ok()
    }
}

impl From<CommitId> for Revision {
    fn from(commit: CommitId) -> Self {
        Self(commit.to_string())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Revision {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        let refuse = |rule| ManifestError::Invalid {
            what: "revision",
            text: text.to_owned(),
            rule,
        };
        if text.is_empty() || text.len() > 255 {
            return Err(refuse("must have 1 to 255 characters"));
        }
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"~^:?*[\\\"<>|%#".contains(&byte))
        {
            return Err(refuse(
                "has a character that a git reference or a web address may not have",
            ));
        }
        if text.contains("..") || text.contains("@{") || text == "@" || text.starts_with('-') {
            return Err(refuse("is not a git reference name"));
        }
        let part_is_bad = |part: &str| {
            part.is_empty()
                || part.starts_with('.')
                || part.ends_with('.')
                || part.ends_with(".lock")
        };
        if text.split('/').any(part_is_bad) {
            return Err(refuse(
                "has a part that is empty, starts or ends with '.', or ends with \".lock\"",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Revision {
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Self, ManifestError> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_forty_lower_case_digits() {
        let text = "ee0a4517b1d3c2f0a9e8d7c6b5a4938271605f4e";
        assert_eq!(text.parse::<CommitId>().unwrap().to_string(), text);
        for bad in [
            "",
            "main",
            &text[1..],
            &text.to_uppercase(),
            &format!("{text}0"),
            &"é".repeat(20),
        ] {
            assert!(
                matches!(
                    bad.parse::<CommitId>(),
                    Err(ManifestError::Invalid { what: "commit", .. })
                ),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_repository_cannot_leave_its_folder() {
        for good in ["Qwen/Qwen3.5-9B", "a/b", "LottoLottoLotto/x_y.z-1"] {
            assert_eq!(good.parse::<RepoId>().unwrap().to_string(), good);
        }
        let long = format!("a/{}", "b".repeat(97));
        for bad in [
            "", "a", "/", "a/", "/b", "../x/y", "a/..", "../b", "a/b/c", "a/.b", "a/b.", "-a/b",
            "a/b--c", "a/b..c", "a\\b/c", "a/b c", "C:/b", "a/b.git", "a/é", "a/b\0", &long,
        ] {
            assert!(
                matches!(
                    bad.parse::<RepoId>(),
                    Err(ManifestError::Invalid {
                        what: "repository",
                        ..
                    })
                ),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_revision_is_a_git_reference() {
        for good in [
            "main",
            "v1.0",
            "refs/pr/3",
            "feature/x-y_z",
            "ee0a4517b1d3c2f0a9e8d7c6b5a4938271605f4e",
        ] {
            assert_eq!(good.parse::<Revision>().unwrap().to_string(), good);
        }
        assert!(
            "ee0a4517b1d3c2f0a9e8d7c6b5a4938271605f4e"
                .parse::<Revision>()
                .unwrap()
                .commit()
                .is_some()
        );
        assert!("main".parse::<Revision>().unwrap().commit().is_none());
        for bad in [
            "",
            "../../main",
            "a..b",
            "/main",
            "main/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a\\b",
            "a?b",
            "@",
            "a@{1}",
            "-x",
            "a\n",
            "é",
            "a%2e",
            "a#b",
        ] {
            assert!(
                matches!(
                    bad.parse::<Revision>(),
                    Err(ManifestError::Invalid {
                        what: "revision",
                        ..
                    })
                ),
                "{bad:?}"
            );
        }
    }
}
