//! The machine as the kernel shows it, or a folder that looks like it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Folder that holds `sys`, `proc` and `dev`: `/` on a real machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoot(PathBuf);

impl HostRoot {
    /// This machine.
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A folder that looks like a machine.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Whether this is the machine itself.
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// A path of the machine, given without the leading slash.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// A short text file without its white space; `None` when it is absent, unreadable or empty.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        text(&self.join(path))
    }

    /// Version of the kernel driver, `None` when it is not loaded.
    pub fn driver_version(&self) -> Option<DriverVersion> {
        let loaded = self.join("sys/module/tenstorrent").is_dir();
        let text = self.text("sys/module/tenstorrent/version");
        text.and_then(|t| t.parse().ok())
            .or_else(|| loaded.then_some(DriverVersion::UNKNOWN))
    }
}

pub(crate) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Version of the kernel driver `tenstorrent` (tt-kmd).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverVersion {
    /// Major number; the driver's interface has version 2 since 2.0.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Patch number.
    pub patch: u32,
}

impl DriverVersion {
    /// A loaded driver that does not tell its version.
    pub const UNKNOWN: Self = Self::new(0, 0, 0);
    /// The oldest version that can be used.
    pub const OLDEST: Self = Self::new(2, 0, 0);
    /// The first version that makes an exclusive open a writer's lock.
    pub const EXCLUSIVE_OPEN: Self = Self::new(2, 10, 0);

    /// A version from its three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl FromStr for DriverVersion {
    type Err = std::num::ParseIntError;

    /// Reads `2.10.0`, `2.10` or `2.10.0-rc1`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.trim().split(['-', '+']).next().unwrap_or_default();
        let mut numbers = numbers.split('.');
        let major = numbers.next().unwrap_or_default().parse()?;
        let mut next = || numbers.next().map_or(Ok(0), str::parse);
        Ok(Self {
            major,
            minor: next()?,
            patch: next()?,
        })
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNKNOWN {
            return f.write_str("of unknown version");
        }
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_versions_compare_by_number() {
        let version = |text: &str| text.parse::<DriverVersion>().unwrap();
        assert!(version("2.10.0") > version("2.9.1"));
        assert_eq!(version("2.10"), DriverVersion::EXCLUSIVE_OPEN);
        assert_eq!(version("2.4.1-rc2\n"), DriverVersion::new(2, 4, 1));
        assert!("".parse::<DriverVersion>().is_err());
        assert!("two".parse::<DriverVersion>().is_err());
    }
}
