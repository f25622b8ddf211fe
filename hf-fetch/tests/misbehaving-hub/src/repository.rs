//! A repository at one commit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use sha2::Digest as _;

use crate::content::Content;

/// A commit for tests that need only one.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The image that packages name.
pub const IMAGE: &str = "registry.example/qwen35/runtime@sha256:abababababababababababababababababababababababababababababababab";

/// A commit made from a number.
#[must_use]
pub fn commit(number: u64) -> String {
    format!("{number:040x}")
}

/// Hexadecimal SHA-256 of a content.
#[must_use]
pub fn sha256(content: &Content) -> String {
    let mut hasher = sha2::Sha256::new();
    content.for_each(|piece| hasher.update(piece));
    hex(&hasher.finalize())
}

/// Git's name of a content.
#[must_use]
pub fn git_blob(content: &Content) -> String {
    let mut hasher = sha1::Sha1::new();
    hasher.update(format!("blob {}\0", content.bytes()));
    content.for_each(|piece| hasher.update(piece));
    hex(&hasher.finalize())
}

/// Files of one commit, and the revisions that name it.
#[derive(Clone, Debug)]
pub struct Repository {
    /// `owner/name`.
    pub id: String,
    /// The commit that every revision resolves to.
    pub commit: String,
    /// Files by path.
    pub files: BTreeMap<String, Content>,
    /// Files that the list calls large, with SHA-256.
    pub lfs: Vec<String>,
    /// Entries of a page of the file list.
    pub page: usize,
    /// The token that must be sent, if any.
    pub token: Option<String>,
}

impl Repository {
    /// An ordinary repository.
    #[must_use]
    pub fn new(id: &str, commit: &str, files: impl IntoIterator<Item = (String, Content)>) -> Self {
        let files = files.into_iter().collect();
        Self {
            id: id.to_owned(),
            commit: commit.to_owned(),
            files,
            lfs: Vec::new(),
            page: 1000,
            token: None,
        }
    }

    /// A native package: the files, and a `runtime-release.json` with their sizes and digests.
    #[must_use]
    pub fn package(
        id: &str,
        commit: &str,
        files: impl IntoIterator<Item = (String, Content)>,
    ) -> Self {
        let mut repository = Self::new(id, commit, files);
        let inventory: Vec<_> = repository
            .files
            .iter()
            .map(|(path, content)| json!({"path": path, "bytes": content.bytes(), "sha256": sha256(content)}))
            .collect();
        repository.release(&serde_json::Value::Array(inventory));
        repository
    }

    /// Puts a `runtime-release.json` with this inventory there.
    pub fn release(&mut self, inventory: &serde_json::Value) {
        let document = json!({
            "format": "tt-native/1",
            "release": "test-1",
            "repository": self.id,
            "image": IMAGE,
            "inventory": inventory,
        });
        let text = serde_json::to_vec_pretty(&document).unwrap_or_default();
        self.files
            .insert("runtime-release.json".to_owned(), text.into());
    }

    /// A page of the file list, and whether another follows.
    pub(crate) fn tree(&self, page: usize) -> (serde_json::Value, bool) {
        let entries = self.files.iter().skip(page * self.page).take(self.page).map(|(path, content)| {
            let mut entry = json!({
                "type": "file", "path": path, "size": content.bytes(), "oid": git_blob(content),
            });
            if self.lfs.contains(path) {
                entry["lfs"] = json!({"oid": sha256(content), "size": content.bytes(), "pointerSize": 135});
            }
            entry
        });
        let entries: Vec<_> = entries
            .chain([json!({"type": "directory", "path": "x", "size": 0, "oid": ""})])
            .collect();
        (entries.into(), (page + 1) * self.page < self.files.len())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
