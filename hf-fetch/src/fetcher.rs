//! Resolve, plan, run: the front of the crate.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use native_manifest::{CommitId, RepoId, Revision, Sha256Digest};
use tokio::sync::Semaphore;

use crate::contents::{self, Contents, Origin, RELEASE_FILE, Wanted};
use crate::digest::Digest;
use crate::error::{FetchError, IoContext};
use crate::hf_cache::HfCache;
use crate::http::Http;
use crate::layout::Layout;
use crate::local::{self, Rehashed};
use crate::lock::Lock;
use crate::options::{FetchOptions, HubOptions};
use crate::plan::{Action, Plan, PlannedFile, Question, examine};
use crate::progress::{Event, Progress};
use crate::publish;
use crate::records::Records;
use crate::resolve;
use crate::sink::Site;
use crate::transfer::Transfers;

/// A whole, verified commit on disk.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// Repository.
    pub repo: RepoId,
    /// Commit.
    pub commit: CommitId,
    /// Folder of the files. Nobody writes there any more; the files are read-only.
    pub folder: PathBuf,
    /// The files.
    pub contents: Contents,
    /// Bytes of file content that came over the network, the wasted ones included.
    pub received: u64,
}

/// Fetches commits from one Hub into one cache.
///
/// Dropping the future of any method cancels it: connections close, begun files stay for the next run, and the lock is
/// released when the last write has ended.
#[derive(Debug)]
pub struct Fetcher {
    http: Http,
    options: FetchOptions,
}

impl Fetcher {
    /// Prepares the connections; makes none.
    ///
    /// # Errors
    ///
    /// [`FetchError::Setting`] for proxies or certificates that cannot be used.
    pub fn new(hub: HubOptions, options: FetchOptions) -> Result<Self, FetchError> {
        Ok(Self {
            http: Http::new(hub)?,
            options,
        })
    }

    /// Turns a branch, tag or commit into a commit. A full commit needs no request.
    ///
    /// # Errors
    ///
    /// [`FetchError::Status`] for an unknown or private revision, [`FetchError::OfflineRevision`] offline, and whatever
    /// the connection does.
    pub async fn resolve(
        &self,
        repo: &RepoId,
        revision: &Revision,
        progress: &dyn Progress,
    ) -> Result<CommitId, FetchError> {
        let commit = match revision.commit() {
            Some(commit) => commit,
            None if self.options.offline => resolve::offline(
                &self.options.cache_root,
                self.hf_cache().as_ref(),
                repo,
                revision,
            )?,
            None => {
                resolve::online(
                    &self.http,
                    &self.options.cache_root,
                    repo,
                    revision,
                    progress,
                )
                .await?
            }
        };
        progress.report(&Event::Resolved {
            repo,
            commit: &commit,
        });
        Ok(commit)
    }

    /// Finds out what the commit consists of and what of it is missing here. Fetches the inventory, if it is not here, and
    /// no other file; writes nothing.
    ///
    /// # Errors
    ///
    /// Whatever the connection does; [`FetchError::Inventory`] and [`FetchError::Metadata`] for an inventory that breaks
    /// a rule; [`FetchError::OfflineMissing`] offline when the inventory is not here.
    pub async fn plan(
        &self,
        repo: &RepoId,
        commit: &CommitId,
        progress: &dyn Progress,
    ) -> Result<Plan, FetchError> {
        let layout = Layout::new(&self.options.cache_root, repo, commit);
        let hf_cache = self.hf_cache();
        let (contents, release_document) = match Contents::read(&layout)? {
            Some(contents) => (contents, None),
            None if self.options.offline => {
                let document = hf_cache
                    .as_ref()
                    .and_then(|c| c.read(repo, commit, RELEASE_FILE));
                let document = document.ok_or_else(|| FetchError::OfflineMissing {
                    missing: 1,
                    files: 1,
                    first: format!("the inventory of {repo} at {commit}"),
                })?;
                (Contents::of_release(&document)?, Some(document.into()))
            }
            None => contents::ask(&self.http, repo, commit, progress).await?,
        };
        let question = Question {
            repo: repo.clone(),
            commit: *commit,
            layout,
            contents,
            release_document,
            hf_cache,
            reverify: self.options.reverify,
        };
        let (plan, _) = blocking(move || Ok(examine(question))).await?;
        progress.report(&Event::Planned {
            files: plan.files.len(),
            bytes: plan.contents.bytes(),
            missing_files: plan.missing().count(),
            fetch_bytes: plan.fetch_bytes(),
            copy_bytes: plan.copy_bytes(),
            disk_bytes: plan.disk_bytes(),
        });
        Ok(plan)
    }

    /// The `runtime-release.json` of a native package, checked against the contents; `None` for any other repository.
    ///
    /// It came with the plan, stands in the cache, or is fetched again: no other file is.
    ///
    /// # Errors
    ///
    /// [`FetchError::Digest`] when it is another than the contents were made from; [`FetchError::OfflineMissing`]; whatever
    /// the connection does.
    pub async fn release_document(
        &self,
        plan: &Plan,
        progress: &dyn Progress,
    ) -> Result<Option<Bytes>, FetchError> {
        let release = plan.files.iter().map(|planned| &planned.file);
        let Some(file) = release
            .into_iter()
            .find(|file| file.path.as_str() == RELEASE_FILE)
        else {
            return Ok(None);
        };
        if plan.contents.origin != Origin::Release {
            return Ok(None);
        }
        if let Some(document) = &plan.release_document {
            return Ok(Some(document.clone()));
        }
        let is_right = |document: &[u8]| Digest::Sha256(Sha256Digest::of(document)) == file.digest;
        let layout = Layout::new(&self.options.cache_root, &plan.repo, &plan.commit);
        for folder in [layout.snapshot(), layout.files()] {
            match std::fs::read(file.path.join_to(folder)) {
                Ok(document) if is_right(&document) => return Ok(Some(document.into())),
                _ => {}
            }
        }
        if self.options.offline {
            let first = file.path.to_string();
            return Err(FetchError::OfflineMissing {
                missing: 1,
                files: plan.files.len(),
                first,
            });
        }
        let (_, document) = contents::ask(&self.http, &plan.repo, &plan.commit, progress).await?;
        match document {
            Some(document) if is_right(&document) => Ok(Some(document)),
            document => Err(FetchError::Digest {
                path: file.path.clone(),
                expected: file.digest.hex(),
                found: Sha256Digest::of(&document.unwrap_or_default()).to_string(),
            }),
        }
    }

    /// Does what the plan says. When it returns, every file of the commit stands verified in its folder.
    ///
    /// A plan that has nothing to do writes nothing and takes no lock, so a read-only cache serves.
    ///
    /// # Errors
    ///
    /// [`FetchError::DiskSpace`] before anything is fetched, [`FetchError::Locked`], [`FetchError::OfflineMissing`],
    /// [`FetchError::Digest`] and [`FetchError::WebPage`] for bytes that are not the file's, and whatever the connection
    /// or the disk does. What was fetched stays for the next run.
    pub async fn run(
        &self,
        plan: Plan,
        progress: &Arc<dyn Progress>,
    ) -> Result<Fetched, FetchError> {
        if plan.is_done() {
            return Ok(fetched(plan, 0));
        }
        if plan.is_here()
            && let Some(plan) = self.rehash_in_place(plan.clone(), progress).await?
        {
            return Ok(fetched(plan, 0));
        }
        let layout = Layout::new(&self.options.cache_root, &plan.repo, &plan.commit);
        if self.options.offline {
            self.refuse_if_offline(&plan)?;
        }
        self.check_space(&plan)?;
        let root = self.options.cache_root.clone();
        let clock = &*self.http.options.clock;
        let lock = Lock::acquire(
            &root,
            &layout.lock(),
            self.options.lock_wait,
            clock,
            &**progress,
        )
        .await?;
        self.run_locked(plan, layout, Arc::new(lock), progress)
            .await
    }

    async fn run_locked(
        &self,
        plan: Plan,
        layout: Layout,
        lock: Arc<Lock>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Fetched, FetchError> {
        let root = self.options.cache_root.clone();
        // Somebody else may have done it all while this process waited.
        let (plan, records) = self.examine_again(plan, layout.clone()).await?;
        if plan.is_done() {
            return Ok(fetched(plan, 0));
        }
        let records = Arc::new(Mutex::new(records));
        let contents = plan.contents.clone();
        let (note, note_root) = (layout.clone(), root.clone());
        blocking(move || contents.write(&note_root, &note)).await?;

        let (plan, records) = self
            .settle_present(plan, &layout, records, progress)
            .await?;
        if self.options.offline {
            self.refuse_if_offline(&plan)?;
        }
        self.check_space(&plan)?;
        if plan.published && plan.missing().next().is_some() {
            let (layout, root) = (layout.clone(), root.clone());
            blocking(move || publish::take_back(&root, &layout)).await?;
        }

        let received = AtomicU64::new(0);
        let site = Site {
            root: root.clone(),
            layout: layout.clone(),
            range_bytes: self.options.range_bytes,
            disk: Arc::clone(&self.options.disk),
            records: Arc::clone(&records),
            progress: Arc::clone(progress),
            _lock: lock,
        };
        let permits = Semaphore::new(self.jobs());
        let transfers = Transfers {
            http: &self.http,
            repo: &plan.repo,
            commit: &plan.commit,
            site: site.clone(),
            permits: &permits,
            jobs: self.jobs(),
            received: &received,
        };
        stream::iter(plan.missing())
            .map(|planned| obtain(&transfers, &site, planned))
            .buffer_unordered(self.jobs())
            .try_for_each(|()| async { Ok(()) })
            .await?;

        let contents = plan.contents.clone();
        let folder =
            blocking(move || publish::publish(&root, &layout, &contents, &records)).await?;
        let received = received.into_inner();
        progress.report(&Event::Published {
            folder: &folder,
            received,
        });
        Ok(fetched(plan, received))
    }

    /// Hashes a published snapshot where it stands. `None` when a file of it is not what it should be.
    async fn rehash_in_place(
        &self,
        plan: Plan,
        progress: &Arc<dyn Progress>,
    ) -> Result<Option<Plan>, FetchError> {
        let layout = Layout::new(&self.options.cache_root, &plan.repo, &plan.commit);
        let mut records = Records::read(&layout.records());
        let rehashed = self.rehash(&plan, &plan.snapshot, progress).await?;
        if rehashed.iter().any(|r| r.right.is_none()) {
            return Ok(None);
        }
        for Rehashed { file, right } in rehashed {
            let Some(found) = right else { continue };
            // A read-only cache is as good as any; it is only hashed again next time.
            if let Err(error) = records.add(
                &self.options.cache_root,
                &file.path,
                &found,
                &file.digest.hex(),
            ) {
                tracing::warn!(%error, "verified files cannot be recorded");
                break;
            }
        }
        Ok(Some(plan))
    }

    /// Hashes the files that are here without a record. Wrong ones become missing.
    async fn settle_present(
        &self,
        plan: Plan,
        layout: &Layout,
        records: Arc<Mutex<Records>>,
        progress: &Arc<dyn Progress>,
    ) -> Result<(Plan, Arc<Mutex<Records>>), FetchError> {
        if !plan.files.iter().any(|f| f.action == Action::Rehash) {
            return Ok((plan, records));
        }
        let base = if plan.published {
            plan.snapshot.clone()
        } else {
            layout.files()
        };
        let rehashed = self.rehash(&plan, &base, progress).await?;
        let root = self.options.cache_root.clone();
        let known = Arc::clone(&records);
        let wrong = blocking(move || local::take_down(&root, &base, rehashed, &known)).await?;
        let mut plan = plan;
        for planned in plan.files.iter_mut().filter(|f| f.action == Action::Rehash) {
            planned.action = Action::Nothing;
            if wrong.contains(&planned.file.path) {
                planned.action = match (
                    &plan.release_document,
                    self.copy_source(&plan.repo, &plan.commit, &planned.file),
                ) {
                    (Some(document), _) if planned.file.path.as_str() == RELEASE_FILE => {
                        Action::Write(document.clone())
                    }
                    (_, Some(from)) => Action::Copy { from },
                    _ => Action::Fetch { have: 0 },
                };
            }
        }
        Ok((plan, records))
    }

    async fn rehash(
        &self,
        plan: &Plan,
        base: &Path,
        progress: &Arc<dyn Progress>,
    ) -> Result<Vec<Rehashed>, FetchError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        stream::iter(plan.files.iter().filter(|f| f.action == Action::Rehash))
            .map(|planned| {
                let (file, base, progress) = (
                    Arc::clone(&planned.file),
                    base.to_owned(),
                    Arc::clone(progress),
                );
                blocking(move || local::rehash(file, &base, &*progress))
            })
            .buffer_unordered(threads)
            .try_collect()
            .await
    }

    async fn examine_again(
        &self,
        plan: Plan,
        layout: Layout,
    ) -> Result<(Plan, Records), FetchError> {
        let question = Question {
            repo: plan.repo,
            commit: plan.commit,
            layout,
            contents: plan.contents,
            release_document: plan.release_document,
            hf_cache: self.hf_cache(),
            reverify: self.options.reverify,
        };
        blocking(move || Ok(examine(question))).await
    }

    fn check_space(&self, plan: &Plan) -> Result<(), FetchError> {
        let needed = plan.disk_bytes();
        let root = &self.options.cache_root;
        let existing = root
            .ancestors()
            .find(|folder| folder.exists())
            .unwrap_or(Path::new("/"));
        let free = self
            .options
            .disk
            .free(existing)
            .at("asking for free space at", existing)?;
        if needed > free {
            return Err(FetchError::DiskSpace {
                at: existing.to_owned(),
                needed,
                free,
            });
        }
        Ok(())
    }

    fn refuse_if_offline(&self, plan: &Plan) -> Result<(), FetchError> {
        let mut missing = plan
            .missing()
            .filter(|f| matches!(f.action, Action::Fetch { .. }));
        let Some(first) = missing.next() else {
            return Ok(());
        };
        Err(FetchError::OfflineMissing {
            missing: 1 + missing.count(),
            files: plan.files.len(),
            first: first.file.path.to_string(),
        })
    }

    fn copy_source(&self, repo: &RepoId, commit: &CommitId, file: &Wanted) -> Option<PathBuf> {
        self.hf_cache()?.find(repo, commit, file)
    }

    fn hf_cache(&self) -> Option<HfCache> {
        self.options.hf_cache.as_deref().map(HfCache::new)
    }

    fn jobs(&self) -> usize {
        self.options.jobs.max(1)
    }
}

/// Brings one file under its name by the cheapest way the plan found, and by the Hub when that way fails.
async fn obtain(
    transfers: &Transfers<'_>,
    site: &Site,
    planned: &PlannedFile,
) -> Result<(), FetchError> {
    let (site, file, action) = (
        site.clone(),
        Arc::clone(&planned.file),
        planned.action.clone(),
    );
    let here = match action {
        Action::Nothing | Action::Rehash => true,
        Action::Write(document) => blocking(move || local::write(site, file, &document)).await?,
        Action::Copy { from } => blocking(move || local::copy(site, file, &from)).await?,
        Action::Fetch { .. } => false,
    };
    if here {
        Ok(())
    } else {
        transfers.fetch(&planned.file).await
    }
}

fn fetched(plan: Plan, received: u64) -> Fetched {
    let Plan {
        repo,
        commit,
        snapshot,
        contents,
        ..
    } = plan;
    Fetched {
        repo,
        commit,
        folder: snapshot,
        contents,
        received,
    }
}

/// Runs file work on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(FetchError::Io {
                doing: "working on",
                path: PathBuf::new(),
                source: std::io::ErrorKind::Interrupted.into(),
            }),
        },
    }
}
