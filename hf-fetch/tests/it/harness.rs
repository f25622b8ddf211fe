//! A Hub, a cache, and a clock that does not wait.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hf_fetch::{
    Clock, Endpoint, Event, FetchError, FetchOptions, Fetched, Fetcher, HubOptions, Plan, Progress,
    RetryPolicy, StallFloor,
};
use misbehaving_hub::{COMMIT, Content, Hub, Repository};

pub(crate) const REPO: &str = "owner/name";

/// Pauses are written down and not made. The time of day stands still.
#[derive(Debug)]
pub(crate) struct StillClock {
    pub(crate) pauses: Mutex<Vec<Duration>>,
    pub(crate) now: SystemTime,
}

impl Default for StillClock {
    fn default() -> Self {
        Self {
            pauses: Mutex::default(),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        }
    }
}

impl Clock for StillClock {
    fn now(&self) -> SystemTime {
        self.now
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.pauses.lock().unwrap().push(pause);
        Box::pin(tokio::task::yield_now())
    }
}

/// Events as text, and sums over them.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn report(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

impl Heard {
    pub(crate) fn count(&self, of: &str) -> usize {
        self.0
            .lock()
            .unwrap()
            .iter()
            .filter(|event| event.contains(of))
            .count()
    }
}

pub(crate) struct Scene {
    pub(crate) hub: Hub,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<StillClock>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) hub_options: HubOptions,
    pub(crate) options: FetchOptions,
}

impl Scene {
    /// A Hub with one package at [`COMMIT`].
    pub(crate) fn new(files: impl IntoIterator<Item = (&'static str, Content)>) -> Self {
        let scene = Self::empty();
        scene
            .hub
            .put(Repository::package(REPO, COMMIT, owned(files)));
        scene
    }

    pub(crate) fn empty() -> Self {
        let hub = Hub::start();
        // In memory where possible: ten thousand small files cost a disk ten thousand syncs.
        let memory = Path::new("/dev/shm");
        let folder = tempfile::tempdir_in(memory)
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let clock = Arc::new(StillClock::default());
        let mut hub_options = HubOptions::new(Endpoint::parse(&hub.url()).unwrap());
        hub_options.clock = clock.clone();
        hub_options.retry = RetryPolicy {
            progress: 1000,
            ..RetryPolicy::default()
        };
        hub_options.stall = StallFloor {
            window: Duration::from_secs(10),
            bytes: 1000,
        };
        let options = FetchOptions::new(folder.path().join("cache"));
        Self {
            hub,
            folder,
            clock,
            heard: Arc::default(),
            hub_options,
            options,
        }
    }

    pub(crate) fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.hub_options.clone(), self.options.clone()).unwrap()
    }

    pub(crate) async fn plan(&self) -> Result<Plan, FetchError> {
        let fetcher = self.fetcher();
        let repo = REPO.parse().unwrap();
        let commit = fetcher
            .resolve(&repo, &"main".parse().unwrap(), &*self.heard)
            .await?;
        fetcher.plan(&repo, &commit, &*self.heard).await
    }

    /// What the program does: resolve, plan, run.
    pub(crate) async fn fetch(&self) -> Result<Fetched, FetchError> {
        let plan = self.plan().await?;
        let heard: Arc<dyn Progress> = self.heard.clone();
        self.fetcher().run(plan, &heard).await
    }

    /// The same by commit, as a warm start does.
    pub(crate) async fn fetch_commit(&self) -> Result<Fetched, FetchError> {
        let fetcher = self.fetcher();
        let plan = fetcher
            .plan(
                &REPO.parse().unwrap(),
                &COMMIT.parse().unwrap(),
                &*self.heard,
            )
            .await?;
        let heard: Arc<dyn Progress> = self.heard.clone();
        fetcher.run(plan, &heard).await
    }

    pub(crate) fn package_folder(&self) -> PathBuf {
        self.options.cache_root.join("owner").join("name")
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.package_folder().join(COMMIT)
    }

    /// The snapshot holds exactly the files of the package, byte for byte, or it does not exist.
    pub(crate) fn assert_whole(&self, files: &[(&'static str, Content)]) {
        let mut expected: BTreeMap<String, Vec<u8>> = files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), bytes(content)))
            .collect();
        let found = tree(&self.snapshot());
        if let Some(release) = found.get("runtime-release.json") {
            expected.insert("runtime-release.json".to_owned(), release.clone());
        }
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        assert!(found == expected, "bytes differ");
    }

    /// No file stands under a name of the package.
    pub(crate) fn assert_nothing_named(&self, path: &str) {
        assert!(!self.snapshot().exists(), "a snapshot was published");
        let file = self
            .package_folder()
            .join(".incomplete")
            .join(COMMIT)
            .join("files")
            .join(path);
        assert!(!file.exists(), "{} stands there", file.display());
    }

    /// Begun files and journals that are left.
    pub(crate) fn parts(&self) -> Vec<PathBuf> {
        let parts = self
            .package_folder()
            .join(".incomplete")
            .join(COMMIT)
            .join("parts");
        let Ok(entries) = fs::read_dir(parts) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn pauses(&self) -> Vec<Duration> {
        self.clock.pauses.lock().unwrap().clone()
    }
}

pub(crate) fn owned(
    files: impl IntoIterator<Item = (&'static str, Content)>,
) -> impl IntoIterator<Item = (String, Content)> {
    files
        .into_iter()
        .map(|(path, content)| (path.to_owned(), content))
}

/// Bytes that differ everywhere, so that a misplaced piece is found.
pub(crate) fn noise(length: usize) -> Content {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes: Vec<u8> = (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect();
    bytes.into()
}

pub(crate) fn bytes(content: &Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    content.for_each(|piece| bytes.extend_from_slice(piece));
    bytes
}

/// All regular files below a folder; anything else is a failure.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|e| panic!("{}: {e}", next.display())) {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() {
                folders.push(path);
            } else {
                assert!(kind.is_file(), "{} is no regular file", path.display());
                let name = path
                    .strip_prefix(folder)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}
