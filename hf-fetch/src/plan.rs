//! What is missing, and what it will cost, before the first byte is asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use native_manifest::{CommitId, RepoId};

use crate::contents::{Contents, RELEASE_FILE, Wanted};
use crate::hf_cache::HfCache;
use crate::layout::Layout;
use crate::part::Part;
use crate::records::Records;

/// What has to be done for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// It is here and its record vouches for it.
    Nothing,
    /// It is here with the right length; its digest must be computed.
    Rehash,
    /// Its bytes came with the inventory.
    Write(Bytes),
    /// A Hugging Face cache has it.
    Copy {
        /// File in that cache.
        from: PathBuf,
    },
    /// It comes from the Hub.
    Fetch {
        /// Bytes of it that an earlier run left.
        have: u64,
    },
}

/// A file and what has to be done for it.
#[derive(Clone, Debug)]
pub struct PlannedFile {
    /// The file.
    pub file: Arc<Wanted>,
    /// What has to be done.
    pub action: Action,
}

/// Everything that has to be done for one commit. Made by [`Fetcher::plan`](crate::Fetcher::plan), and done by
/// [`Fetcher::run`](crate::Fetcher::run).
#[derive(Clone, Debug)]
pub struct Plan {
    /// Repository.
    pub repo: RepoId,
    /// Commit.
    pub commit: CommitId,
    /// Folder that the files will stand in.
    pub snapshot: PathBuf,
    /// Whether that folder exists.
    pub published: bool,
    /// What the commit consists of.
    pub contents: Contents,
    /// One entry a file, in the order of the contents.
    pub files: Vec<PlannedFile>,
    pub(crate) release_document: Option<Bytes>,
}

impl Plan {
    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.published && self.files.iter().all(|f| f.action == Action::Nothing)
    }

    /// Whether every file is here, though some must be hashed again.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.published
            && self
                .files
                .iter()
                .all(|f| matches!(f.action, Action::Nothing | Action::Rehash))
    }

    /// Files that are not complete here.
    pub fn missing(&self) -> impl Iterator<Item = &PlannedFile> {
        self.files
            .iter()
            .filter(|f| !matches!(f.action, Action::Nothing | Action::Rehash))
    }

    /// Bytes that will come from the Hub.
    #[must_use]
    pub fn fetch_bytes(&self) -> u64 {
        self.files
            .iter()
            .map(|f| {
                if let Action::Fetch { have } = f.action {
                    f.file.bytes - have
                } else {
                    0
                }
            })
            .sum()
    }

    /// Bytes that will be copied from a Hugging Face cache.
    #[must_use]
    pub fn copy_bytes(&self) -> u64 {
        self.files
            .iter()
            .filter(|f| matches!(f.action, Action::Copy { .. }))
            .map(|f| f.file.bytes)
            .sum()
    }

    /// Bytes that will be written to the disk of the cache.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let written = self
            .files
            .iter()
            .filter(|f| matches!(f.action, Action::Write(_)))
            .map(|f| f.file.bytes);
        self.fetch_bytes() + self.copy_bytes() + written.sum::<u64>()
    }
}

/// What a plan is made from.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) repo: RepoId,
    pub(crate) commit: CommitId,
    pub(crate) layout: Layout,
    pub(crate) contents: Contents,
    pub(crate) release_document: Option<Bytes>,
    pub(crate) hf_cache: Option<HfCache>,
    pub(crate) reverify: bool,
}

/// Looks at the disk. Nothing is written and nothing is hashed.
pub(crate) fn examine(question: Question) -> (Plan, Records) {
    let records = Records::read(&question.layout.records());
    let snapshot = question.layout.snapshot();
    let published = fs::symlink_metadata(&snapshot).is_ok_and(|found| found.is_dir());
    let base = if published {
        snapshot.clone()
    } else {
        question.layout.files()
    };
    let files = question.contents.files.iter().map(|file| {
        let action = action(&question, &records, &base, file);
        PlannedFile {
            file: Arc::new(file.clone()),
            action,
        }
    });
    let files = files.collect();
    let Question {
        repo,
        commit,
        contents,
        release_document,
        ..
    } = question;
    (
        Plan {
            repo,
            commit,
            snapshot,
            published,
            contents,
            files,
            release_document,
        },
        records,
    )
}

fn action(question: &Question, records: &Records, base: &Path, file: &Wanted) -> Action {
    let found = fs::symlink_metadata(file.path.join_to(base));
    if let Ok(found) = found
        && found.is_file()
        && found.len() == file.bytes
    {
        let known = !question.reverify && records.vouch_for(&file.path, &found, &file.digest.hex());
        return if known {
            Action::Nothing
        } else {
            Action::Rehash
        };
    }
    if file.path.as_str() == RELEASE_FILE
        && let Some(document) = &question.release_document
    {
        return Action::Write(document.clone());
    }
    if let Some(from) = question
        .hf_cache
        .as_ref()
        .and_then(|c| c.find(&question.repo, &question.commit, file))
    {
        return Action::Copy { from };
    }
    Action::Fetch {
        have: Part::peek(&question.layout.part(&file.path), file.bytes),
    }
}
