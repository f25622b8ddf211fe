//! Owning a card for as long as a child computes on it.
//!
//! Three parties may hold a card, and each is asked in its own way:
//!
//! 1. another launcher of ours: an advisory lock on a file of ours, held until the [`Ownership`] is dropped;
//! 2. a process that has the device open: the driver's list of processes, and a *probe*, an exclusive open that does not
//!    wait (a driver from 2.10 on refuses it while anybody else has the card open);
//! 3. a process inside the vendor's user-mode driver: the owner in its lock file, since that driver would wait for ever.
//!
//! The probe is closed at once: held, it would keep our own child out. No lock is ever broken and no card is ever reset.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::error::CardError;
use super::holder::{holders, vendor_mutex, vendor_mutex_name};
use super::host::{DriverVersion, HostRoot};

/// Time between two looks at a card that is in use.
const LOOK: Duration = Duration::from_millis(200);

/// What an exclusive open of a device node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// Nobody else has it open, as far as this driver tells.
    Free,
    /// Somebody else has it open.
    Busy,
}

/// The parts of the world that a test stands in for.
pub trait Prober {
    /// Opens the node exclusively without waiting, and closes it.
    ///
    /// # Errors
    ///
    /// Whatever opening fails with, but for being busy.
    fn probe(&mut self, node: &Path) -> io::Result<Probe>;

    /// Waits.
    fn pause(&mut self, time: Duration);
}

/// The real device.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemProber;

impl Prober for SystemProber {
    fn probe(&mut self, node: &Path) -> io::Result<Probe> {
        let flags = (OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC)
            .bits()
            .cast_signed();
        match OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(node)
        {
            Ok(_closed_here) => Ok(Probe::Free),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
                ) =>
            {
                Ok(Probe::Busy)
            }
            Err(e) => Err(e),
        }
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A card that this process may start a child on. Dropping it lets the next launcher in.
#[derive(Debug)]
pub struct Ownership {
    number: u32,
    lock: PathBuf,
    _file: File,
}

impl Ownership {
    /// Claims the card, waiting at most `wait` until everybody else is done with it.
    ///
    /// The lock file lies in `run/lock` below the root, one a card.
    ///
    /// # Errors
    ///
    /// [`CardError::Held`] with every holder that could be found; [`CardError::Io`] when the lock file or the device
    /// cannot be opened.
    pub fn claim(
        root: &HostRoot,
        number: u32,
        wait: Duration,
        prober: &mut dyn Prober,
    ) -> Result<Self, CardError> {
        let lock = root
            .join("run/lock")
            .join(format!("qwen35-card-{number}.lock"));
        let mut file = open_lock(&lock)?;
        let mut waited = Duration::ZERO;
        loop {
            let busy = match file.try_lock() {
                Ok(()) => {
                    let busy = others(root, number, prober)?;
                    if busy.is_empty() {
                        // For the eyes of the next one only.
                        let _ = introduce(&mut file);
                        return Ok(Self {
                            number,
                            lock,
                            _file: file,
                        });
                    }
                    // Not kept while waiting: a launcher that waits must not look like one that runs.
                    file.unlock()
                        .map_err(|source| failed("unlocking", &lock, source))?;
                    busy
                }
                Err(TryLockError::WouldBlock) => vec![format!(
                    "{} holds {}",
                    read_holder(&mut file),
                    lock.display()
                )],
                Err(TryLockError::Error(source)) => return Err(failed("locking", &lock, source)),
            };
            if waited >= wait {
                return Err(CardError::Held {
                    number,
                    waited,
                    holders: busy,
                });
            }
            let time = LOOK.min(wait - waited);
            prober.pause(time);
            waited += time;
        }
    }

    /// The card.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The lock file that is held.
    pub fn lock(&self) -> &Path {
        &self.lock
    }
}

/// Whoever else uses the card, one sentence each.
fn others(root: &HostRoot, number: u32, prober: &mut dyn Prober) -> Result<Vec<String>, CardError> {
    let own = std::process::id();
    let mut busy: Vec<String> = holders(root, number)
        .into_iter()
        .filter(|holder| holder.pid != own)
        .map(|holder| format!("{holder} has the device open"))
        .collect();
    if let Some(owner) = vendor_mutex(root, number) {
        let name = vendor_mutex_name(number);
        let (pid, tid) = (owner.pid, owner.tid);
        busy.push(format!(
            "/dev/shm/{name} is held by process {pid}, thread {tid}, numbered in that process's own namespace"
        ));
    }
    let node = root.join(format!("dev/tenstorrent/{number}"));
    match prober
        .probe(&node)
        .map_err(|source| failed("opening", &node, source))?
    {
        Probe::Free => {}
        Probe::Busy if busy.is_empty() => {
            busy.push(format!("an unnamed process has {} open", node.display()));
        }
        Probe::Busy => {}
    }
    Ok(busy)
}

/// Whether the probe can be trusted alone: older drivers let everybody open a card.
pub fn probe_is_exclusive(version: Option<DriverVersion>) -> bool {
    version.is_some_and(|version| version >= DriverVersion::EXCLUSIVE_OPEN)
}

fn open_lock(lock: &Path) -> Result<File, CardError> {
    if let Some(folder) = lock.parent() {
        fs::create_dir_all(folder).map_err(|source| failed("creating", folder, source))?;
    }
    let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
    let full = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o666)
        .custom_flags(nofollow)
        .open(lock);
    let file = match full {
        // Another user's lock file: reading it is enough to lock it.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => OpenOptions::new()
            .read(true)
            .custom_flags(nofollow)
            .open(lock),
        other => other,
    };
    file.map_err(|source| failed("opening", lock, source))
}

fn introduce(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("process {}\n", std::process::id()).as_bytes())
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(200).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), text) if !text.is_empty() => text.to_owned(),
        _ => "an unknown process".to_owned(),
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> CardError {
    CardError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}
