//! Who uses a card.

use std::fmt;
use std::fs;

use super::host::HostRoot;

/// A process that has a card open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number, as this process sees it.
    pub pid: u32,
    /// Its command name, when `/proc` shows it.
    pub command: Option<String>,
    /// Its number inside its own, other process namespace: it runs in a container, where that number is what locks record.
    pub pid_in_container: Option<u32>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if let Some(command) = &self.command {
            write!(f, " ({command})")?;
        }
        match self.pid_in_container {
            Some(inner) => write!(f, " in a container, where it is process {inner}"),
            None => Ok(()),
        }
    }
}

/// Processes that have the card open, as the driver lists them in `/proc/driver/tenstorrent/N/pids`, one number a line.
pub fn holders(root: &HostRoot, number: u32) -> Vec<Holder> {
    let list = fs::read_to_string(root.join(format!("proc/driver/tenstorrent/{number}/pids")))
        .unwrap_or_default();
    let mut pids: Vec<u32> = list
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().map(|pid| holder(root, pid)).collect()
}

fn holder(root: &HostRoot, pid: u32) -> Holder {
    let status = fs::read_to_string(root.join(format!("proc/{pid}/status"))).unwrap_or_default();
    // "NSpid: 4711 1" lists the number in each nested namespace, the innermost last.
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .unwrap_or_default();
    let numbers = numbers
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .skip(1);
    Holder {
        pid,
        command: root.text(format!("proc/{pid}/comm")),
        pid_in_container: numbers.last(),
    }
}

/// Who the vendor's user-mode driver says holds its lock on the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MutexOwner {
    /// Process, numbered in *its* namespace: 1 for nearly every container.
    pub pid: u32,
    /// Thread, numbered likewise.
    pub tid: u32,
}

/// Name of the vendor's lock on a card, below `/dev/shm`.
pub(crate) fn vendor_mutex_name(number: u32) -> String {
    format!("TT_UMD_LOCK.CHIP_IN_USE_{number}_PCIe")
}

/// The owner that stands in the vendor's lock file, `None` when it is free, absent or laid out in another way.
///
/// The vendor's driver waits for this lock for ever, so it is looked at before a child is started. Layout on 64-bit Linux
/// (tt-umd `device/utils/robust_mutex.cpp`): `pthread_mutex_t` (40 bytes), the word `TTUMDMTX`, thread, process. The mutex
/// begins with its futex word, and the kernel marks there that an owner died (`futex(2)`, robust lists): such a lock is
/// free for the next one, though the dead owner still stands in the file.
pub fn vendor_mutex(root: &HostRoot, number: u32) -> Option<MutexOwner> {
    const OWNER_DIED: u32 = 0x4000_0000;
    const THREAD_BITS: u32 = 0x3fff_ffff;
    let bytes = fs::read(root.join("dev/shm").join(vendor_mutex_name(number))).ok()?;
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let mark = u64::from_ne_bytes(bytes.get(40..48)?.try_into().ok()?);
    let (futex, tid, pid) = (word(0)?, word(48)?, word(52)?);
    let held = futex & THREAD_BITS != 0 && futex & OWNER_DIED == 0;
    (held && mark == 0x5454_554d_444d_5458).then_some(MutexOwner { pid, tid })
}
