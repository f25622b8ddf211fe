#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod clock;
mod contents;
mod digest;
mod disk;
mod endpoint;
mod error;
mod fetcher;
mod hf_cache;
mod http;
mod layout;
mod local;
mod lock;
mod options;
mod part;
mod plan;
mod progress;
mod publish;
mod records;
mod redirect;
mod resolve;
mod retry;
mod sink;
mod token;
mod transfer;

pub use clock::{Clock, SystemClock};
pub use contents::{Contents, Origin, Wanted};
pub use digest::Digest;
pub use disk::{Disk, SystemDisk};
pub use endpoint::Endpoint;
pub use error::FetchError;
pub use fetcher::{Fetched, Fetcher};
pub use options::{FetchOptions, HubOptions, Proxies};
pub use plan::{Action, Plan, PlannedFile};
pub use progress::{Event, Progress, Silent, Source};
pub use retry::{RetryPolicy, StallFloor};
pub use token::Token;
