//! What the command line means, checked.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use axum::http::HeaderValue;
use tt_device::{Contract, Isa};

use crate::args::{Args, Mtp};
use crate::boundary::{AllowedHosts, ApiKeys};

/// Everything a server needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// How the engine is to be opened.
    pub engine: EngineConfig,
    /// Under which names the model is served, and for whom.
    pub names: ModelNames,
    /// What requests may cost.
    pub limits: Limits,
    /// Who may ask.
    pub boundary: Boundary,
    /// Whether late system messages are moved to the front.
    pub merge_system: bool,
    /// Reasoning budget of requests that name none, in tokens.
    pub thinking_budget: Option<usize>,
    /// Whether prompts and answers go to the log.
    pub log_prompts: bool,
    /// Whether each generation that began from a saved prefix is computed again from nothing and compared.
    pub check_prefix_cache: bool,
    /// Whether reasoning is told under the name `reasoning` as well.
    pub reasoning_alias: bool,
}

/// How the engine is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// The package; `None` is the embedded demo.
    pub package: Option<PathBuf>,
    /// Context length in tokens; `None` leaves it to the model.
    pub context: Option<usize>,
    /// Compute threads; `None` is one a physical core.
    pub threads: Option<usize>,
    /// Instruction set; `None` is the best one.
    pub isa: Option<Isa>,
    /// Numerics contract.
    pub contract: Contract,
    /// Whether to draft.
    pub mtp: Mtp,
    /// Tokens drafted in each round.
    pub draft_tokens: usize,
    /// Prompt tokens a prefill step takes; `None` leaves it to the engine.
    pub prefill_chunk: Option<usize>,
    /// Memory for prefix snapshots, in bytes.
    pub prefix_cache_bytes: usize,
    /// Where to remember what was verified.
    pub verified_record: Option<PathBuf>,
}

/// Names of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelNames {
    /// Names given by the operator, the first of which is announced. Empty: the package's own name.
    pub served: Vec<String>,
    /// Whether a request may name any model.
    pub accept_any: bool,
}

/// What requests may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that may wait.
    pub queue: usize,
    /// Bytes of a request body.
    pub body_bytes: usize,
    /// Time for a request body to arrive.
    pub body_time: Duration,
    /// Time from the arrival of a request to its end.
    pub request_time: Duration,
    /// Time for running requests to end when the server stops.
    pub grace: Duration,
    /// Silence after which a stream gets a comment.
    pub ping: Duration,
    /// Connections at the same time.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: 64,
            body_bytes: 16 << 20,
            body_time: Duration::from_secs(60),
            request_time: Duration::from_secs(3600),
            grace: Duration::from_secs(30),
            ping: Duration::from_secs(10),
            connections: 1024,
        }
    }
}

/// Who may ask.
#[derive(Clone, Debug, Default)]
pub struct Boundary {
    /// Hosts under whose name the server may be reached.
    pub hosts: AllowedHosts,
    /// Keys of which a request must carry one; none means that no key is asked for.
    pub keys: ApiKeys,
    /// Origins whose pages may call the server.
    pub cors_origins: Vec<HeaderValue>,
}

/// Why the arguments cannot be meant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number that must be above zero is zero.
    #[error("{argument}: must be at least 1")]
    Zero {
        /// The argument.
        argument: &'static str,
    },
    /// The key file cannot be read.
    #[error("--api-key-file {}: cannot be read", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The key file holds no key, which would leave the server open.
    #[error("--api-key-file {}: no key in it", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A key that no header can carry.
    #[error("an API key is empty or holds characters that a header cannot carry")]
    UnusableKey,
    /// No such instruction set or numerics contract.
    #[error("{argument}: {message}")]
    Unknown {
        /// The argument.
        argument: &'static str,
        /// What there is instead.
        message: String,
    },
    /// A name of the model that is empty.
    #[error("--served-model-name: a name is empty")]
    EmptyName,
    /// An origin that is not `scheme://host[:port]`.
    #[error("--cors-origin {origin:?}: expected scheme://host[:port]")]
    Origin {
        /// As typed.
        origin: String,
    },
}

impl Config {
    /// Decides what the arguments mean. Reads the key file, nothing else.
    ///
    /// # Errors
    /// Numbers of zero where at least one is needed, unusable keys, names and origins, an unreadable key file.
    pub fn from_args(args: &Args) -> Result<Self, ConfigError> {
        let at_least_one = |argument, value: usize| match value {
            0 => Err(ConfigError::Zero { argument }),
            _ => Ok(value),
        };
        let optional = |argument, value: Option<usize>| {
            value.map_or(Ok(None), |value| at_least_one(argument, value).map(Some))
        };
        let seconds = |argument, value: u64| match value {
            0 => Err(ConfigError::Zero { argument }),
            _ => Ok(Duration::from_secs(value)),
        };
        if args
            .served_model_name
            .iter()
            .any(|name| name.trim().is_empty())
        {
            return Err(ConfigError::EmptyName);
        }
        Ok(Self {
            listen: SocketAddr::new(args.host, args.port),
            engine: EngineConfig {
                package: args.package.clone(),
                context: optional("--ctx", args.ctx)?,
                threads: optional("--threads", args.threads)?,
                isa: parse_isa(&args.isa)?,
                contract: parse("--contract", &args.contract)?,
                mtp: args.mtp,
                draft_tokens: at_least_one("--draft-tokens", args.draft_tokens)?,
                prefill_chunk: optional("--prefill-chunk", args.prefill_chunk)?,
                prefix_cache_bytes: args.prefix_cache.saturating_mul(1 << 20),
                verified_record: args.verified_record.clone(),
            },
            names: ModelNames {
                served: args.served_model_name.clone(),
                accept_any: args.ignore_model_name,
            },
            limits: Limits {
                queue: args.max_queue,
                body_bytes: at_least_one("--max-body", args.max_body)?.saturating_mul(1 << 20),
                request_time: seconds("--request-timeout", args.request_timeout)?,
                grace: Duration::from_secs(args.grace),
                ping: seconds("--ping", args.ping)?,
                ..Limits::default()
            },
            boundary: Boundary {
                hosts: AllowedHosts::new(args.host, &args.allowed_host),
                keys: keys(&args.api_key, args.api_key_file.as_deref())?,
                cors_origins: args
                    .cors_origin
                    .iter()
                    .map(|origin| parse_origin(origin))
                    .collect::<Result<_, _>>()?,
            },
            merge_system: args.merge_system,
            thinking_budget: args.thinking_budget,
            log_prompts: args.log_prompts,
            check_prefix_cache: args.check_prefix_cache,
            reasoning_alias: args.reasoning_alias,
        })
    }
}

impl fmt::Display for Mtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Auto => "auto",
        })
    }
}

fn parse_isa(name: &str) -> Result<Option<Isa>, ConfigError> {
    match name {
        "auto" => Ok(None),
        name => parse("--isa", name).map(Some),
    }
}

fn parse<T>(argument: &'static str, name: &str) -> Result<T, ConfigError>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    name.parse().map_err(|error: T::Err| ConfigError::Unknown {
        argument,
        message: error.to_string(),
    })
}

fn keys(typed: &[String], file: Option<&Path>) -> Result<ApiKeys, ConfigError> {
    let mut keys: Vec<String> = typed.to_vec();
    if let Some(path) = file {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::KeyFile {
            path: path.to_owned(),
            source,
        })?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let before = keys.len();
        keys.extend(lines.map(str::to_owned));
        if keys.len() == before {
            return Err(ConfigError::NoKey {
                path: path.to_owned(),
            });
        }
    }
    let usable = |key: &String| !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic());
    if !keys.iter().all(usable) {
        return Err(ConfigError::UnusableKey);
    }
    Ok(ApiKeys::new(&keys))
}

fn parse_origin(origin: &str) -> Result<HeaderValue, ConfigError> {
    let bad = || ConfigError::Origin {
        origin: origin.to_owned(),
    };
    let (scheme, host) = origin.split_once("://").ok_or_else(bad)?;
    if scheme.is_empty() || host.is_empty() || host.contains('/') || host.contains('*') {
        return Err(bad());
    }
    HeaderValue::from_str(origin).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn config(args: &[&str]) -> Result<Config, ConfigError> {
        let args = [&["qwen35-serve"], args].concat();
        Config::from_args(&Args::try_parse_from(args).unwrap())
    }

    #[test]
    fn without_arguments_it_listens_on_the_loopback_with_drafting_on() {
        let config = config(&[]).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:8000");
        assert_eq!(config.engine.mtp, Mtp::On);
        assert_eq!(config.engine.package, None);
        assert!(config.boundary.cors_origins.is_empty());
        assert!(!config.boundary.keys.are_required());
    }

    #[test]
    fn zero_is_refused_where_nothing_would_work_with_it() {
        for argument in [
            "--ctx",
            "--threads",
            "--draft-tokens",
            "--max-body",
            "--ping",
            "--request-timeout",
        ] {
            let refused = config(&[argument, "0"]).unwrap_err();
            assert!(matches!(refused, ConfigError::Zero { argument: named } if named == argument));
        }
        assert_eq!(config(&["--max-queue", "0"]).unwrap().limits.queue, 0);
    }

    #[test]
    fn a_key_file_without_a_key_does_not_leave_the_server_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert!(matches!(
            config(&["--api-key-file", path]),
            Err(ConfigError::NoKey { .. })
        ));
        fs::write(file.path(), "\n one \n\ntwo\n").unwrap();
        let keys = config(&["--api-key-file", path]).unwrap().boundary.keys;
        assert!(keys.contains("one") && keys.contains("two") && !keys.contains(""));
        assert!(matches!(
            config(&["--api-key", ""]),
            Err(ConfigError::UnusableKey)
        ));
        assert!(matches!(
            config(&["--api-key-file", "/nonexistent"]),
            Err(ConfigError::KeyFile { .. })
        ));
    }

    #[test]
    fn unknown_instruction_sets_and_contracts_are_refused() {
        assert!(matches!(
            config(&["--isa", "mmx"]),
            Err(ConfigError::Unknown {
                argument: "--isa",
                ..
            })
        ));
        assert!(matches!(
            config(&["--contract", "host/9"]),
            Err(ConfigError::Unknown {
                argument: "--contract",
                ..
            })
        ));
        let chosen = config(&["--isa", "scalar", "--contract", "host-f32/1"]).unwrap();
        assert_eq!(
            (chosen.engine.isa, chosen.engine.contract),
            (Some(Isa::Scalar), Contract::HostF32)
        );
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        assert!(config(&["--cors-origin", "https://example.org:8443"]).is_ok());
        for origin in ["*", "example.org", "https://", "https://a/b", "https://*.a"] {
            assert!(
                matches!(
                    config(&["--cors-origin", origin]),
                    Err(ConfigError::Origin { .. })
                ),
                "{origin}"
            );
        }
    }
}
