//! Tenstorrent cards: which are here, whether they could be used, and who uses them.
//!
//! Nothing in this module talks to a card's memory or resets it. It reads what the kernel driver publishes under `/sys` and
//! `/proc`, and opens a device node only for the blink of an eye to see whether somebody else owns it ([`own`]). All of it
//! takes a [`HostRoot`], so that a test can hand in a folder instead of the machine.
//!
//! Computing on a card happens in another process, the release's container; [`container`] writes its command line.
//!
//! Sources: `tt-kmd` (`docs/sysfs-attributes.md`, `hwmon.c`, `chardev.c`) and `tt-umd` (`device/utils/robust_mutex.cpp`),
//! read and not run: no card was present.

pub mod container;
mod discover;
mod error;
mod holder;
mod host;
pub mod own;
pub mod preflight;

pub use discover::{Board, Card, Telemetry, discover};
pub use error::CardError;
pub use holder::{Holder, MutexOwner, holders, vendor_mutex};
pub use host::{DriverVersion, HostRoot};
