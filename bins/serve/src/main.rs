//! The program around the server: arguments, log, signals, exit code.

use std::future::Future;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser as _;
use qwen35_serve::args::LogFormat;
use qwen35_serve::generate::engine_thread::EngineSeat;
use qwen35_serve::generate::status::Status;
use qwen35_serve::{Args, Config, Server, open};
use tracing_subscriber::EnvFilter;

/// What a shell is told, besides 0 for a server that was asked to stop.
mod exit {
    pub(super) const USAGE: u8 = 2;
    pub(super) const INPUT: u8 = 3;
}

fn main() -> ExitCode {
    let args = Args::parse();
    init_log(args.log_format);
    let config = match Config::from_args(&args) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("qwen35-serve: {:#}", anyhow::Error::from(error));
            return ExitCode::from(exit::USAGE);
        }
    };
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("qwen35-serve: {error:#}");
            ExitCode::from(exit::INPUT)
        }
    }
}

fn run(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // They only move bytes; the cores are for the engine.
        .worker_threads(2)
        // They render and tokenise; more of them than this would only take the cores from the engine.
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let opener = open::opener(config.engine.clone());
        let server = Server::bind(config).await?;
        println!("listening on http://{}", server.address());
        let seat = Arc::clone(&server.app().seat);
        tokio::spawn(tell_progress(Arc::clone(&seat)));
        server.run(opener, stop(seat)?).await?;
        Ok(())
    })
}

fn init_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match format {
        LogFormat::Json => log.json().init(),
        _ => log.init(),
    }
}

/// One line for each phase of loading, and one when requests are answered.
async fn tell_progress(seat: Arc<EngineSeat>) {
    let mut status = seat.watch();
    let mut phase = String::new();
    loop {
        match &*status.borrow_and_update() {
            Status::Loading(progress) if progress.phase != phase => {
                phase.clone_from(&progress.phase);
                eprintln!("loading: {phase}");
            }
            Status::Ready => {
                phase.clear();
                if let Some(model) = seat.model.get() {
                    let about = &model.about;
                    eprintln!(
                        "ready: {} on {}, {}, {} tokens of context, drafting {}",
                        about.model,
                        about.device,
                        about.contract,
                        about.context,
                        if about.mtp { "on" } else { "off" },
                    );
                }
            }
            _ => {}
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Done at the first signal. The second one ends what runs without waiting for the grace.
fn stop(seat: Arc<EngineSeat>) -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::new()?;
    Ok(async move {
        signals.next().await;
        eprintln!("stopping: running requests may end; a second signal ends them at once");
        tokio::spawn(async move {
            signals.next().await;
            seat.abort();
        });
    })
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // A console that cannot be listened to never asks to stop.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
