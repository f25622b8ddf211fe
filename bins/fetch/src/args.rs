//! What may be typed. What it means together with the environment is decided in [`crate::environment`].

use std::path::PathBuf;

use crate::reference::Reference;

/// Fetch a native Qwen3.5 package, or any repository of a Hub, and verify every byte of it.
///
/// The folder of the verified files is the last line of the standard output. A run that was cut off is continued by the next.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "qwen35-fetch", version, max_term_width = 100)]
pub struct Args {
    /// Repository, and optionally a branch, tag or commit [default: main]
    #[arg(value_name = "OWNER/NAME[@REVISION]")]
    pub repository: Reference,

    /// Where and how to fetch
    #[command(flatten)]
    pub fetch: FetchArgs,

    /// Say what is missing and what it would cost, and fetch no file
    #[arg(long)]
    pub dry_run: bool,

    /// Write one JSON object a line to the standard output
    #[arg(long)]
    pub json: bool,
}

/// Arguments of every program that fetches.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FetchArgs {
    /// Folder of all packages [default: $XDG_CACHE_HOME/qwen35-native or ~/.cache/qwen35-native]
    #[arg(long, value_name = "DIR")]
    pub cache_root: Option<PathBuf>,

    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: u16,

    /// Make no connection; use what is here, in this cache or in a Hugging Face cache
    #[arg(long)]
    pub offline: bool,

    /// Hash all files again, also those whose size and time are unchanged
    #[arg(long)]
    pub reverify: bool,

    /// Base address of the Hub [default: $HF_ENDPOINT, else the public one]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,

    /// Take nothing from an existing Hugging Face cache
    #[arg(long)]
    pub no_hf_cache: bool,

    /// Longest wait for another process that fetches the same commit, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub lock_wait: u64,

    /// Length of the ranges that large files are fetched in, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub range_size: u64,
}
