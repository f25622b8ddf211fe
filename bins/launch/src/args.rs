//! What may be typed.

use std::path::PathBuf;

use native_manifest::{RepoId, Revision};
use qwen35_fetch::args::FetchArgs;

/// From a Hub revision to a running server: fetch a native Qwen3.5 package, verify it, and serve it on this machine's CPU or on
/// a Blackhole P150.
///
/// The revision is resolved once to a commit, which is printed as "Revision:". To go back to an older release, give its
/// revision: each has a folder of its own.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "qwen35-launch",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) launch: LaunchArgs,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Look at the card, the driver, the memory, the disks and Docker, and say what mends what
    Doctor(DoctorArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,

    /// The card to look at [default: the first P150]
    #[arg(long, value_name = "N")]
    pub(crate) card: Option<u32>,

    /// Folder of all packages, whose file system must have room
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_root: Option<PathBuf>,

    /// Folder of converted tensors, whose file system must have room
    #[arg(long, value_name = "DIR")]
    pub(crate) tensor_cache: Option<PathBuf>,

    /// Folder that stands for the machine, for tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) host_root: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LaunchArgs {
    /// Repository of the package
    #[arg(value_name = "OWNER/NAME", required_unless_present = "package")]
    pub(crate) repository: Option<RepoId>,

    /// Branch, tag or commit [default: main]
    #[arg(long, value_name = "REVISION")]
    pub(crate) revision: Option<Revision>,

    /// Folder of a package that is here already; nothing is fetched
    #[arg(long, value_name = "DIR", conflicts_with_all = ["repository", "revision", "download_only"])]
    pub(crate) package: Option<PathBuf>,

    /// Where to run; auto takes a P150 if there is one, and the CPU otherwise
    #[arg(long, value_enum, default_value_t = DeviceArg::Auto)]
    pub(crate) device: DeviceArg,

    /// Draft with the model's own MTP head; the output is the same either way
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub(crate) mtp: Switch,

    /// Port on 127.0.0.1; no other address is possible
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub(crate) port: u16,

    /// Fetch and verify, and start nothing
    #[arg(long)]
    pub(crate) download_only: bool,

    /// Print the command that would serve, and run nothing
    #[arg(long)]
    pub(crate) print_command: bool,

    /// Confirm that this machine's card is yours to use now; nothing is started on a card without it
    #[arg(long)]
    pub(crate) device_ownership_confirmed: bool,

    /// Number of the card [default: the first P150]
    #[arg(long, value_name = "N")]
    pub(crate) card: Option<u32>,

    /// Longest wait for whoever uses the card, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) device_wait: u64,

    /// Image to run, by digest; only for a release that names none
    #[arg(long, value_name = "NAME@sha256:DIGEST")]
    pub(crate) image: Option<String>,

    /// Folder for tensors that the card's runtime converts [default: beside the cache of packages]
    #[arg(long, value_name = "DIR")]
    pub(crate) tensor_cache: Option<PathBuf>,

    /// Longest time until the server on the card answers, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub(crate) health_timeout: u64,

    /// Time for running requests to end after a signal, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) grace: u64,

    #[command(flatten)]
    pub(crate) fetch: FetchArgs,

    /// Folder that stands for the machine, for tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) host_root: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DeviceArg {
    /// A P150 if there is one
    Auto,
    /// This machine's CPU
    Cpu,
    /// A Blackhole P150
    P150,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    /// Draft
    On,
    /// Do not draft
    Off,
}

impl Switch {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}
