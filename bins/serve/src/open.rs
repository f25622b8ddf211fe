//! Opening a package: every byte is checked, then the model is loaded on this machine's CPU.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use native_manifest::{EmbeddedFile, Progress, Snapshot, Verified, VerifiedRecord, VerifyOptions};
use qwen35_model::engine::{Drafting, EngineOptions};
use qwen35_model::package::{self, CpuOptions};
use qwen35_model::session::PrefixLimits;
use qwen35_model::{ModelConfig, SessionOptions};

use crate::args::Mtp;
use crate::config::EngineConfig;
use crate::generate::engine_thread::{OpenEngine, OpenError, Opened};
use crate::generate::status::LoadProgress;
use crate::model::{ModelText, PackageFacts};

/// The demo package, compiled in.
pub static DEMO: &[EmbeddedFile] = &include!(concat!(env!("OUT_DIR"), "/demo_files.rs"));

/// Longest sequence in tokens when nothing is asked for.
const USUAL_CONTEXT: usize = 8192;

/// What opens the package of a configuration. The bytes are checked the first time; a later call (after a panic) uses what
/// was checked.
#[must_use]
pub fn opener(config: EngineConfig) -> OpenEngine {
    let mut verified: Option<Snapshot<Verified>> = None;
    Box::new(move |report| {
        let package = match &verified {
            Some(package) => package.clone(),
            None => verified.insert(verify(&config, report)?).clone(),
        };
        report(LoadProgress::phase("load"));
        let opened = package::open(&package, cpu_options(&config, &package)?)?;
        Ok(Opened {
            engine: Box::new(opened.engine),
            text: ModelText {
                tokenizer: opened.tokenizer,
                template: opened.template,
                generation: opened.generation,
                facts: PackageFacts {
                    path: package.origin(),
                    quantization: quantization(&package),
                },
            },
        })
    })
}

fn verify(
    config: &EngineConfig,
    report: &mut dyn FnMut(LoadProgress),
) -> Result<Snapshot<Verified>, OpenError> {
    report(LoadProgress::phase("verify"));
    let claimed = match &config.package {
        Some(folder) => Snapshot::open(folder)?,
        None => Snapshot::from_embedded(DEMO)?,
    };
    let options = VerifyOptions {
        known: config.verified_record.as_deref().and_then(read_record),
        ..VerifyOptions::default()
    };
    let (tell, told) = std::sync::mpsc::channel();
    let progress = Hashed {
        state: Mutex::new((0, 0)),
        tell: Mutex::new(tell),
    };
    // The check runs on other threads, the reports are this one's.
    let outcome = std::thread::scope(|scope| {
        let check = scope.spawn(move || claimed.verify(&options, &progress));
        while let Ok(done) = told.recv() {
            report(done);
        }
        check.join()
    });
    let (package, record) = match outcome {
        Ok(outcome) => outcome?,
        Err(_) => return Err("checking the package panicked".into()),
    };
    if let Some(path) = &config.verified_record
        && let Err(error) = write_record(path, &record)
    {
        tracing::warn!(path = %path.display(), %error, "what was verified could not be remembered");
    }
    Ok(package)
}

struct Hashed {
    // Bytes hashed and bytes in all.
    state: Mutex<(u64, u64)>,
    tell: Mutex<std::sync::mpsc::Sender<LoadProgress>>,
}

impl Hashed {
    fn change(&self, change: impl FnOnce(&mut (u64, u64))) {
        let (done, total) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut state);
            *state
        };
        let progress = LoadProgress {
            phase: "verify".into(),
            done,
            total,
        };
        let tell = self.tell.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody listens any more only when the whole check is given up.
        drop(tell.send(progress));
    }
}

impl Progress for Hashed {
    fn started(&self, _files: u64, bytes: u64) {
        self.change(|state| *state = (0, bytes));
    }

    fn advanced(&self, bytes: u64) {
        self.change(|state| state.0 += bytes);
    }
}

/// A record that cannot be read is as good as none: everything is hashed again.
fn read_record(path: &Path) -> Option<VerifiedRecord> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write_record(path: &Path, record: &VerifiedRecord) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.persist(path)?;
    Ok(())
}

fn cpu_options(
    config: &EngineConfig,
    package: &Snapshot<Verified>,
) -> Result<CpuOptions, OpenError> {
    let usual = SessionOptions::default();
    let most = match package.checkpoint_named("config.json")? {
        Some(json) => ModelConfig::parse(&json)?.max_positions,
        None => USUAL_CONTEXT,
    };
    if let Some(asked) = config.context.filter(|&asked| asked > most) {
        return Err(format!("--ctx {asked}: the model allows at most {most} tokens").into());
    }
    let session = SessionOptions {
        context: config.context.unwrap_or(USUAL_CONTEXT.min(most)),
        prefill_rows: config.prefill_chunk.unwrap_or(usual.prefill_rows),
        drafts: config.draft_tokens,
        prefixes: PrefixLimits {
            bytes: config.prefix_cache_bytes,
        },
    };
    let drafting = match config.mtp {
        Mtp::On => Drafting::On,
        Mtp::Off => Drafting::Off,
        Mtp::Auto => Drafting::Auto,
    };
    Ok(CpuOptions {
        contract: Some(config.contract),
        isa: config.isa,
        threads: config.threads,
        engine: EngineOptions {
            session,
            drafting,
            ..EngineOptions::default()
        },
        ..CpuOptions::default()
    })
}

/// How the matrices are stored, the most bytes first: `bfp8_b+bfp4_b`.
fn quantization(package: &Snapshot<Verified>) -> String {
    let mut bytes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for tensor in package
        .manifest()
        .tensors
        .iter()
        .filter(|tensor| tensor.shape.len() > 1)
    {
        *bytes.entry(tensor.dtype.name()).or_default() += tensor.bytes;
    }
    let mut kinds: Vec<(&str, u64)> = bytes
        .into_iter()
        .filter(|(name, _)| name.starts_with("bfp"))
        .collect();
    kinds.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let names: Vec<&str> = kinds.into_iter().map(|(name, _)| name).collect();
    match &names[..] {
        [] => "none".to_owned(),
        names => names.join("+"),
    }
}
