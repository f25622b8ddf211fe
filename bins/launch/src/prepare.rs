//! From a repository and a revision to a verified folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hf_fetch::{Fetcher, Plan, Progress};
use native_manifest::{CommitId, RepoId, RuntimeRelease};
use qwen35_fetch::display;
use qwen35_fetch::environment::Environment;

use crate::args::LaunchArgs;
use crate::error::LaunchError;

/// A package that will be served, and what its release says.
#[derive(Debug)]
pub(crate) struct Package {
    /// Folder with `runtime-release.json` and `checkpoint/`.
    pub(crate) folder: PathBuf,
    /// What the release says of itself.
    pub(crate) release: RuntimeRelease,
    /// The commit it was fetched at; `None` for a folder of the user's own.
    pub(crate) commit: Option<CommitId>,
    /// Tells this package from others in names: twelve digits of the commit, or the folder's name.
    pub(crate) short_name: String,
    /// What is still to be done; `None` when the folder is complete.
    pub(crate) pending: Option<(Fetcher, Plan)>,
}

/// Finds out which package it is. Fetches the inventory at most.
pub(crate) async fn identify(
    args: &LaunchArgs,
    environment: &Environment,
    progress: &Arc<dyn Progress>,
) -> Result<Package, LaunchError> {
    match (&args.package, &args.repository) {
        (Some(folder), _) => local(folder),
        (None, Some(repo)) => remote(args, repo, environment, progress).await,
        (None, None) => local(Path::new(".")),
    }
}

fn local(folder: &Path) -> Result<Package, LaunchError> {
    let refuse = |source| LaunchError::Package {
        package: folder.to_owned(),
        source,
    };
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| LaunchError::Io {
            doing: "reading",
            path: path.to_owned(),
            source,
        })
    };
    let document = read(&folder.join(native_manifest::schema::RELEASE_FILE))?;
    let release = RuntimeRelease::parse(&document).map_err(refuse)?;
    let folder = std::fs::canonicalize(folder).map_err(|source| LaunchError::Io {
        doing: "finding",
        path: folder.to_owned(),
        source,
    })?;
    let name = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let short_name = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect();
    Ok(Package {
        folder,
        release,
        commit: None,
        short_name,
        pending: None,
    })
}

async fn remote(
    args: &LaunchArgs,
    repo: &RepoId,
    environment: &Environment,
    progress: &Arc<dyn Progress>,
) -> Result<Package, LaunchError> {
    let hub = environment.hub_options(args.fetch.endpoint.as_deref())?;
    let options = environment.fetch_options(&args.fetch)?;
    let fetcher = Fetcher::new(hub, options)?;
    let revision = match &args.revision {
        Some(revision) => revision.clone(),
        None => "main".parse().map_err(hf_fetch::FetchError::Inventory)?,
    };
    let commit = fetcher.resolve(repo, &revision, &**progress).await?;
    let _ = writeln!(std::io::stdout(), "Revision: {commit}");
    let plan = fetcher.plan(repo, &commit, &**progress).await?;
    let document = fetcher.release_document(&plan, &**progress).await?;
    let document = document.ok_or_else(|| LaunchError::NotNative {
        repo: repo.to_string(),
    })?;
    let folder = plan.snapshot.clone();
    let release = RuntimeRelease::parse(&document).map_err(|source| LaunchError::Package {
        package: folder.clone(),
        source,
    })?;
    let short_name = commit.to_string()[..12].to_owned();
    Ok(Package {
        folder,
        release,
        commit: Some(commit),
        short_name,
        pending: Some((fetcher, plan)),
    })
}

impl Package {
    /// Fetches and verifies what is missing.
    pub(crate) async fn complete(
        &mut self,
        progress: &Arc<dyn Progress>,
    ) -> Result<(), LaunchError> {
        if let Some((fetcher, plan)) = self.pending.take() {
            self.folder = fetcher.run(plan, progress).await?.folder;
        }
        Ok(())
    }

    /// Bytes that are still to be written.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.pending
            .as_ref()
            .map_or(0, |(_, plan)| plan.disk_bytes())
    }

    /// Bytes of the whole package.
    pub(crate) fn bytes(&self) -> u64 {
        self.release.inventory.totals().bytes
    }
}

/// The display that fits this terminal.
pub(crate) fn display(environment: &Environment) -> Arc<dyn Progress> {
    display::fitting(false, environment.disables_bars())
}
