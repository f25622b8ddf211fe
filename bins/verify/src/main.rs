//! `qwen35-verify`: whether a native package, or the payload of a container image, is what it claims to be.
//!
//! Works offline, opens no connection, and writes nothing where it reads. Exit codes: 0 all is right, 1 something was
//! found, 2 the command line is wrong, 3 the input cannot be read or is no package of a known format.
#![forbid(unsafe_code)]

mod args;
mod image;
mod outcome;
mod package;
mod progress;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;

use crate::args::{Args, Command};
use crate::outcome::Outcome;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match rayon::ThreadPoolBuilder::new()
        .num_threads(args.threads.map_or(0, usize::from))
        .build()
    {
        Ok(pool) => pool.install(|| run(&args)),
        Err(error) => Outcome::unreadable(format!("cannot start threads: {error}")),
    };
    // A reader that went away is no reason to change the verdict.
    let _ = outcome.print(args.json, &mut std::io::stdout().lock());
    outcome.exit_code()
}

fn run(args: &Args) -> Outcome {
    let start = Instant::now();
    let progress = progress::fitting(args.quiet);
    let outcome = match (&args.command, &args.package.folder) {
        (Some(Command::Image(image)), _) => image::check(image, &*progress),
        (None, Some(folder)) => package::check(folder, &args.package, &*progress),
        (None, None) => Outcome::unreadable("no package was named".to_owned()),
    };
    progress.finished();
    outcome.after(start.elapsed())
}
