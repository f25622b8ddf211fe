//! What the user types.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use qwen35_quantize::{Override, Preset};

/// Make native packages of Qwen3.5 in Tenstorrent block floating point.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show which tensor would be stored how, and the bytes.
    Plan(PlanArgs),
    /// Make a package.
    Convert(ConvertArgs),
}

/// How precisions are chosen.
#[derive(Debug, ClapArgs)]
pub(crate) struct Choice {
    /// bfp8, bfp4, or mixed (MLP gate and up in BFP4, the rest in BFP8).
    #[arg(long, default_value = "mixed")]
    pub(crate) preset: Preset,
    /// Choose precisions so that the weights come as near to this many bytes as they can without going over.
    #[arg(long, value_name = "N")]
    pub(crate) budget_bytes: Option<u64>,
    /// REGEX=bfp4|bfp8|bf16|f32: linears whose name matches get this precision; the last match counts.
    #[arg(long = "tensor-type", value_name = "REGEX=TYPE")]
    pub(crate) overrides: Vec<Override>,
    /// JSON file of tensor name to gain, from calibration: the order in which a budget promotes.
    #[arg(long, value_name = "FILE", requires = "budget_bytes")]
    pub(crate) gains: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PlanArgs {
    /// A config.json: the plan is made from it alone.
    #[arg(long, value_name = "FILE", required_unless_present = "source")]
    pub(crate) config: Option<PathBuf>,
    /// A Hugging Face folder: the plan knows its element types.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) source: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConvertArgs {
    /// The Hugging Face folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) source: PathBuf,
    /// The package to make; it must not be there yet.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Name of the model; the source folder's name by default.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where the source was published, OWNER/NAME.
    #[arg(long, value_name = "OWNER/NAME")]
    pub(crate) source_repo: Option<String>,
    /// Revision of the source.
    #[arg(long, value_name = "REV")]
    pub(crate) source_revision: Option<String>,
    /// Quantise weights that are quantised already.
    #[arg(long)]
    pub(crate) requantise: bool,
    /// Compute threads; all cores by default.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Only say what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
