//! What a fetch may do. Everything comes from the caller; this crate reads no environment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::disk::{Disk, SystemDisk};
use crate::endpoint::Endpoint;
use crate::retry::{RetryPolicy, StallFloor};
use crate::token::Token;

/// Proxies by the scheme of the request. `None` everywhere means direct connections.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// For `http` requests.
    pub http: Option<String>,
    /// For `https` requests.
    pub https: Option<String>,
    /// For both, where the more precise one is absent.
    pub all: Option<String>,
    /// Hosts that are reached directly: names, suffixes, addresses and networks, separated by commas.
    pub none_for: Option<String>,
}

/// How to reach the Hub.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Base address.
    pub endpoint: Endpoint,
    /// Access token. `None` is an anonymous request.
    pub token: Option<Token>,
    /// Proxies.
    pub proxies: Proxies,
    /// PEM certificates that replace the system's roots.
    pub root_certificates: Option<Vec<u8>>,
    /// Text of the User-Agent header.
    pub user_agent: String,
    /// Longest time to make a connection.
    pub connect_timeout: Duration,
    /// Longest wait for the head of an answer.
    pub answer_timeout: Duration,
    /// Attempts and pauses.
    pub retry: RetryPolicy,
    /// When a slow line counts as dead.
    pub stall: StallFloor,
    /// Time source.
    pub clock: Arc<dyn Clock>,
}

impl HubOptions {
    /// Anonymous access to `endpoint` with the usual patience.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            token: None,
            proxies: Proxies::default(),
            root_certificates: None,
            user_agent: concat!("hf-fetch/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            retry: RetryPolicy::default(),
            stall: StallFloor::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// Where files go and how many transfers run.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Folder that holds all packages, `<cache_root>/<owner>/<name>/<commit>/`.
    pub cache_root: PathBuf,
    /// `hub` folder of an existing Hugging Face cache, used as a source of bytes and never written.
    pub hf_cache: Option<PathBuf>,
    /// Make no connection at all.
    pub offline: bool,
    /// Connections at once, at least 1.
    pub jobs: usize,
    /// Files longer than this are fetched in ranges of this length, in bytes.
    pub range_bytes: u64,
    /// Hash files again although size, modification time and inode are those of their record.
    pub reverify: bool,
    /// Longest wait for another process that fetches the same commit.
    pub lock_wait: Duration,
    /// The file system, for what cannot be provoked on a real one.
    pub disk: Arc<dyn Disk>,
}

impl FetchOptions {
    /// Eight connections, ranges of 64 MiB, ten minutes of patience for a lock.
    #[must_use]
    pub fn new(cache_root: PathBuf) -> Self {
        Self {
            cache_root,
            hf_cache: None,
            offline: false,
            jobs: 8,
            range_bytes: 64 << 20,
            reverify: false,
            lock_wait: Duration::from_secs(600),
            disk: Arc::new(SystemDisk),
        }
    }
}
