//! What may be typed on the command line. What it means is decided in [`crate::config`].

use std::net::IpAddr;
use std::path::PathBuf;

/// Serve a native Qwen3.5 package to OpenAI clients, on this machine's CPU.
///
/// Without arguments it serves a small demo model on http://127.0.0.1:8000.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "qwen35-serve", version, max_term_width = 100)]
pub struct Args {
    /// Folder of a native package; without it the demo package inside this binary is served
    #[arg(long, value_name = "DIR")]
    pub package: Option<PathBuf>,

    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub host: IpAddr,

    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    pub port: u16,

    /// Longest prompt and answer together, in tokens [default: 8192, or what the model allows if that is less]
    #[arg(long, value_name = "TOKENS")]
    pub ctx: Option<usize>,

    /// Threads that compute [default: physical cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,

    /// Instruction set: auto, scalar, avx2, avx512 or avx512bf16
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub isa: String,

    /// Numerics contract: host/1, or host-f32/1 for comparisons with float32 references
    #[arg(long, value_name = "ID", default_value = "host/1")]
    pub contract: String,

    /// Draft with the model's own MTP head; the output is the same either way
    #[arg(long, value_enum, default_value_t = Mtp::On)]
    pub mtp: Mtp,

    /// Tokens drafted in each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub draft_tokens: usize,

    /// Prompt tokens computed between two looks at whether the client is still there
    #[arg(long, value_name = "TOKENS")]
    pub prefill_chunk: Option<usize>,

    /// Memory for snapshots of earlier prompts, in MiB; 0 switches prefix reuse off
    #[arg(long, value_name = "MIB", default_value_t = 192)]
    pub prefix_cache: usize,

    /// Compute each answer that began from a snapshot again from the start and compare: slow, for finding faults
    #[arg(long)]
    pub check_prefix_cache: bool,

    /// File that remembers what was verified: unchanged files are not hashed again at the next start
    #[arg(long, value_name = "FILE")]
    pub verified_record: Option<PathBuf>,

    /// Requests that may wait; one more gets a 429
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_queue: usize,

    /// Longest time from the arrival of a request to its end, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub request_timeout: u64,

    /// Time for running requests to end after SIGTERM or SIGINT, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub grace: u64,

    /// Silence after which a stream gets a comment, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub ping: u64,

    /// Key that requests must carry; may be given several times
    #[arg(
        long,
        value_name = "KEY",
        env = "QWEN35_API_KEY",
        hide_env_values = true
    )]
    pub api_key: Vec<String>,

    /// File with one key a line
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,

    /// Host name under which clients may reach this server, or * for any; may be given several times
    #[arg(long, value_name = "NAME")]
    pub allowed_host: Vec<String>,

    /// Web origin whose pages may call this server (CORS); may be given several times
    #[arg(long, value_name = "ORIGIN")]
    pub cors_origin: Vec<String>,

    /// Longest request body, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16)]
    pub max_body: usize,

    /// Name under which the model is served; further ones are aliases [default: the package's]
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Vec<String>,

    /// Answer whatever model a request names
    #[arg(long)]
    pub ignore_model_name: bool,

    /// Move late system messages to the front, where the chat template wants them, instead of refusing them
    #[arg(long)]
    pub merge_system: bool,

    /// Tokens of reasoning after which the answer begins, for requests that name no budget of their own
    #[arg(long, value_name = "TOKENS")]
    pub thinking_budget: Option<usize>,

    /// Tell reasoning under the name `reasoning` as well, for clients that know no `reasoning_content`
    #[arg(long)]
    pub reasoning_alias: bool,

    /// Write prompts and answers to the log
    #[arg(long)]
    pub log_prompts: bool,

    /// Form of the log on stderr; what is logged is chosen by RUST_LOG
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// `--mtp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Mtp {
    /// Draft always.
    On,
    /// Never draft.
    Off,
    /// Draft while it pays.
    Auto,
}

/// `--log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
