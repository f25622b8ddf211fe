//! How fast a large package comes from a server on loopback, hashed and synced, and how fast it is found again.
//!
//! ```text
//! cargo run --release -p hf-fetch --example throughput -- FOLDER [MEBIBYTES [FILES]]
//! ```
//!
//! FOLDER should lie on a file system in memory to see the program and not the disk. Server and client share the process,
//! and so its processors and its memory. One file in eight is large (ranged), the others share the rest.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hf_fetch::{Endpoint, FetchOptions, Fetcher, HubOptions, Progress, Silent};
use misbehaving_hub::{COMMIT, Content, Hub, Repository};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a folder")?);
    let mebibytes: u64 = arguments.next().map_or(Ok(4096), |text| text.parse())?;
    let count: u64 = arguments.next().map_or(Ok(512), |text| text.parse())?;
    let hub = Hub::start();
    hub.put(Repository::package(
        "owner/name",
        COMMIT,
        files(mebibytes << 20, count),
    ));
    let cache = folder.join(format!("throughput-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(measure(&hub, cache.clone()));
    std::fs::remove_dir_all(&cache)?;
    outcome
}

fn files(bytes: u64, count: u64) -> Vec<(String, Content)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let block: Bytes = (0..(1 << 20) + 17)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .collect();
    // One large file of an eighth of all bytes, as an embedding table is; the others are alike.
    let large = bytes / 8;
    let each = (bytes - large) / count.saturating_sub(1).max(1);
    (0..count)
        .map(|n| {
            let bytes = if n == 0 { large } else { each };
            let block = block.slice(usize::try_from(n % 4096).unwrap_or(0)..);
            (
                format!("checkpoint/tensors/t{n:05}.tensorbin"),
                Content::Repeated { block, bytes },
            )
        })
        .collect()
}

async fn measure(hub: &Hub, cache: PathBuf) -> Result<(), Box<dyn Error>> {
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let repo = "owner/name".parse()?;
    let commit = COMMIT.parse()?;
    for round in ["cold", "warm", "reverified"] {
        let mut options = FetchOptions::new(cache.clone());
        options.reverify = round == "reverified";
        let fetcher = Fetcher::new(HubOptions::new(Endpoint::parse(&hub.url())?), options)?;
        hub.forget();
        let began = Instant::now();
        let plan = fetcher.plan(&repo, &commit, &*progress).await?;
        let fetched = fetcher.run(plan, &progress).await?;
        let seconds = began.elapsed().as_secs_f64();
        let (files, bytes) = (fetched.contents.files.len(), fetched.contents.bytes());
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = bytes as f64 / seconds / 1e6;
        let (sent, memory) = (hub.sent(), peak_memory());
        println!(
            "{round}: {files} files, {bytes} bytes in {seconds:.3} s, {rate:.0} MB/s; {sent} bytes sent; peak memory {memory}"
        );
    }
    Ok(())
}

/// The most memory this process held, server included, as the kernel counts it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}
