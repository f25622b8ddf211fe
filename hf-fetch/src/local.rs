//! Bytes that are already on this machine: hashed where they stand, or copied through the same end as fetched ones.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use native_manifest::PackagePath;

use crate::contents::Wanted;
use crate::digest::Hasher;
use crate::error::{FetchError, IoContext};
use crate::progress::{Event, Progress, Source};
use crate::records::Records;
use crate::sink::{Settled, Sink, Site, Step};

/// Bytes read at once.
const BLOCK_BYTES: usize = 256 << 10;

/// A file that was hashed where it stands.
pub(crate) struct Rehashed {
    pub(crate) file: Arc<Wanted>,
    /// Its state, when its bytes are right.
    pub(crate) right: Option<Metadata>,
}

/// Hashes a file of a snapshot.
pub(crate) fn rehash(
    file: Arc<Wanted>,
    base: &Path,
    progress: &dyn Progress,
) -> Result<Rehashed, FetchError> {
    let path = file.path.join_to(base);
    let mut hasher = Hasher::new(&file.digest, file.bytes);
    let mut source = File::open(&path).at("opening", &path)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match source.read(&mut block) {
            Ok(0) => break,
            Ok(read) => hasher.update(&block[..read]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).at("reading", &path),
        }
    }
    let found = source.metadata().at("looking at", &path)?;
    let right = hasher.finish() == file.digest.hex() && found.len() == file.bytes;
    if right {
        progress.report(&Event::FileVerified {
            path: &file.path,
            bytes: file.bytes,
            source: Source::Rehashed,
        });
    } else {
        let reason = "its digest is wrong";
        progress.report(&Event::FileRewound {
            path: &file.path,
            bytes: found.len(),
            reason,
        });
    }
    Ok(Rehashed {
        file,
        right: right.then_some(found),
    })
}

/// Records the right files and removes the wrong ones; the names of the latter.
pub(crate) fn take_down(
    root: &Path,
    base: &Path,
    rehashed: Vec<Rehashed>,
    records: &Mutex<Records>,
) -> Result<HashSet<PackagePath>, FetchError> {
    let mut wrong = HashSet::new();
    let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
    for Rehashed { file, right } in rehashed {
        match right {
            Some(found) => records.add(root, &file.path, &found, &file.digest.hex())?,
            None => {
                let path = file.path.join_to(base);
                fs::remove_file(&path).at("removing", &path)?;
                wrong.insert(file.path.clone());
            }
        }
    }
    Ok(wrong)
}

/// Writes bytes that came with the inventory. False when they are not the file's.
pub(crate) fn write(site: Site, file: Arc<Wanted>, document: &Bytes) -> Result<bool, FetchError> {
    let mut sink = Sink::open(site, file)?;
    sink.rewind("its bytes came with the inventory")?;
    if !document.is_empty() {
        sink.take(Step::Write {
            at: 0,
            bytes: document.clone(),
        })?;
    }
    Ok(matches!(sink.settle(Source::Hub)?, Settled::Whole))
}

/// Copies a file of a Hugging Face cache. False when its bytes turn out to be others.
pub(crate) fn copy(site: Site, file: Arc<Wanted>, from: &Path) -> Result<bool, FetchError> {
    // The cache belongs to somebody else and may change or vanish at any time: then the Hub is asked.
    let Ok(mut source) = File::open(from) else {
        return Ok(false);
    };
    let bytes = file.bytes;
    let mut sink = Sink::open(site, file)?;
    sink.rewind("a Hugging Face cache has it")?;
    let mut at = 0;
    while at < bytes {
        let mut block = vec![
            0;
            usize::try_from(bytes - at)
                .unwrap_or(usize::MAX)
                .min(BLOCK_BYTES)
        ];
        if source.read_exact(&mut block).is_err() {
            break;
        }
        let length = block.len() as u64;
        sink.take(Step::Write {
            at,
            bytes: block.into(),
        })?;
        at += length;
    }
    if at < bytes {
        sink.rewind("the Hugging Face cache lost it")?;
        return Ok(false);
    }
    Ok(matches!(sink.settle(Source::HfCache)?, Settled::Whole))
}
