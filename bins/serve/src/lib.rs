#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod app;
pub mod args;
pub mod boundary;
pub mod chat_request;
pub mod config;
pub mod controls;
mod forms;
pub mod generate;
pub mod hardware;
pub mod metrics;
pub mod model;
pub mod open;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod prepare;
pub mod reply;
pub mod responses_request;
pub mod routes;
pub mod server;
pub mod sse;
pub mod structured;
pub mod wire;

pub use args::Args;
pub use config::Config;
pub use generate::engine_thread::{OpenEngine, OpenError, Opened};
pub use server::{ServeError, Server};

/// Seconds since 1970.
fn unix_seconds() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
