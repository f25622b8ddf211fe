//! Serving on this machine's CPU: the server's library, in this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use qwen35_serve::open::opener;
use qwen35_serve::{Args as ServeArgs, Config, Server};
use tokio::sync::Notify;

use crate::args::LaunchArgs;
use crate::error::LaunchError;
use crate::health;
use crate::prepare::Package;
use crate::signals::Signals;

/// Serves until a signal comes; requests that run then end within the grace.
pub(crate) async fn serve(
    args: &LaunchArgs,
    package: &Package,
    signals: &mut Signals,
) -> Result<(), LaunchError> {
    let config = config(args, package)?;
    let open = opener(config.engine.clone());
    let server = Server::bind(config)
        .await
        .map_err(|e| LaunchError::Serve(with_source(&e)))?;
    println!("Listening: http://{}", server.address());
    let port = server.address().port();
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let run = server.run(open, async move { stopped.notified().await });
    let mut run = std::pin::pin!(run);
    let mut ready = std::pin::pin!(health::until_ready(port, Duration::MAX));
    let (mut told, mut asked) = (false, false);
    loop {
        tokio::select! {
            ended = &mut run => return ended.map_err(|e| LaunchError::Serve(with_source(&e))),
            _ = &mut ready, if !told && !asked => {
                told = true;
                println!("Ready: http://127.0.0.1:{port}");
            }
            name = signals.next() => {
                if asked {
                    eprintln!("{name} again: requests that run have {} s to end", args.grace);
                } else {
                    asked = true;
                    eprintln!("{name}: the server finishes what runs");
                    stop.notify_one();
                }
            }
        }
    }
}

/// The server's own configuration, by way of its own arguments, so that both programs mean the same.
fn config(args: &LaunchArgs, package: &Package) -> Result<Config, LaunchError> {
    let (port, grace) = (args.port.to_string(), args.grace.to_string());
    let words = [
        "qwen35-serve",
        "--port",
        &port,
        "--mtp",
        args.mtp.word(),
        "--grace",
        &grace,
        "--package",
    ];
    let words = words
        .iter()
        .map(Into::into)
        .chain([package.folder.clone().into_os_string()]);
    let args = ServeArgs::try_parse_from(words).map_err(|e| LaunchError::Serve(e.to_string()))?;
    let mut config = Config::from_args(&args).map_err(|e| LaunchError::Serve(with_source(&e)))?;
    config.engine.verified_record = record(package);
    Ok(config)
}

/// Where the server remembers what it verified: beside the snapshot, never in it, and nowhere for a package of the user's own.
fn record(package: &Package) -> Option<PathBuf> {
    let commit = package.commit?;
    Some(package.folder.parent()?.join(format!("{commit}.served")))
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
