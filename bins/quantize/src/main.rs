//! `qwen35-quantize`: plan, convert.

mod args;
mod command;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

use args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    match command::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // Everything that can go wrong here is in the input or the disk.
            ExitCode::from(3)
        }
    }
}
