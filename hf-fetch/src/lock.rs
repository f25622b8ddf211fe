//! One process a commit: an advisory file lock that says who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{FetchError, IoContext};
use crate::layout::make_folders;
use crate::progress::{Event, Progress};

/// Time between two looks at a lock that somebody else holds.
const LOOK: Duration = Duration::from_millis(200);

/// A held lock. Dropping it, or the death of the process, releases it.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, waiting at most `wait` for its holder.
    pub(crate) async fn acquire(
        root: &Path,
        path: &Path,
        wait: Duration,
        clock: &dyn Clock,
        progress: &dyn Progress,
    ) -> Result<Self, FetchError> {
        make_folders(root, path)?;
        let mut file = open(path).at("opening", path)?;
        let mut waited = Duration::ZERO;
        let mut told = String::new();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    // Only for the eyes of others; a lock file of another user may not be writable, the lock holds anyway.
                    let _ = introduce(&mut file);
                    return Ok(Self { _file: file });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => return Err(e).at("locking", path),
            }
            let holder = holder(&mut file);
            if waited >= wait {
                return Err(FetchError::Locked {
                    lock: path.to_owned(),
                    holder,
                    waited,
                });
            }
            if holder != told {
                progress.report(&Event::WaitingForLock { holder: &holder });
                told = holder;
            }
            let pause = LOOK.min(wait - waited);
            clock.sleep(pause).await;
            waited += pause;
        }
    }
}

/// Opens for writing where allowed. Another user's lock file can at least be read, and that is enough to lock it.
fn open(path: &Path) -> io::Result<File> {
    let nofollow = crate::part::nofollow();
    let full = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o666)
        .custom_flags(nofollow)
        .open(path);
    match full {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => OpenOptions::new()
            .read(true)
            .custom_flags(nofollow)
            .open(path),
        other => other,
    }
}

fn introduce(file: &mut File) -> io::Result<()> {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let text = format!("pid {} on {host}\n", std::process::id());
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(300).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), text) if !text.is_empty() => text.to_owned(),
        _ => "an unknown process".to_owned(),
    }
}
