//! What was typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use native_manifest::Sha256Digest;

/// Checks every byte of a native package, offline.
///
/// Exit codes: 0 all is right, 1 something was found, 2 the command line is wrong, 3 the input cannot be read.
#[derive(Debug, Parser)]
#[command(
    name = "qwen35-verify",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) package: PackageArgs,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Print one JSON object.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show no progress.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    /// Threads that hash [default: all cores].
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// A package.
#[derive(Debug, clap::Args)]
pub(crate) struct PackageArgs {
    /// The package: the folder with runtime-release.json.
    #[arg(value_name = "PACKAGE", required = true)]
    pub(crate) folder: Option<PathBuf>,

    /// Only check what a runtime reads: no release-manifest.json, SHA256SUMS or further files.
    #[arg(long)]
    pub(crate) runtime_only: bool,

    /// Accept links that lead out of the folder, as a Hugging Face cache has them.
    #[arg(long)]
    pub(crate) allow_links: bool,

    /// Write an in-toto statement, unsigned, whose subjects are the files of the publication; only when all is right.
    #[arg(long, value_name = "FILE", conflicts_with = "runtime_only")]
    pub(crate) statement: Option<PathBuf>,

    /// Do not look for block codes that no encoder writes.
    #[arg(long)]
    pub(crate) skip_codes: bool,
}

/// What else can be checked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check the files of a container image against a listing of path, size and SHA-256.
    Image(ImageArgs),
}

/// An image.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// The image: the root of an unpacked file system, or an OCI layout folder (with oci-layout and index.json).
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,

    /// JSON: a list of {path, bytes, sha256}, or an object with that list as `payload` or `inventory`.
    #[arg(long, value_name = "FILE")]
    pub(crate) listing: PathBuf,

    /// In an OCI layout: the digest that the image's manifest must have, `sha256:` and 64 digits.
    #[arg(long, value_name = "DIGEST", value_parser = image_digest)]
    pub(crate) digest: Option<Sha256Digest>,

    /// In an OCI layout of several platforms: the one to check, as `os/architecture`.
    #[arg(long, value_name = "PLATFORM", default_value = "linux/amd64")]
    pub(crate) platform: String,
}

fn image_digest(text: &str) -> Result<Sha256Digest, String> {
    let digest = text.strip_prefix("sha256:").unwrap_or(text);
    digest
        .parse()
        .map_err(|error: native_manifest::ManifestError| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
