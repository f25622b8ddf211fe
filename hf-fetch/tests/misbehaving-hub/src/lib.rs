//! A Hub on loopback for the tests of fetching: it serves repositories as the real one does, and misbehaves when told to.
//!
//! It runs on a thread of its own, so that tests of binaries can use it without a runtime.
#![forbid(unsafe_code)]

mod answer;
mod content;
mod fault;
mod repository;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use tokio::sync::oneshot;

pub use content::Content;
pub use fault::Fault;
pub use repository::{COMMIT, IMAGE, Repository, commit, git_blob, sha256};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method.
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
    /// Host in an absolute address, as a proxy sees it.
    pub authority: Option<String>,
    /// Headers, by lower-case name.
    pub headers: HashMap<String, String>,
}

impl Seen {
    /// A header's text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Commits of each repository; the branches name the last one.
    pub(crate) repositories: Mutex<HashMap<String, Vec<Arc<Repository>>>>,
    faults: Mutex<HashMap<String, VecDeque<Fault>>>,
    lasting: Mutex<HashMap<String, Fault>>,
    seen: Mutex<Vec<Seen>>,
    pub(crate) sent: AtomicU64,
}

/// The running server. It stops when dropped.
#[derive(Debug)]
pub struct Hub {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Default for Hub {
    fn default() -> Self {
        Self::start()
    }
}

impl Hub {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// When there is no port or no thread to be had.
    #[must_use]
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener
            .set_nonblocking(true)
            .expect("a non-blocking socket");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let state = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(listener, state, stopped));
        Self {
            address,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Base address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves a commit of a repository and lets all its branches name that commit. Older commits stay.
    pub fn put(&self, repository: Repository) {
        let mut repositories = lock(&self.shared.repositories);
        let commits = repositories.entry(repository.id.clone()).or_default();
        commits.retain(|other| other.commit != repository.commit);
        commits.push(Arc::new(repository));
    }

    /// Answers the next requests for a file with these faults, one each.
    pub fn fault(&self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.faults)
            .entry(path.to_owned())
            .or_default()
            .extend(faults);
    }

    /// Answers every request for a file with this fault. The path `*` stands for every file.
    pub fn always(&self, path: &str, fault: Fault) {
        lock(&self.shared.lasting).insert(path.to_owned(), fault);
    }

    /// Ends all faults.
    pub fn behave(&self) {
        lock(&self.shared.faults).clear();
        lock(&self.shared.lasting).clear();
    }

    /// All requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// Requests for a file (its path in the repository) so far.
    #[must_use]
    pub fn seen_for(&self, path: &str) -> Vec<Seen> {
        let ending = format!("/{path}");
        self.seen()
            .into_iter()
            .filter(|seen| seen.target.contains("/resolve/") && seen.target.ends_with(&ending))
            .collect()
    }

    /// Forgets the requests and the count of bytes.
    pub fn forget(&self) {
        lock(&self.shared.seen).clear();
        self.shared.sent.store(0, Ordering::Relaxed);
    }

    /// Bytes of files handed to the network so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The fault for the next answer to a request for `path`.
    pub(crate) fn next_fault(&self, path: &str) -> Option<Fault> {
        if let Some(fault) = lock(&self.faults)
            .get_mut(path)
            .and_then(VecDeque::pop_front)
        {
            return Some(fault);
        }
        let lasting = lock(&self.lasting);
        lasting.get(path).or_else(|| lasting.get("*")).cloned()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: std::net::TcpListener, state: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let app = Router::new().fallback(handle).with_state(state);
        // Not a graceful end: a stalled answer would hold it up for ever.
        tokio::select! {
            _ = axum::serve(listener, app) => {}
            _ = stopped => {}
        }
    });
    runtime.shutdown_background();
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let uri = request.uri();
    let seen = Seen {
        method: request.method().to_string(),
        target: uri
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default(),
        authority: uri.authority().map(ToString::to_string),
        headers: request
            .headers()
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect(),
    };
    lock(&shared.seen).push(seen);
    answer::answer(&shared, &request)
}
