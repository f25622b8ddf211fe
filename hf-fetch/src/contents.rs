//! Which files a commit consists of: the inventory of a native package, or the file list of an ordinary repository.

use std::fs;
use std::io;
use std::path::Path;

use bytes::Bytes;
use native_manifest::{CommitId, PackagePath, RepoId, Sha256Digest};
use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::endpoint::without_secrets;
use crate::error::{FetchError, IoContext};
use crate::http::Http;
use crate::layout::{Layout, write_whole};
use crate::progress::Progress;

/// Name of the inventory of a native package.
pub(crate) use native_manifest::schema::RELEASE_FILE;

/// Longest inventory or page of a file list that is read, in bytes.
const LONGEST_DOCUMENT: usize = 64 << 20;
/// Pages of a file list, a thousand files each.
const MOST_PAGES: usize = 1000;

/// A file that belongs to a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its name.
    pub path: PackagePath,
    /// Its length.
    pub bytes: u64,
    /// What its bytes must hash to.
    pub digest: Digest,
}

/// Where the list of files comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// `runtime-release.json` at the commit: a native package.
    Release,
    /// The Hub's own list: an ordinary repository.
    Repository,
}

/// All files of a commit, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Where the list comes from.
    pub origin: Origin,
    /// The files. A native package's own `runtime-release.json` is among them.
    pub files: Vec<Wanted>,
}

impl Contents {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reads what an earlier run wrote down, `None` when there was none.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>, FetchError> {
        let file = layout.inventory();
        match fs::read(&file) {
            // A damaged list is as good as none: it is asked for again.
            Ok(text) => Ok(serde_json::from_slice::<Self>(&text)
                .ok()
                .filter(|c| check_names(&c.files).is_ok())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).at("reading", &file),
        }
    }

    pub(crate) fn write(&self, root: &Path, layout: &Layout) -> Result<(), FetchError> {
        let text = serde_json::to_vec(self).map_err(|e| FetchError::Metadata {
            what: "list of files".to_owned(),
            reason: e.to_string(),
        })?;
        write_whole(root, &layout.inventory(), &text)
    }

    /// The contents that a `runtime-release.json` claims, with that file itself.
    pub(crate) fn of_release(document: &[u8]) -> Result<Self, FetchError> {
        let release =
            native_manifest::RuntimeRelease::parse(document).map_err(FetchError::Inventory)?;
        let own = PackagePath::parse(RELEASE_FILE).map_err(FetchError::Inventory)?;
        let mut files: Vec<Wanted> = release
            .inventory
            .entries()
            .iter()
            .map(|entry| Wanted {
                path: entry.path.clone(),
                bytes: entry.bytes,
                digest: Digest::Sha256(entry.sha256),
            })
            .filter(|file| file.path != own)
            .collect();
        let digest = Digest::Sha256(Sha256Digest::of(document));
        files.push(Wanted {
            path: own,
            bytes: document.len() as u64,
            digest,
        });
        Self::checked(Origin::Release, files)
    }

    fn checked(origin: Origin, mut files: Vec<Wanted>) -> Result<Self, FetchError> {
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        check_names(&files)?;
        Ok(Self { origin, files })
    }
}

/// Asks the Hub what the commit consists of. For a native package, the bytes of its inventory come along: they need not
/// be fetched twice.
pub(crate) async fn ask(
    http: &Http,
    repo: &RepoId,
    commit: &CommitId,
    progress: &dyn Progress,
) -> Result<(Contents, Option<Bytes>), FetchError> {
    let own = PackagePath::parse(RELEASE_FILE).map_err(FetchError::Inventory)?;
    let url = http.options.endpoint.file(repo, commit, &own);
    if let Some((document, headers)) = http
        .document(RELEASE_FILE, &url, LONGEST_DOCUMENT, progress)
        .await?
    {
        check_commit(&headers, commit)?;
        if let Some(content_type) = crate::http::web_page(&headers) {
            let (url, found) = (without_secrets(&url), document.len() as u64);
            return Err(FetchError::WebPage {
                url,
                content_type,
                found,
                expected: 0,
            });
        }
        return Ok((Contents::of_release(&document)?, Some(document)));
    }
    Ok((list(http, repo, commit, progress).await?, None))
}

/// Refuses an answer for another commit. The header is absent on mirrors, and then says nothing.
pub(crate) fn check_commit(headers: &HeaderMap, commit: &CommitId) -> Result<(), FetchError> {
    let Some(found) = headers.get("x-repo-commit").and_then(|v| v.to_str().ok()) else {
        return Ok(());
    };
    let expected = commit.to_string();
    if found.eq_ignore_ascii_case(&expected) {
        return Ok(());
    }
    Err(FetchError::Commit {
        expected,
        found: found.chars().take(64).collect(),
    })
}

/// An entry of the Hub's file list (`GET /api/models/{repo}/tree/{commit}?recursive=true`).
#[derive(Deserialize)]
struct TreeEntry {
    r#type: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    oid: String,
    lfs: Option<LfsPointer>,
}

#[derive(Deserialize)]
struct LfsPointer {
    oid: Sha256Digest,
    size: u64,
}

async fn list(
    http: &Http,
    repo: &RepoId,
    commit: &CommitId,
    progress: &dyn Progress,
) -> Result<Contents, FetchError> {
    let what = "the list of files";
    let unreadable = |reason: String| FetchError::Metadata {
        what: what.to_owned(),
        reason,
    };
    let mut url = http.options.endpoint.tree(repo, commit);
    let mut files = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = http
            .document(what, &url, LONGEST_DOCUMENT, progress)
            .await?;
        let (page, headers) = page.ok_or_else(|| FetchError::Status {
            url: without_secrets(&url),
            status: 404,
            hint: Some("no such repository or commit, or it is private".to_owned()),
        })?;
        let entries: Vec<TreeEntry> =
            serde_json::from_slice(&page).map_err(|e| unreadable(e.to_string()))?;
        for entry in entries.into_iter().filter(|entry| entry.r#type == "file") {
            files.push(wanted(entry)?);
        }
        match next_page(&url, &headers).map_err(unreadable)? {
            Some(next) => url = next,
            None => return Contents::checked(Origin::Repository, files),
        }
    }
    Err(FetchError::Metadata {
        what: what.to_owned(),
        reason: format!("more than {MOST_PAGES} pages"),
    })
}

fn wanted(entry: TreeEntry) -> Result<Wanted, FetchError> {
    let path = PackagePath::parse(&entry.path).map_err(FetchError::Inventory)?;
    if let Some(lfs) = entry.lfs {
        return Ok(Wanted {
            path,
            bytes: lfs.size,
            digest: Digest::Sha256(lfs.oid),
        });
    }
    let is_name = entry.oid.len() == 40
        && entry
            .oid
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !is_name {
        let reason = format!("no digest for {:?}", entry.path);
        return Err(FetchError::Metadata {
            what: "the list of files".to_owned(),
            reason,
        });
    }
    Ok(Wanted {
        path,
        bytes: entry.size,
        digest: Digest::GitBlob(entry.oid),
    })
}

/// The address in `Link: <..>; rel="next"`. It must stay at the same origin: the token goes with it.
fn next_page(from: &Url, headers: &HeaderMap) -> Result<Option<Url>, String> {
    let Some(link) = headers.get(LINK).and_then(|v| v.to_str().ok()) else {
        return Ok(None);
    };
    let next = link.split(',').find(|l| {
        l.split(';')
            .skip(1)
            .any(|p| matches!(p.trim(), "rel=\"next\"" | "rel=next"))
    });
    let Some(next) = next else { return Ok(None) };
    let address = next.split(';').next().unwrap_or_default().trim();
    let address = address
        .strip_prefix('<')
        .and_then(|a| a.strip_suffix('>'))
        .ok_or("the link to the next page is odd")?;
    let url = from
        .join(address)
        .map_err(|e| format!("the link to the next page: {e}"))?;
    if url.origin() != from.origin() {
        return Err("the next page lies at another origin".to_owned());
    }
    Ok(Some(url))
}

/// Two names that some file system takes for one, or a file that is another file's folder.
fn check_names(files: &[Wanted]) -> Result<(), FetchError> {
    let refuse = |a: &PackagePath, b: &PackagePath, why: &str| {
        let reason = format!("{:?} and {:?} {why}", a.as_str(), b.as_str());
        Err(FetchError::Metadata {
            what: "the list of files".to_owned(),
            reason,
        })
    };
    let mut folded: Vec<(String, &PackagePath)> = files
        .iter()
        .map(|file| (file.path.fold(), &file.path))
        .collect();
    // With '/' below every other character a folder's files follow the file of its name at once.
    folded.sort_unstable_by(|(a, _), (b, _)| a.split('/').cmp(b.split('/')));
    for pair in folded.windows(2) {
        let [(a, a_path), (b, b_path)] = pair else {
            continue;
        };
        if a == b {
            return refuse(a_path, b_path, "name one file on some systems");
        }
        if b.strip_prefix(a.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
        {
            return refuse(a_path, b_path, "cannot both exist");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn file(path: &str) -> Wanted {
        let digest = Digest::Sha256(Sha256Digest::of(b""));
        Wanted {
            path: PackagePath::parse(path).unwrap(),
            bytes: 0,
            digest,
        }
    }

    #[test]
    fn names_that_collide_are_refused() {
        for (a, b) in [
            ("a", "a"),
            ("A", "a"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("a", "a/b"),
            ("A", "a/b/c"),
        ] {
            // `a-b` sorts between `a` and `a/b` byte by byte.
            let files = vec![file(a), file("a-b"), file(b)];
            assert!(
                matches!(
                    Contents::checked(Origin::Release, files),
                    Err(FetchError::Metadata { .. })
                ),
                "{a} {b}"
            );
        }
        assert!(
            Contents::checked(Origin::Release, vec![file("a/b"), file("a/c"), file("ab")]).is_ok()
        );
    }

    #[test]
    fn the_next_page_is_followed_at_the_same_origin_only() {
        let from = Url::parse("https://hub.example/api/models/a/b/tree/x").unwrap();
        let next = |link: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LINK, HeaderValue::from_str(link).unwrap());
            next_page(&from, &headers)
        };
        let good = "<https://hub.example/api/x?cursor=1>; rel=\"next\"";
        assert_eq!(next(good).unwrap().unwrap().query(), Some("cursor=1"));
        assert_eq!(
            next("</api/x?cursor=2>; rel=next")
                .unwrap()
                .unwrap()
                .query(),
            Some("cursor=2")
        );
        assert_eq!(next("<https://hub.example/x>; rel=\"prev\"").unwrap(), None);
        assert!(next("<https://evil.example/x>; rel=\"next\"").is_err());
    }
}
