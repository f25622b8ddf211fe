//! A branch or tag becomes a commit, once.

use std::fs;
use std::path::Path;

use native_manifest::{CommitId, RepoId, Revision};
use serde::Deserialize;

use crate::endpoint::without_secrets;
use crate::error::FetchError;
use crate::hf_cache::HfCache;
use crate::http::Http;
use crate::layout::{reference, write_whole};
use crate::progress::Progress;

/// Longest answer about a revision, in bytes: the Hub adds the whole model card.
const LONGEST_ANSWER: usize = 64 << 20;

#[derive(Deserialize)]
struct ModelInfo {
    sha: String,
}

/// Asks the Hub, and remembers the answer for offline runs where the cache can be written.
pub(crate) async fn online(
    http: &Http,
    cache_root: &Path,
    repo: &RepoId,
    revision: &Revision,
    progress: &dyn Progress,
) -> Result<CommitId, FetchError> {
    let what = format!("revision {revision} of {repo}");
    let url = http.options.endpoint.revision(repo, revision);
    let answer = http.document(&what, &url, LONGEST_ANSWER, progress).await?;
    let (answer, _) = answer.ok_or_else(|| FetchError::Status {
        url: without_secrets(&url),
        status: 404,
        hint: Some("no such repository or revision, or it is private".to_owned()),
    })?;
    let unreadable = |reason: String| FetchError::Metadata {
        what: what.clone(),
        reason,
    };
    let info: ModelInfo = serde_json::from_slice(&answer).map_err(|e| unreadable(e.to_string()))?;
    let commit: CommitId = info
        .sha
        .parse()
        .map_err(|_| unreadable("the answer names no commit".to_owned()))?;
    let note = reference(cache_root, repo, revision);
    if let Err(error) = write_whole(cache_root, &note, format!("{commit}\n").as_bytes()) {
        tracing::warn!(%error, "the revision is not remembered for offline runs");
    }
    Ok(commit)
}

/// What the revision was when somebody last asked: this crate, or a Hugging Face client.
pub(crate) fn offline(
    cache_root: &Path,
    hf_cache: Option<&HfCache>,
    repo: &RepoId,
    revision: &Revision,
) -> Result<CommitId, FetchError> {
    let own = fs::read_to_string(reference(cache_root, repo, revision))
        .ok()
        .and_then(|t| t.trim().parse().ok());
    own.or_else(|| hf_cache?.commit(repo, revision))
        .ok_or_else(|| FetchError::OfflineRevision {
            repo: repo.to_string(),
            revision: revision.to_string(),
        })
}
