//! The writing end of a transfer: bytes go to their place in the part, and through the hash in their order.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::contents::Wanted;
use crate::digest::Hasher;
use crate::disk::Disk;
use crate::error::FetchError;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::part::{Gap, Part};
use crate::progress::{Event, Progress, Source};
use crate::records::Records;

/// Bytes read at once when the hash follows what was written out of order.
const CATCH_UP_BYTES: usize = 256 << 10;
/// Pieces that wait between the network and the disk. A piece is half a megabyte at most.
const WAITING_PIECES: usize = 8;

/// What all transfers of one fetch share.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) root: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) range_bytes: u64,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) records: Arc<Mutex<Records>>,
    pub(crate) progress: Arc<dyn Progress>,
    /// Held by every writer, so that a cancelled fetch keeps the lock until its last writer is gone.
    pub(crate) _lock: Arc<Lock>,
}

/// What happens to a part.
#[derive(Debug)]
pub(crate) enum Step {
    /// Bytes for a place.
    Write { at: u64, bytes: Bytes },
    /// The entity tag of the file that the bytes are of.
    Tag(String),
    /// Everything so far was of no use.
    Rewind(&'static str),
}

/// How a part ended.
#[derive(Debug)]
pub(crate) enum Settled {
    /// Verified and under its name.
    Whole,
    /// Not all bytes came; they are kept for the next run.
    Incomplete,
    /// All bytes came and are wrong; they are gone.
    Wrong {
        /// Hexadecimal digits of their digest.
        found: String,
    },
}

/// One part being written.
pub(crate) struct Sink {
    site: Site,
    file: Arc<Wanted>,
    part: Part,
    hasher: Hasher,
    /// Bytes from the start that went through the hash.
    hashed: u64,
    block: Vec<u8>,
}

impl Sink {
    pub(crate) fn open(site: Site, file: Arc<Wanted>) -> Result<Self, FetchError> {
        let part = Part::open(
            &site.root,
            site.layout.part(&file.path),
            file.bytes,
            site.range_bytes,
        )?;
        let hasher = Hasher::new(&file.digest, file.bytes);
        site.progress.report(&Event::FileStarted {
            path: &file.path,
            bytes: file.bytes,
            have: part.have(),
        });
        Ok(Self {
            site,
            file,
            part,
            hasher,
            hashed: 0,
            block: Vec::new(),
        })
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        self.part.gaps()
    }

    pub(crate) fn tag(&self) -> Option<String> {
        self.part.tag().map(str::to_owned)
    }

    pub(crate) fn take(&mut self, step: Step) -> Result<(), FetchError> {
        match step {
            Step::Tag(tag) => self.part.set_tag(&tag),
            Step::Rewind(reason) => self.rewind(reason),
            Step::Write { at, bytes } => {
                self.part.write(&*self.site.disk, at, &bytes)?;
                if at == self.hashed {
                    self.hasher.update(&bytes);
                    self.hashed += bytes.len() as u64;
                }
                let bytes = bytes.len() as u64;
                self.site.progress.report(&Event::FileAdvanced {
                    path: &self.file.path,
                    bytes,
                });
                Ok(())
            }
        }
    }

    pub(crate) fn rewind(&mut self, reason: &'static str) -> Result<(), FetchError> {
        let bytes = self.part.rewind()?;
        self.hasher = Hasher::new(&self.file.digest, self.file.bytes);
        self.hashed = 0;
        if bytes > 0 {
            self.site.progress.report(&Event::FileRewound {
                path: &self.file.path,
                bytes,
                reason,
            });
        }
        Ok(())
    }

    /// Hashes one block of what was written ahead of the hash. False when there is none.
    fn catch_up(&mut self) -> Result<bool, FetchError> {
        let ahead = self.part.contiguous() - self.hashed;
        if ahead == 0 {
            return Ok(false);
        }
        self.block.resize(CATCH_UP_BYTES, 0);
        let length = usize::try_from(ahead)
            .unwrap_or(usize::MAX)
            .min(CATCH_UP_BYTES);
        let block = &mut self.block[..length];
        self.part.read(self.hashed, block)?;
        self.hasher.update(block);
        self.hashed += length as u64;
        Ok(true)
    }

    /// The one way in which every file ends, however it came: size, digest, sync, rename, record.
    pub(crate) fn settle(mut self, source: Source) -> Result<Settled, FetchError> {
        while self.catch_up()? {}
        if self.hashed < self.file.bytes {
            return Ok(Settled::Incomplete);
        }
        let found = self.hasher.finish();
        if found != self.file.digest.hex() {
            let reason = "its digest is wrong";
            let bytes = self.part.have();
            self.part.discard()?;
            self.site.progress.report(&Event::FileRewound {
                path: &self.file.path,
                bytes,
                reason,
            });
            return Ok(Settled::Wrong { found });
        }
        let name = self.file.path.join_to(self.site.layout.files());
        let metadata = self.part.finish(&self.site.root, &name)?;
        let mut records = self
            .site
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        records.add(&self.site.root, &self.file.path, &metadata, &found)?;
        drop(records);
        self.site.progress.report(&Event::FileVerified {
            path: &self.file.path,
            bytes: self.file.bytes,
            source,
        });
        Ok(Settled::Whole)
    }
}

/// A sink on a thread of its own, fed through a short queue.
pub(crate) struct Feed {
    pub(crate) steps: mpsc::Sender<Step>,
    end: JoinHandle<Result<Settled, FetchError>>,
}

impl Feed {
    pub(crate) fn start(sink: Sink) -> Self {
        let (steps, queue) = mpsc::channel(WAITING_PIECES);
        let end = tokio::task::spawn_blocking(move || drain(sink, queue));
        Self { steps, end }
    }

    /// Ends the feed and waits until the sink has settled.
    pub(crate) async fn settle(self) -> Result<Settled, FetchError> {
        drop(self.steps);
        match self.end.await {
            Ok(settled) => settled,
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime shuts down; nothing was renamed.
                Err(_) => Ok(Settled::Incomplete),
            },
        }
    }
}

/// Writes what comes. Between two pieces the hash may read two blocks of what lies ahead of it, so that it keeps pace
/// with pieces that come out of order without holding up the network for long.
fn drain(mut sink: Sink, mut queue: mpsc::Receiver<Step>) -> Result<Settled, FetchError> {
    loop {
        let step = match queue.try_recv() {
            Ok(step) => step,
            Err(mpsc::error::TryRecvError::Disconnected) => break,
            Err(mpsc::error::TryRecvError::Empty) if sink.catch_up()? => continue,
            Err(mpsc::error::TryRecvError::Empty) => match queue.blocking_recv() {
                Some(step) => step,
                None => break,
            },
        };
        sink.take(step)?;
        let _ = sink.catch_up()? && sink.catch_up()?;
    }
    sink.settle(Source::Hub)
}
