//! `SHA256SUMS`: the inventory in the form that `sha256sum -c` reads.

use crate::digest::Sha256Digest;
use crate::error::ManifestError;
use crate::inventory::Inventory;
use crate::path::PackagePath;

/// The text of a `SHA256SUMS` file: one `digest  path` a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sha256Sums {
    lines: Vec<(PackagePath, Sha256Digest)>,
}

impl Sha256Sums {
    /// The lines for `inventory`, ordered by path bytes.
    pub fn of(inventory: &Inventory) -> Self {
        let mut lines: Vec<_> = inventory
            .entries()
            .iter()
            .map(|entry| (entry.path.clone(), entry.sha256))
            .collect();
        lines.sort();
        Self { lines }
    }

    /// The same with one more line, in its place.
    #[must_use]
    pub fn with(mut self, path: PackagePath, sha256: Sha256Digest) -> Self {
        let place = self.lines.partition_point(|(listed, _)| *listed < path);
        self.lines.insert(place, (path, sha256));
        self
    }

    /// Reads the text of a file: `digest`, a space, a space or `*`, the path. Empty lines are skipped and a carriage
    /// return at the end of a line is dropped. A name escaped by `sha256sum` (a line that starts with a backslash) has
    /// a newline or a backslash in it, which no package path may have.
    ///
    /// # Errors
    /// [`ManifestError::SumsLine`] naming the line, by 1, or [`ManifestError::SameName`] for a path named twice.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let mut lines = Vec::new();
        let mut seen = std::collections::HashMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() {
                continue;
            }
            let (path, digest) = parse_line(line).map_err(|reason| ManifestError::SumsLine {
                line: index + 1,
                reason: reason.to_string(),
            })?;
            if let Some(first) = seen.insert(path.fold(), path.clone()) {
                return Err(ManifestError::SameName {
                    first: first.to_string(),
                    second: path.to_string(),
                });
            }
            lines.push((path, digest));
        }
        Ok(Self { lines })
    }

    /// Path and digest of each line, in the order of the file.
    pub fn lines(&self) -> &[(PackagePath, Sha256Digest)] {
        &self.lines
    }

    /// The digest that stands beside `path`.
    pub fn digest(&self, path: &str) -> Option<Sha256Digest> {
        self.lines
            .iter()
            .find(|(listed, _)| listed.as_str() == path)
            .map(|(_, digest)| *digest)
    }

    /// The text, each line ended by a newline.
    pub fn to_text(&self) -> String {
        self.lines
            .iter()
            .map(|(path, digest)| format!("{digest}  {path}\n"))
            .collect()
    }
}

fn parse_line(line: &str) -> Result<(PackagePath, Sha256Digest), ManifestError> {
    let whole = || ManifestError::Invalid {
        what: "line",
        text: line.to_owned(),
        rule: "must be a digest, two spaces and a path",
    };
    let (digest, rest) = line.split_once(' ').ok_or_else(whole)?;
    let path = rest.strip_prefix([' ', '*']).ok_or_else(whole)?;
    Ok((path.parse()?, digest.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Entry;

    fn sums(paths: &[&str]) -> Sha256Sums {
        let entries = paths
            .iter()
            .map(|path| Entry {
                path: path.parse().unwrap(),
                bytes: 0,
                sha256: Sha256Digest::of(path.as_bytes()),
            })
            .collect();
        Sha256Sums::of(&Inventory::new(entries).unwrap())
    }

    #[test]
    fn what_is_written_reads_back_and_is_sorted() {
        let written =
            sums(&["b", "a c", "a/b"]).with("aa".parse().unwrap(), Sha256Digest::of(b"x"));
        let text = written.to_text();
        assert_eq!(Sha256Sums::parse(&text).unwrap(), written);
        let paths: Vec<_> = written
            .lines()
            .iter()
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(paths, ["a c", "a/b", "aa", "b"]);
        assert!(text.ends_with("  b\n"));
    }

    #[test]
    fn binary_marks_and_carriage_returns_are_read() {
        let digest = Sha256Digest::of(b"");
        let parsed = Sha256Sums::parse(&format!("{digest} *a\r\n\n{digest}  b/c\n")).unwrap();
        assert_eq!(parsed.digest("a"), Some(digest));
        assert_eq!(parsed.digest("b/c"), Some(digest));
    }

    #[test]
    fn a_bad_line_is_named() {
        let digest = Sha256Digest::of(b"");
        for bad in [
            "x",
            "abc  a",
            &format!("{digest} a"),
            &format!("{digest}  ../a"),
            &format!("\\{digest}  a\\nb"),
        ] {
            match Sha256Sums::parse(&format!("{digest}  ok\n{bad}\n")) {
                Err(ManifestError::SumsLine { line: 2, .. }) => {}
                other => panic!("{bad:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_path_named_twice_is_refused() {
        let digest = Sha256Digest::of(b"");
        let text = format!("{digest}  a\n{digest}  A\n");
        assert!(matches!(
            Sha256Sums::parse(&text),
            Err(ManifestError::SameName { .. })
        ));
    }
}
