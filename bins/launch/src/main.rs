//! `qwen35-launch`: one command from a Hub revision to a running server.

mod args;
mod card;
mod cpu;
mod docker;
mod doctor;
mod error;
mod health;
mod prepare;
mod proofs;
mod signals;
mod tensor_cache;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use qwen35_fetch::environment::Environment;

use crate::args::{Args, Command, DeviceArg, LaunchArgs};
use crate::card::CardPlan;
use crate::error::LaunchError;
use crate::prepare::Package;
use crate::signals::Signals;

/// Exit code after a signal during the fetch, by the custom of shells.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args = Args::parse();
    let environment = Environment::read();
    let filter = tracing_subscriber::EnvFilter::new(environment.log_filter());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    if let Some(Command::Doctor(args)) = &args.command {
        return match doctor::run(args, &environment) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(error) => fail(&error),
        };
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(source) => return fail(&LaunchError::Serve(format!("no threads: {source}"))),
    };
    let code = runtime.block_on(async {
        match launch(&args.launch, &environment).await {
            Ok(code) => code,
            Err(error) => fail(&error),
        }
    });
    runtime.shutdown_background();
    code
}

/// Where it will run.
enum Place {
    Cpu,
    Card(u32),
}

async fn launch(args: &LaunchArgs, environment: &Environment) -> Result<ExitCode, LaunchError> {
    let mut signals =
        Signals::listen().map_err(|source| LaunchError::Serve(format!("no signals: {source}")))?;
    let place = place(args);
    // Before anything is fetched: nobody should wait an hour for this answer.
    if let Place::Card(card) = place
        && !(args.device_ownership_confirmed || args.download_only || args.print_command)
    {
        return Err(LaunchError::NotConfirmed { card });
    }
    let cache_root = cache_root(args, environment)?;
    let progress = prepare::display(environment);
    let mut package = tokio::select! {
        identified = prepare::identify(args, environment, &progress) => identified?,
        name = signals.next() => return Ok(interrupted(name)),
    };
    let card = match place {
        Place::Card(card) => Some(CardPlan::new(args, &package, &cache_root, card)?),
        Place::Cpu => None,
    };
    if args.print_command {
        println!("{}", command(args, &package, card.as_ref())?);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(plan) = card.as_ref().filter(|_| !args.download_only) {
        card::refuse_unready(&card::examine(args, &package, plan, &cache_root))?;
    }
    tokio::select! {
        done = package.complete(&progress) => done?,
        name = signals.next() => return Ok(interrupted(name)),
    }
    proofs::refuse_foreign(&package)?;
    println!("Package: {}", package.folder.display());
    if args.download_only {
        return Ok(ExitCode::SUCCESS);
    }
    match card {
        Some(plan) => card::serve(args, &package, &plan, &mut signals).await?,
        None => cpu::serve(args, &package, &mut signals).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn place(args: &LaunchArgs) -> Place {
    let root = card::host_root(args.host_root.as_deref());
    match args.device {
        DeviceArg::Cpu => Place::Cpu,
        DeviceArg::P150 => {
            Place::Card(card::find_card(&root, args.card).or(args.card).unwrap_or(0))
        }
        DeviceArg::Auto => card::find_card(&root, args.card).map_or(Place::Cpu, Place::Card),
    }
}

fn command(
    args: &LaunchArgs,
    package: &Package,
    card: Option<&CardPlan>,
) -> Result<String, LaunchError> {
    match card {
        Some(plan) => plan.command(args, package),
        None => {
            let port = args.port.to_string();
            let folder = package.folder.as_os_str();
            let words = [
                "--package".as_ref(),
                folder,
                "--port".as_ref(),
                port.as_ref(),
                "--mtp".as_ref(),
                args.mtp.word().as_ref(),
            ];
            Ok(docker::shell_line("qwen35-serve", &words))
        }
    }
}

/// The folder of all packages. A package that was given by its folder needs none, so its own folder stands for it.
fn cache_root(args: &LaunchArgs, environment: &Environment) -> Result<PathBuf, LaunchError> {
    match &args.package {
        Some(folder) if args.fetch.cache_root.is_none() => {
            Ok(std::path::absolute(folder).unwrap_or(folder.clone()))
        }
        _ => Ok(environment.fetch_options(&args.fetch)?.cache_root),
    }
}

fn interrupted(name: &str) -> ExitCode {
    eprintln!("{name}: stopped; the next run continues");
    ExitCode::from(INTERRUPTED)
}

fn fail(error: &LaunchError) -> ExitCode {
    let _ = writeln!(io::stderr(), "error: {error}");
    ExitCode::from(error.code())
}
