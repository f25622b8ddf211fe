//! `qwen35-fetch`: arguments and environment in, a verified folder out.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use hf_fetch::{Action, FetchError, Fetcher, Plan, Progress};
use qwen35_fetch::SettingError;
use qwen35_fetch::args::Args;
use qwen35_fetch::display;
use qwen35_fetch::environment::Environment;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code after SIGINT, by the custom of shells.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args = Args::parse();
    let environment = Environment::read();
    let filter = tracing_subscriber::EnvFilter::new(environment.log_filter());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no threads: {error}"), 3),
    };
    let code = runtime.block_on(async {
        let mut terminated = match signal(SignalKind::terminate()) {
            Ok(terminated) => terminated,
            Err(error) => return fail(&format!("no signals: {error}"), 3),
        };
        tokio::select! {
            done = fetch(&args, &environment) => match done {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(&error.to_string(), code_of(&error)),
            },
            _ = tokio::signal::ctrl_c() => fail("interrupted; the next run continues", INTERRUPTED),
            _ = terminated.recv() => fail("terminated; the next run continues", INTERRUPTED),
        }
    });
    // Writers end on their own; nothing half-done gets a name.
    runtime.shutdown_background();
    code
}

async fn fetch(args: &Args, environment: &Environment) -> Result<(), SettingError> {
    let hub = environment.hub_options(args.fetch.endpoint.as_deref())?;
    let options = environment.fetch_options(&args.fetch)?;
    if !options.offline {
        for proxy in environment.proxies_shown() {
            let _ = writeln!(io::stderr(), "using the {proxy}");
        }
    }
    let progress: Arc<dyn Progress> = display::fitting(args.json, environment.disables_bars());
    let fetcher = Fetcher::new(hub, options)?;
    let repo = &args.repository.repo;
    let revision = args
        .repository
        .revision
        .clone()
        .map_or_else(main_branch, Ok)?;
    let commit = fetcher.resolve(repo, &revision, &*progress).await?;
    if !args.json {
        print(&format!("Revision: {commit}"));
    }
    let plan = fetcher.plan(repo, &commit, &*progress).await?;
    if args.dry_run {
        show_plan(&plan, args.json);
        return Ok(());
    }
    let fetched = fetcher.run(plan, &progress).await?;
    if args.json {
        let (commit, folder) = (
            fetched.commit.to_string(),
            fetched.folder.display().to_string(),
        );
        print(&json!({"event": "done", "commit": commit, "folder": folder, "received_bytes": fetched.received}).to_string());
    } else {
        print(&fetched.folder.display().to_string());
    }
    Ok(())
}

fn main_branch() -> Result<native_manifest::Revision, FetchError> {
    "main".parse().map_err(FetchError::Inventory)
}

fn show_plan(plan: &Plan, as_json: bool) {
    for planned in &plan.files {
        let (path, bytes) = (&planned.file.path, planned.file.bytes);
        let (word, have) = match &planned.action {
            Action::Nothing => ("here", bytes),
            Action::Rehash => ("verify", bytes),
            Action::Copy { .. } => ("copy", 0),
            Action::Fetch { have } if *have > 0 => ("resume", *have),
            _ => ("fetch", 0),
        };
        if as_json {
            let digest = planned.file.digest.to_string();
            print(&json!({"event": "file_planned", "path": path.as_str(), "bytes": bytes, "action": word, "have": have, "digest": digest}).to_string());
        } else {
            print(&format!("{word:>6} {bytes:>14} {path}"));
        }
    }
    if !as_json {
        let (fetch, disk) = (plan.fetch_bytes(), plan.disk_bytes());
        print(&format!(
            "{fetch} bytes to fetch, {disk} bytes of disk, into {}",
            plan.snapshot.display()
        ));
    }
}

fn code_of(error: &SettingError) -> u8 {
    match error {
        SettingError::Fetch(FetchError::Digest { .. }) => 1,
        SettingError::Fetch(FetchError::Endpoint { .. } | FetchError::Setting { .. }) => 2,
        SettingError::Fetch(_) | SettingError::File { .. } => 3,
        _ => 2,
    }
}

fn print(line: &str) {
    // A closed pipe is the reader's choice.
    let _ = writeln!(io::stdout(), "{line}");
}

fn fail(text: &str, code: u8) -> ExitCode {
    let _ = writeln!(io::stderr(), "error: {text}");
    ExitCode::from(code)
}
