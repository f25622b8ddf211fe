//! Where a Hub is, and the addresses of its documents.

use std::fmt;

use native_manifest::{CommitId, PackagePath, RepoId, Revision};
use reqwest::Url;

use crate::error::FetchError;

/// Base address of a Hub, `https://huggingface.co` for the public one.
///
/// Addresses follow the Hub's HTTP interface: `/api/models/{repo}/revision/{rev}`,
/// `/api/models/{repo}/tree/{commit}` and `/{repo}/resolve/{commit}/{path}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// The public Hub.
    pub const PUBLIC: &'static str = "https://huggingface.co";

    /// Reads a base address. A path is kept, so a mirror below a prefix works.
    ///
    /// # Errors
    ///
    /// [`FetchError::Endpoint`] when it is no `http` or `https` address, has no host, or carries a query, a fragment or
    /// credentials.
    pub fn parse(given: &str) -> Result<Self, FetchError> {
        let refuse = |reason: String| FetchError::Endpoint {
            given: without_secrets_text(given),
            reason,
        };
        let mut url = Url::parse(given.trim()).map_err(|e| refuse(e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(refuse(
                "only http and https addresses with a host are possible".to_owned(),
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse(
                "credentials belong into the token, not into the address".to_owned(),
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refuse(
                "a base address has no query and no fragment".to_owned(),
            ));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    pub(crate) fn revision(&self, repo: &RepoId, revision: &Revision) -> Url {
        self.join(
            ["api", "models"]
                .into_iter()
                .chain(repo.as_str().split('/'))
                .chain(["revision", revision.as_str()]),
        )
    }

    pub(crate) fn tree(&self, repo: &RepoId, commit: &CommitId) -> Url {
        let commit = commit.to_string();
        let mut url = self.join(
            ["api", "models"]
                .into_iter()
                .chain(repo.as_str().split('/'))
                .chain(["tree", commit.as_str()]),
        );
        url.set_query(Some("recursive=true"));
        url
    }

    pub(crate) fn file(&self, repo: &RepoId, commit: &CommitId, path: &PackagePath) -> Url {
        let commit = commit.to_string();
        self.join(
            repo.as_str()
                .split('/')
                .chain(["resolve", commit.as_str()])
                .chain(path.parts()),
        )
    }

    /// Appends segments, each percent-encoded as one segment: a slash in a branch name becomes `%2F`.
    fn join<'a>(&self, segments: impl Iterator<Item = &'a str>) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.0)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_str().trim_end_matches('/'))
    }
}

/// The address as it may be shown: no query, no fragment, no credentials.
pub(crate) fn without_secrets(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // Both fail only for addresses that cannot have credentials.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.to_string()
}

fn without_secrets_text(given: &str) -> String {
    Url::parse(given.trim()).map_or_else(|_| given.to_owned(), |url| without_secrets(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit() -> CommitId {
        "0123456789abcdef0123456789abcdef01234567"
            .parse::<CommitId>()
            .unwrap()
    }

    #[test]
    fn addresses_are_those_of_the_hub() {
        let hub = Endpoint::parse("https://hub.example/").unwrap();
        let repo = "owner/name".parse::<RepoId>().unwrap();
        let main = "main".parse::<Revision>().unwrap();
        assert_eq!(
            hub.revision(&repo, &main).as_str(),
            "https://hub.example/api/models/owner/name/revision/main"
        );
        let branch = "refs/pr/1".parse::<Revision>().unwrap();
        assert_eq!(
            hub.revision(&repo, &branch).as_str(),
            "https://hub.example/api/models/owner/name/revision/refs%2Fpr%2F1"
        );
        let path = PackagePath::parse("a/b [1].bin").unwrap();
        assert_eq!(
            hub.file(&repo, &commit(), &path).path(),
            "/owner/name/resolve/0123456789abcdef0123456789abcdef01234567/a/b%20[1].bin"
        );
    }

    #[test]
    fn a_mirror_below_a_prefix_keeps_the_prefix() {
        let hub = Endpoint::parse("http://mirror.example/hf/").unwrap();
        let repo = "owner/name".parse::<RepoId>().unwrap();
        let url = hub.tree(&repo, &commit());
        assert!(
            url.as_str()
                .starts_with("http://mirror.example/hf/api/models/owner/name/tree/0123")
        );
        assert_eq!(hub.to_string(), "http://mirror.example/hf");
    }

    #[test]
    fn odd_endpoints_are_refused_and_their_secrets_not_repeated() {
        for given in [
            "ftp://x/",
            "nonsense",
            "https://u:secret@x/",
            "https://x/?token=secret",
            "file:///etc",
        ] {
            let error = Endpoint::parse(given).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
