//! Lists of files with their sizes and digests.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;
use crate::error::ManifestError;
use crate::path::PackagePath;

/// One file of an [`Inventory`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where the file is, relative to the folder that the inventory speaks of.
    pub path: PackagePath,
    /// Its size.
    pub bytes: u64,
    /// The digest of the whole file.
    pub sha256: Sha256Digest,
}

/// A list of files in which no two names can collide on any file system, kept in the order it was written.
///
/// No two paths fold to the same name ([`PackagePath::fold`]), no path is both a file and a folder, and the sizes add
/// up in 64 bits. On disk it is a JSON array of [`Entry`].
///
/// ```
/// use native_manifest::{Entry, Inventory, Sha256Digest};
/// let entry = |path: &str| Entry { path: path.parse().unwrap(), bytes: 3, sha256: Sha256Digest::of(b"abc") };
/// let inventory = Inventory::new(vec![entry("a"), entry("b/c")])?;
/// assert_eq!(inventory.totals().bytes, 6);
/// assert!(inventory.entry("b/c").is_some());
/// assert!(Inventory::new(vec![entry("a"), entry("A")]).is_err());
/// # Ok::<(), native_manifest::ManifestError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<Entry>", try_from = "Vec<Entry>")]
pub struct Inventory {
    entries: Vec<Entry>,
    by_path: HashMap<PackagePath, usize>,
    totals: Totals,
}

/// The number of files of an [`Inventory`] and the sum of their sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

impl Inventory {
    /// Checks the names and the sum of `entries`.
    ///
    /// # Errors
    /// [`ManifestError::SameName`] for two paths that some file system takes for one, [`ManifestError::FileAndFolder`]
    /// for a file below another file, [`ManifestError::SizeOverflow`] if the sizes do not add up in 64 bits.
    pub fn new(entries: Vec<Entry>) -> Result<Self, ManifestError> {
        refuse_collisions(&entries)?;
        let mut totals = Totals {
            files: entries.len() as u64,
            bytes: 0,
        };
        for entry in &entries {
            totals.bytes = totals
                .bytes
                .checked_add(entry.bytes)
                .ok_or(ManifestError::SizeOverflow)?;
        }
        let by_path = entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (entry.path.clone(), index))
            .collect();
        Ok(Self {
            entries,
            by_path,
            totals,
        })
    }

    /// The same files, ordered by path bytes: the order in which this crate writes.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        self.by_path = self
            .entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (entry.path.clone(), index))
            .collect();
        self
    }

    /// The files in the order of the list.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The files one after the other.
    pub fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// The file at exactly this path.
    pub fn entry(&self, path: &str) -> Option<&Entry> {
        self.by_path.get(path).map(|&index| &self.entries[index])
    }

    /// Number of files and sum of sizes, as counted from the entries.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Refuses an inventory that lists itself or a file that is made after it: no digest can then be right, or each
    /// hangs on the other.
    ///
    /// # Errors
    /// [`ManifestError::Cycle`] naming `own` and the listed path.
    pub fn refuse_listing(&self, own: &str, later: &[&str]) -> Result<(), ManifestError> {
        match std::iter::once(&own)
            .chain(later)
            .find(|path| self.lists_folded(path))
        {
            None => Ok(()),
            Some(listed) => Err(ManifestError::Cycle {
                inventory: own.to_owned(),
                listed: (*listed).to_owned(),
            }),
        }
    }

    fn lists_folded(&self, path: &str) -> bool {
        let folded = crate::path::fold(path);
        self.entries.iter().any(|entry| entry.path.fold() == folded)
    }
}

impl TryFrom<Vec<Entry>> for Inventory {
    type Error = ManifestError;

    fn try_from(entries: Vec<Entry>) -> Result<Self, ManifestError> {
        Self::new(entries)
    }
}

impl From<Inventory> for Vec<Entry> {
    fn from(inventory: Inventory) -> Self {
        inventory.entries
    }
}

impl<'a> IntoIterator for &'a Inventory {
    type Item = &'a Entry;
    type IntoIter = std::slice::Iter<'a, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn refuse_collisions(entries: &[Entry]) -> Result<(), ManifestError> {
    let mut files: BTreeMap<String, &PackagePath> = BTreeMap::new();
    for entry in entries {
        if let Some(first) = files.insert(entry.path.fold(), &entry.path) {
            return Err(ManifestError::SameName {
                first: first.to_string(),
                second: entry.path.to_string(),
            });
        }
    }
    for (folded, path) in &files {
        let mut rest = folded.as_str();
        while let Some((folder, _)) = rest.rsplit_once('/') {
            if let Some(file) = files.get(folder) {
                return Err(ManifestError::FileAndFolder {
                    file: file.to_string(),
                    below: path.to_string(),
                });
            }
            rest = folder;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, bytes: u64) -> Entry {
        Entry {
            path: path.parse().unwrap(),
            bytes,
            sha256: Sha256Digest::of(path.as_bytes()),
        }
    }

    fn of(paths: &[&str]) -> Result<Inventory, ManifestError> {
        Inventory::new(paths.iter().map(|path| entry(path, 1)).collect())
    }

    #[test]
    fn names_that_differ_by_case_or_composition_are_refused() {
        for pair in [
            ["a", "a"],
            ["a/B.json", "A/b.json"],
            ["caf\u{e9}", "cafe\u{301}"],
            ["STRASSE", "stra\u{df}e"],
        ] {
            match of(&pair) {
                Err(ManifestError::SameName { first, second }) => {
                    assert_eq!([first.as_str(), second.as_str()], pair);
                }
                other => panic!("{pair:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_file_cannot_be_a_folder_too() {
        for pair in [["a", "a/b"], ["A/b/c/d", "a/B"]] {
            assert!(
                matches!(of(&pair), Err(ManifestError::FileAndFolder { .. })),
                "{pair:?}"
            );
        }
        assert!(of(&["a/b", "a/c", "a.b", "ab"]).is_ok());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let entries = vec![entry("a", u64::MAX), entry("b", 1)];
        assert!(matches!(
            Inventory::new(entries),
            Err(ManifestError::SizeOverflow)
        ));
    }

    #[test]
    fn an_inventory_may_not_list_itself_nor_what_comes_after_it() {
        let inventory = of(&["a", "SHA256sums"]).unwrap();
        assert!(inventory.refuse_listing("b", &["c"]).is_ok());
        for (own, later) in [("a", vec![]), ("release-manifest.json", vec!["SHA256SUMS"])] {
            match inventory.refuse_listing(own, &later) {
                Err(ManifestError::Cycle { inventory, .. }) => assert_eq!(inventory, own),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_order_is_kept_until_it_is_sorted() {
        let inventory = of(&["b", "a"]).unwrap();
        assert_eq!(inventory.entries()[0].path.as_str(), "b");
        let sorted = inventory.sorted();
        assert_eq!(sorted.entries()[0].path.as_str(), "a");
        assert_eq!(sorted.entry("b").unwrap().path.as_str(), "b");
    }

    #[test]
    fn json_is_checked_as_it_is_read() {
        let digest = "0".repeat(64);
        let json = |path: &str| format!(r#"[{{"path":"{path}","bytes":1,"sha256":"{digest}"}}]"#);
        assert!(serde_json::from_str::<Inventory>(&json("a/b")).is_ok());
        let error = serde_json::from_str::<Inventory>(&json("a/../b")).unwrap_err();
        assert!(error.to_string().contains("path \"a/../b\""), "{error}");
    }
}
