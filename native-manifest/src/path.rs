//! Names of files inside a package, safe on every operating system.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

use crate::error::ManifestError;

/// Longest part between two slashes, in bytes: the limit of ext4, APFS and NTFS (there in UTF-16 units, never more).
const MAX_PART_BYTES: usize = 255;
/// Longest whole path, in bytes: leaves room for a root below the 4,096 of Linux and the 1,024 of macOS.
const MAX_PATH_BYTES: usize = 768;

/// A relative path with `/` between its parts, that names the same file under POSIX and Windows and cannot leave the
/// folder it is joined to.
///
/// The check is of the text alone; no file system is asked. Links are a matter of [`VerifyOptions`](crate::VerifyOptions).
///
/// ```
/// use native_manifest::PackagePath;
/// let path: PackagePath = "checkpoint/tensors/a.tensorbin".parse()?;
/// assert_eq!(path.join_to("/srv/package"), std::path::Path::new("/srv/package/checkpoint/tensors/a.tensorbin"));
/// assert!("../a".parse::<PackagePath>().is_err());
/// assert!("C:/a".parse::<PackagePath>().is_err());
/// # Ok::<(), native_manifest::ManifestError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PackagePath(String);

impl PackagePath {
    /// Checks `text` against every [`PathRule`].
    ///
    /// # Errors
    /// [`ManifestError::Path`] with the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        match broken_rule(text) {
            None => Ok(Self(text.to_owned())),
            Some(rule) => Err(ManifestError::Path {
                path: text.to_owned(),
                rule,
            }),
        }
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between the slashes.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The path below `root` on this machine.
    pub fn join_to(&self, root: impl AsRef<Path>) -> PathBuf {
        let mut path = root.as_ref().to_path_buf();
        path.extend(self.parts());
        path
    }

    /// This path below the folder `folder`.
    ///
    /// # Errors
    /// [`ManifestError::Path`] if the whole is too long.
    pub fn below(&self, folder: &Self) -> Result<Self, ManifestError> {
        Self::parse(&format!("{folder}/{self}"))
    }

    /// What remains below `folder`, if this path lies there.
    pub fn strip_folder(&self, folder: &str) -> Option<Self> {
        let rest = self.0.strip_prefix(folder)?.strip_prefix('/')?;
        Some(Self(rest.to_owned()))
    }

    /// Equal for two paths that some file system takes for one: composed (NFC) and without case.
    pub fn fold(&self) -> String {
        fold(&self.0)
    }
}

/// What a path in a package may not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathRule {
    /// Starts with `/`.
    Absolute,
    /// Has a backslash, which Windows takes for a separator.
    Backslash,
    /// Has a `:`, which is a drive or an alternate stream on Windows.
    Colon,
    /// Has NUL or another control character.
    Control,
    /// Has a part `.` or `..`.
    DotPart,
    /// Is empty or has an empty part, as in `a//b` or `a/`.
    EmptyPart,
    /// Has a character that some file systems drop or that turns the text around: a zero-width or direction mark.
    Invisible,
    /// Has a part named as a device of Windows, with or without an extension: `CON`, `aux.txt`, `COM1`.
    ReservedName,
    /// Has a part over 255 bytes, or is over 768 bytes in all.
    TooLong,
    /// Has a part that ends with a dot or a space, which Windows drops.
    TrailingDotOrSpace,
    /// Has one of `< > " | ? *`, which Windows does not allow.
    WindowsCharacter,
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absolute => "is absolute",
            Self::Backslash => "has a backslash",
            Self::Colon => "has a colon",
            Self::Control => "has a control character",
            Self::DotPart => "has a part \".\" or \"..\"",
            Self::EmptyPart => "has an empty part",
            Self::Invisible => "has an invisible or direction character",
            Self::ReservedName => "has a part that names a windows device",
            Self::TooLong => "is too long",
            Self::TrailingDotOrSpace => "has a part that ends with a dot or a space",
            Self::WindowsCharacter => "has a character that windows does not allow",
        })
    }
}

impl fmt::Display for PackagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PackagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackagePath({:?})", self.0)
    }
}

impl AsRef<str> for PackagePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for PackagePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for PackagePath {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for PackagePath {
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Self, ManifestError> {
        Self::parse(&text)
    }
}

impl From<PackagePath> for String {
    fn from(path: PackagePath) -> Self {
        path.0
    }
}

/// Upper then lower case brings together what a single step keeps apart (`ſ` and `s`, `ς` and `σ`); composing before
/// and after makes the result independent of how the text was composed.
pub(crate) fn fold(text: &str) -> String {
    let composed: String = text.nfc().collect();
    composed.to_uppercase().to_lowercase().nfc().collect()
}

fn broken_rule(text: &str) -> Option<PathRule> {
    if text.starts_with('/') {
        return Some(PathRule::Absolute);
    }
    if text.len() > MAX_PATH_BYTES {
        return Some(PathRule::TooLong);
    }
    if let Some(rule) = text.chars().find_map(character_rule) {
        return Some(rule);
    }
    text.split('/').find_map(part_rule)
}

fn character_rule(character: char) -> Option<PathRule> {
    match character {
        '\\' => Some(PathRule::Backslash),
        ':' => Some(PathRule::Colon),
        '<' | '>' | '"' | '|' | '?' | '*' => Some(PathRule::WindowsCharacter),
        // HFS+ ignores most of these when it compares names; the rest deceive a reader.
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => Some(PathRule::Invisible),
        _ if character.is_control() => Some(PathRule::Control),
        _ => None,
    }
}

fn part_rule(part: &str) -> Option<PathRule> {
    if part.is_empty() {
        Some(PathRule::EmptyPart)
    } else if part == "." || part == ".." {
        Some(PathRule::DotPart)
    } else if part.len() > MAX_PART_BYTES {
        Some(PathRule::TooLong)
    } else if part.ends_with(['.', ' ']) {
        Some(PathRule::TrailingDotOrSpace)
    } else if is_device_name(part) {
        Some(PathRule::ReservedName)
    } else {
        None
    }
}

/// Source: "Naming Files, Paths, and Namespaces" of the Windows documentation; superscript digits count as digits there.
fn is_device_name(part: &str) -> bool {
    let stem = part
        .split('.')
        .next()
        .unwrap_or(part)
        .trim_end_matches(' ')
        .to_uppercase();
    if matches!(
        stem.as_str(),
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$"
    ) {
        return true;
    }
    let Some(number) = stem
        .strip_prefix("COM")
        .or_else(|| stem.strip_prefix("LPT"))
    else {
        return false;
    };
    let mut characters = number.chars();
    matches!(
        (characters.next(), characters.next()),
        (Some('0'..='9' | '¹' | '²' | '³'), None)
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule_of(text: &str) -> Option<PathRule> {
        match PackagePath::parse(text) {
            Ok(_) => None,
            Err(ManifestError::Path { path, rule }) => {
                assert_eq!(path, text);
                Some(rule)
            }
            Err(other) => panic!("unexpected error {other}"),
        }
    }

    #[test]
    fn each_rule_is_kept() {
        for (text, rule) in [
            ("", PathRule::EmptyPart),
            ("/etc/passwd", PathRule::Absolute),
            ("//server/share", PathRule::Absolute),
            ("..", PathRule::DotPart),
            ("a/../../b", PathRule::DotPart),
            ("./a", PathRule::DotPart),
            ("a/.", PathRule::DotPart),
            ("a//b", PathRule::EmptyPart),
            ("a/", PathRule::EmptyPart),
            ("a\\..\\b", PathRule::Backslash),
            ("\\\\server\\share", PathRule::Backslash),
            ("\\\\?\\C:\\a", PathRule::Backslash),
            ("C:/windows", PathRule::Colon),
            ("c:relative", PathRule::Colon),
            ("file.txt:stream", PathRule::Colon),
            ("a\0b", PathRule::Control),
            ("a\nb", PathRule::Control),
            ("a\u{7f}", PathRule::Control),
            ("a\u{85}", PathRule::Control),
            ("CON", PathRule::ReservedName),
            ("con.json", PathRule::ReservedName),
            ("x/Aux.tar.gz", PathRule::ReservedName),
            ("NUL .txt", PathRule::ReservedName),
            ("com1", PathRule::ReservedName),
            ("LPT³.bin", PathRule::ReservedName),
            ("conin$", PathRule::ReservedName),
            ("a.", PathRule::TrailingDotOrSpace),
            ("a /b", PathRule::TrailingDotOrSpace),
            ("...", PathRule::TrailingDotOrSpace),
            ("a?b", PathRule::WindowsCharacter),
            ("a*", PathRule::WindowsCharacter),
            ("g\u{200c}it", PathRule::Invisible),
            ("a\u{202e}nosj", PathRule::Invisible),
        ] {
            assert_eq!(rule_of(text), Some(rule), "{text:?}");
        }
        assert_eq!(rule_of(&"a".repeat(256)), Some(PathRule::TooLong));
        assert_eq!(rule_of(&"a/".repeat(400)), Some(PathRule::TooLong));
    }

    #[test]
    fn ordinary_names_pass() {
        for text in [
            "a",
            ".gitattributes",
            "checkpoint/tensors/model.layers.0.mlp.up_proj.weight.tensorbin",
            "console.txt",
            "com10",
            "compute/COM.txt",
            "a b/c",
            "..a/b..c",
            "naïve/日本語.json",
        ] {
            assert_eq!(rule_of(text), None, "{text:?}");
        }
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_fold_alike() {
        let fold = |text: &str| PackagePath::parse(text).unwrap().fold();
        assert_eq!(fold("README.md"), fold("readme.MD"));
        assert_eq!(fold("caf\u{e9}"), fold("CAFE\u{301}"));
        assert_eq!(fold("\u{3c2}"), fold("\u{3c3}"));
        assert_eq!(fold("\u{212a}"), fold("k"));
        assert_ne!(fold("a/b"), fold("a.b"));
    }

    proptest! {
        #[test]
        fn an_accepted_path_stays_below_its_root(text in "[a-zA-Z0-9./\\\\: \u{e9}-]{0,24}") {
            if let Ok(path) = PackagePath::parse(&text) {
                let joined = path.join_to("/root");
                prop_assert!(joined.starts_with("/root"));
                prop_assert!(joined.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert_eq!(joined.components().count(), 2 + path.parts().count());
            }
        }
    }
}
