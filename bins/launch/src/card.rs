//! Serving on a P150: the release's own container, from the checks before to the last goodbye.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use native_manifest::Sha256Digest;
use tt_device::card::container::{CHECKPOINT, Container, INNER_PORT, ImageRef, TENSOR_CACHE};
use tt_device::card::own::{Ownership, SystemProber};
use tt_device::card::preflight::{Circumstances, DiskNeed, Report, Verdict, preflight};
use tt_device::card::{HostRoot, discover};

use crate::args::LaunchArgs;
use crate::docker::{self, Running, shell_line};
use crate::doctor;
use crate::error::LaunchError;
use crate::health;
use crate::prepare::Package;
use crate::signals::Signals;
use crate::tensor_cache::{self, Key};

/// The chip that tensors are converted for.
const ARCHITECTURE: &str = "blackhole";

/// Everything that is decided before anything runs.
#[derive(Debug)]
pub(crate) struct CardPlan {
    pub(crate) card: u32,
    pub(crate) image: ImageRef,
    pub(crate) tensor_cache: PathBuf,
}

/// The machine, or the folder that stands for it.
pub(crate) fn host_root(given: Option<&Path>) -> HostRoot {
    given.map_or_else(HostRoot::system, HostRoot::at)
}

/// The first P150 of this machine, or the one that was asked for.
pub(crate) fn find_card(root: &HostRoot, wanted: Option<u32>) -> Option<u32> {
    let cards = discover(root);
    cards
        .iter()
        .find(|card| wanted.map_or(card.board.is_p150(), |n| card.number == n))
        .map(|card| card.number)
}

impl CardPlan {
    /// Checks what can be checked without the card: image, folders.
    pub(crate) fn new(
        args: &LaunchArgs,
        package: &Package,
        cache_root: &Path,
        card: u32,
    ) -> Result<Self, LaunchError> {
        let image = image(args, package)?;
        let tensor_cache = args
            .tensor_cache
            .clone()
            .unwrap_or_else(|| beside(cache_root));
        let tensor_cache = std::path::absolute(&tensor_cache).unwrap_or(tensor_cache);
        tensor_cache::refuse_overlap(&tensor_cache, cache_root)?;
        tensor_cache::refuse_overlap(&tensor_cache, &package.folder)?;
        Ok(Self {
            card,
            image,
            tensor_cache,
        })
    }

    fn container(
        &self,
        args: &LaunchArgs,
        package: &Package,
        tensor_cache: Option<PathBuf>,
        id_file: PathBuf,
    ) -> Container {
        let mut server_arguments = vec!["--checkpoint", CHECKPOINT];
        if tensor_cache.is_some() {
            server_arguments.extend(["--tensor-cache", TENSOR_CACHE]);
        }
        let port = INNER_PORT.to_string();
        server_arguments.extend([
            "--mtp",
            args.mtp.word(),
            "--host",
            "0.0.0.0",
            "--port",
            &port,
        ]);
        Container {
            image: self.image.clone(),
            name: format!("qwen35-{}-{}", package.short_name, args.port),
            port: args.port,
            card: self.card,
            checkpoint: package.folder.join(native_manifest::schema::CHECKPOINT),
            tensor_cache,
            id_file,
            server_arguments: server_arguments.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The command line, with the folder that the tensor cache will have. The manifest must be here to name that.
    pub(crate) fn command(
        &self,
        args: &LaunchArgs,
        package: &Package,
    ) -> Result<String, LaunchError> {
        let tensors = match self.key(package) {
            Ok(manifest) => tensor_cache::folder(&self.tensor_cache, &self.cache_key(manifest)),
            // Before the fetch its name is not known yet.
            Err(_) => self.tensor_cache.clone(),
        };
        let id_file = std::env::temp_dir().join("qwen35-launch.id");
        Ok(shell_line(
            "docker",
            &self
                .container(args, package, Some(tensors), id_file)
                .run_arguments()?,
        ))
    }

    fn key(&self, package: &Package) -> Result<Sha256Digest, LaunchError> {
        let path = package.folder.join(native_manifest::schema::MANIFEST_FILE);
        let text = std::fs::read(&path).map_err(|source| LaunchError::Io {
            doing: "reading",
            path,
            source,
        })?;
        Ok(Sha256Digest::of(&text))
    }

    fn cache_key(&self, manifest: Sha256Digest) -> Key<'_> {
        Key {
            manifest,
            image: self.image.digest(),
            architecture: ARCHITECTURE,
        }
    }
}

/// The machine's state, with room for the rest of the package and for its tensors.
pub(crate) fn examine(
    args: &LaunchArgs,
    package: &Package,
    plan: &CardPlan,
    cache_root: &Path,
) -> Report {
    let disks = vec![
        DiskNeed {
            purpose: "packages",
            folder: cache_root.to_owned(),
            bytes: package.missing_bytes(),
        },
        DiskNeed {
            purpose: "tensor cache",
            folder: plan.tensor_cache.clone(),
            bytes: package.bytes(),
        },
    ];
    let circumstances = Circumstances {
        docker: docker::version(),
        disks,
        card: Some(plan.card),
    };
    preflight(&host_root(args.host_root.as_deref()), &circumstances)
}

/// Refuses a machine that is not ready, with each finding and its mend.
pub(crate) fn refuse_unready(report: &Report) -> Result<(), LaunchError> {
    if report.is_ready() {
        return Ok(());
    }
    let bad = report
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Bad);
    let findings = bad.map(doctor::finding_line).collect::<Vec<_>>().join("\n");
    Err(LaunchError::NotReady { findings })
}

/// Runs the container until it ends or a signal comes. The card is owned from before its start until after its end.
pub(crate) async fn serve(
    args: &LaunchArgs,
    package: &Package,
    plan: &CardPlan,
    signals: &mut Signals,
) -> Result<(), LaunchError> {
    // Docker would find out as well, but only after the image was loaded, and in other words.
    TcpListener::bind(("127.0.0.1", args.port)).map_err(|source| LaunchError::PortTaken {
        port: args.port,
        source,
    })?;
    let root = host_root(args.host_root.as_deref());
    let wait = Duration::from_secs(args.device_wait);
    let card = plan.card;
    let claim =
        tokio::task::spawn_blocking(move || Ownership::claim(&root, card, wait, &mut SystemProber));
    let ownership = claim
        .await
        .map_err(|stopped| LaunchError::Serve(stopped.to_string()))??;

    let manifest = plan.key(package)?;
    let tensors = tensor_cache::open(&plan.tensor_cache, &plan.cache_key(manifest))?;
    let temporary = tempfile::Builder::new().prefix("qwen35-launch-").tempdir();
    let temporary = temporary.map_err(|source| LaunchError::Io {
        doing: "making",
        path: std::env::temp_dir(),
        source,
    })?;
    let container = plan.container(
        args,
        package,
        tensors,
        temporary.path().join("container.id"),
    );
    println!("Image: {}", plan.image);
    let mut running = Running::start(&container)?;

    let outcome = watch(args, &mut running, signals).await;
    if !matches!(outcome, Ok(Ended::Itself)) {
        let grace = Duration::from_secs(args.grace);
        running.ask_to_end();
        let mut end = std::pin::pin!(running.end(grace));
        loop {
            tokio::select! {
                ended = &mut end => { ended?; break }
                name = signals.next() => {
                    eprintln!("{name} again: the card is being closed; killing it now could leave the card hanging");
                }
            }
        }
    }
    drop(ownership);
    outcome.map(|_| ())
}

/// How a container came to its end.
#[derive(Debug)]
enum Ended {
    /// It ended before it was asked to.
    Itself,
    /// A signal came, and it has to be asked.
    Asked,
}

async fn watch(
    args: &LaunchArgs,
    running: &mut Running,
    signals: &mut Signals,
) -> Result<Ended, LaunchError> {
    let patience = Duration::from_secs(args.health_timeout);
    tokio::select! {
        ended = running.ended() => return Err(LaunchError::ContainerEnded { status: ended?.to_string() }),
        name = signals.next() => return Ok(asked(name)),
        ready = health::until_ready(args.port, patience) => match ready {
            Ok(after) => println!("Ready: http://127.0.0.1:{} after {} s", args.port, after.as_secs()),
            Err(last) => return Err(LaunchError::Unhealthy { waited: patience, last }),
        },
    }
    tokio::select! {
        ended = running.ended() => match ended? {
            status if status.success() => Ok(Ended::Itself),
            status => Err(LaunchError::ContainerEnded { status: status.to_string() }),
        },
        name = signals.next() => Ok(asked(name)),
    }
}

fn asked(name: &str) -> Ended {
    eprintln!("{name}: the server finishes what runs and closes the card");
    Ended::Asked
}

/// The release's own image. Another one is refused: the proofs that lie beside the weights were made with that one.
fn image(args: &LaunchArgs, package: &Package) -> Result<ImageRef, LaunchError> {
    let release = package.release.release.clone();
    let given = args
        .image
        .as_deref()
        .map(str::parse::<ImageRef>)
        .transpose()?;
    let named = package
        .release
        .image
        .as_ref()
        .map(|image| image.to_string().parse::<ImageRef>())
        .transpose()?;
    match (named, given) {
        (Some(named), Some(given)) if named.digest() != given.digest() => {
            Err(LaunchError::OtherImage {
                release,
                expected: named.to_string(),
                given: given.to_string(),
            })
        }
        // The same bytes from another registry: a mirror.
        (_, Some(given)) => Ok(given),
        (Some(named), None) => Ok(named),
        (None, None) => Err(LaunchError::NoImage { release }),
    }
}

/// `<cache root>-tensors`: beside the packages, never among them.
pub(crate) fn beside(cache_root: &Path) -> PathBuf {
    let mut name = cache_root.file_name().unwrap_or_default().to_owned();
    name.push("-tensors");
    cache_root.with_file_name(name)
}
