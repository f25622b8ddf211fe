//! An existing Hugging Face cache as a source of bytes. It is read and never written.
//!
//! Layout (`huggingface_hub`): `models--<owner>--<name>/{refs/<revision>, snapshots/<commit>/<path>, blobs/<etag>}`,
//! where the files of a snapshot are symbolic links to blobs. A blob's name is a claim; the bytes are hashed like those
//! from the network.

use std::fs;
use std::path::{Path, PathBuf};

use native_manifest::{CommitId, RepoId, Revision};

use crate::contents::Wanted;
use crate::digest::Digest;

/// The `hub` folder of a Hugging Face cache.
#[derive(Clone, Debug)]
pub(crate) struct HfCache(PathBuf);

impl HfCache {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The commit that a Hugging Face client last saw for the revision.
    pub(crate) fn commit(&self, repo: &RepoId, revision: &Revision) -> Option<CommitId> {
        let text =
            fs::read_to_string(self.repository(repo).join("refs").join(revision.as_str())).ok()?;
        text.trim().parse().ok()
    }

    /// A file that has the right length and probably the right bytes. Links are followed: they are how this cache works.
    pub(crate) fn find(&self, repo: &RepoId, commit: &CommitId, file: &Wanted) -> Option<PathBuf> {
        let repository = self.repository(repo);
        let linked = file
            .path
            .join_to(repository.join("snapshots").join(commit.to_string()));
        let blob = match &file.digest {
            Digest::Sha256(digest) => digest.to_string(),
            Digest::GitBlob(name) => name.clone(),
        };
        [linked, repository.join("blobs").join(blob)]
            .into_iter()
            .find(|path| {
                fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == file.bytes)
            })
    }

    /// A small file of a snapshot, whole.
    pub(crate) fn read(&self, repo: &RepoId, commit: &CommitId, name: &str) -> Option<Vec<u8>> {
        fs::read(
            self.repository(repo)
                .join("snapshots")
                .join(commit.to_string())
                .join(name),
        )
        .ok()
    }

    fn repository(&self, repo: &RepoId) -> PathBuf {
        self.0
            .join(format!("models--{}--{}", repo.owner(), repo.name()))
    }
}
