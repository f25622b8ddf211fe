//! Why nothing runs, and the exit code that says so.

use std::path::PathBuf;
use std::time::Duration;

use hf_fetch::FetchError;
use native_manifest::ManifestError;
use qwen35_fetch::SettingError;
use tt_device::card::CardError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{package}: {source}", package = package.display())]
    Package {
        package: PathBuf,
        source: ManifestError,
    },
    #[error("{repo} is no native package: it has no runtime-release.json")]
    NotNative { repo: String },
    #[error(
        "the card is started only with --device-ownership-confirmed: it says that nobody else needs card {card} now \
         (or choose --device cpu)"
    )]
    NotConfirmed { card: u32 },
    #[error("this machine is not ready for a card:\n{findings}")]
    NotReady { findings: String },
    #[error(transparent)]
    Card(#[from] CardError),
    #[error("release {release} names no image; give one with --image NAME@sha256:DIGEST")]
    NoImage { release: String },
    #[error(
        "release {release} was proved with {expected}; running it with {given} would make its proofs say what was not \
         measured"
    )]
    OtherImage {
        release: String,
        expected: String,
        given: String,
    },
    #[error(
        "{proof} was made with the manifest {expected}, this package has {found}: it proves another release"
    )]
    ForeignProof {
        proof: String,
        expected: String,
        found: String,
    },
    #[error("--tensor-cache {tensor_cache} and the packages in {packages} must not contain each other",
            tensor_cache = tensor_cache.display(), packages = packages.display())]
    TensorCacheInside {
        tensor_cache: PathBuf,
        packages: PathBuf,
    },
    #[error("{doing} {path}: {source}", path = path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("docker cannot be run: {0}")]
    Docker(std::io::Error),
    #[error("the container ended by itself ({status}); its own words are above")]
    ContainerEnded { status: String },
    #[error("the server did not answer within {waited:?}: {last}")]
    Unhealthy { waited: Duration, last: String },
    #[error("port {port} of 127.0.0.1 is taken: {source}")]
    PortTaken { port: u16, source: std::io::Error },
    #[error("{0}")]
    Serve(String),
}

impl LaunchError {
    /// 1 a finding, 2 usage, 3 input, network or disk, 4 device.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::ForeignProof { .. }
            | Self::Fetch(FetchError::Digest { .. })
            | Self::Setting(SettingError::Fetch(FetchError::Digest { .. })) => 1,
            Self::Setting(SettingError::Fetch(
                FetchError::Endpoint { .. } | FetchError::Setting { .. },
            ))
            | Self::Setting(SettingError::NoHome | SettingError::Seconds { .. })
            | Self::NotConfirmed { .. }
            | Self::OtherImage { .. }
            | Self::NoImage { .. }
            | Self::TensorCacheInside { .. }
            | Self::Card(CardError::Image { .. } | CardError::Mount { .. }) => 2,
            Self::NotReady { .. }
            | Self::Card(_)
            | Self::Docker(_)
            | Self::ContainerEnded { .. }
            | Self::Unhealthy { .. } => 4,
            _ => 3,
        }
    }
}
