//! Which cards are here, and how they are.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::holder::{Holder, holders};
use super::host::{HostRoot, text};

/// PCI identity of a Blackhole chip.
const BLACKHOLE: (&str, &str) = ("0x1e52", "0xb140");

/// The kind of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Board {
    /// Blackhole P150, variant a.
    P150a,
    /// Blackhole P150, variant b.
    P150b,
    /// Blackhole P150, variant c.
    P150c,
    /// Another board, by the driver's name for it.
    Other(String),
    /// The driver does not say.
    Unknown,
}

impl Board {
    /// Whether the release runs on it.
    pub fn is_p150(&self) -> bool {
        matches!(self, Self::P150a | Self::P150b | Self::P150c)
    }

    /// The board type is in the board's serial number (bits 36 and up): 0x40, 0x41 and 0x42 are the three P150. The
    /// driver's own name is the second source, because older drivers call newer boards `unknown`.
    fn new(serial: Option<&str>, card_type: Option<&str>) -> Self {
        let number = serial.and_then(|s| u64::from_str_radix(s.trim_start_matches("0x"), 16).ok());
        match number.map(|n| (n >> 36) & 0xffff) {
            Some(0x40) => return Self::P150a,
            Some(0x41) => return Self::P150b,
            Some(0x42) => return Self::P150c,
            _ => {}
        }
        match card_type.map(str::to_ascii_lowercase).as_deref() {
            Some("p150a") => Self::P150a,
            Some("p150b") => Self::P150b,
            Some("p150c") => Self::P150c,
            None | Some("unknown") => Self::Unknown,
            Some(other) => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P150a => "p150a",
            Self::P150b => "p150b",
            Self::P150c => "p150c",
            Self::Other(name) => name,
            Self::Unknown => "unknown board",
        })
    }
}

/// What the firmware reports at the moment. Absent values are not reported by this firmware.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// Clock of the compute units, in MHz.
    pub clock_mhz: Option<u32>,
    /// Temperature of the chip, in degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// Power, in watts.
    pub power_watts: Option<f64>,
    /// A counter that runs while the firmware is alive.
    pub heartbeat: Option<u64>,
    /// Times that the chip was throttled by heat.
    pub thermal_trips: Option<u64>,
}

/// A card as the driver shows it.
#[derive(Clone, Debug)]
pub struct Card {
    /// Its number: the N of `/dev/tenstorrent/N`.
    pub number: u32,
    /// Its device node.
    pub node: PathBuf,
    /// Whether the node exists.
    pub node_exists: bool,
    /// Its place on the PCI bus.
    pub pci_address: Option<String>,
    /// Whether the chip is a Blackhole, as far as the PCI identity tells.
    pub is_blackhole: Option<bool>,
    /// Kind of the board.
    pub board: Board,
    /// Serial number of the board, hexadecimal.
    pub serial: Option<String>,
    /// Identity of the chip, hexadecimal.
    pub asic_id: Option<String>,
    /// Version of the firmware bundle.
    pub firmware: Option<String>,
    /// Whether the IOMMU translates its memory accesses. `None` when the kernel says nothing about it.
    pub iommu_translates: Option<bool>,
    /// Measurements.
    pub telemetry: Telemetry,
    /// Processes that have it open.
    pub holders: Vec<Holder>,
}

/// All cards of the machine, by their number. Empty when there is no card or no driver.
///
/// A card counts when the driver's class folder or its device node is there, so that half of an installation is seen too.
pub fn discover(root: &HostRoot) -> Vec<Card> {
    let mut numbers = class_numbers(root);
    numbers.extend(node_numbers(root));
    numbers.sort_unstable();
    numbers.dedup();
    numbers
        .into_iter()
        .map(|number| card(root, number))
        .collect()
}

fn class_numbers(root: &HostRoot) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(root.join("sys/class/tenstorrent")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .to_str()?
                .strip_prefix("tenstorrent!")?
                .parse()
                .ok()
        })
        .collect()
}

/// On the machine itself the vendor's library looks; in a folder that looks like one, the names do.
fn node_numbers(root: &HostRoot) -> Vec<u32> {
    #[cfg(feature = "luwen")]
    if root.is_system() {
        return luwen_kmd::PciDevice::scan()
            .into_iter()
            .filter_map(|n| u32::try_from(n).ok())
            .collect();
    }
    let Ok(entries) = fs::read_dir(root.join("dev/tenstorrent")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn card(root: &HostRoot, number: u32) -> Card {
    let class = root.join(format!("sys/class/tenstorrent/tenstorrent!{number}"));
    let device = class.join("device");
    let attribute = |name: &str| text(&class.join(name));
    let serial = attribute("tt_serial");
    let node = root.join(format!("dev/tenstorrent/{number}"));
    Card {
        number,
        node_exists: node.exists(),
        node,
        pci_address: fs::canonicalize(&device)
            .ok()
            .and_then(|p| Some(p.file_name()?.to_str()?.to_owned())),
        is_blackhole: is_blackhole(&device),
        board: Board::new(serial.as_deref(), attribute("tt_card_type").as_deref()),
        serial,
        asic_id: attribute("tt_asic_id"),
        firmware: attribute("tt_fw_bundle_ver"),
        iommu_translates: iommu_translates(&device),
        telemetry: Telemetry {
            clock_mhz: attribute("tt_aiclk").and_then(|t| t.parse().ok()),
            temperature_celsius: sensor(&device, "temp1_input").map(|milli| milli / 1e3),
            power_watts: sensor(&device, "power1_input").map(|micro| micro / 1e6),
            heartbeat: attribute("tt_heartbeat").and_then(|t| t.parse().ok()),
            thermal_trips: attribute("tt_therm_trip_count").and_then(|t| t.parse().ok()),
        },
        holders: holders(root, number),
    }
}

fn is_blackhole(device: &Path) -> Option<bool> {
    let (vendor, chip) = (text(&device.join("vendor"))?, text(&device.join("device"))?);
    Some((vendor.as_str(), chip.as_str()) == BLACKHOLE)
}

/// The kernel's domain types that translate begin with `DMA` (`DMA`, `DMA-FQ`); `identity` passes addresses through.
fn iommu_translates(device: &Path) -> Option<bool> {
    if !device.is_dir() {
        return None;
    }
    Some(text(&device.join("iommu_group/type")).is_some_and(|kind| kind.starts_with("DMA")))
}

/// A reading of the first hwmon folder that has it, in the unit of the kernel's hwmon interface.
fn sensor(device: &Path, name: &str) -> Option<f64> {
    let monitors = fs::read_dir(device.join("hwmon")).ok()?;
    monitors
        .filter_map(|entry| text(&entry.ok()?.path().join(name))?.parse().ok())
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_number_names_the_board_before_the_driver_does() {
        // Bits 36.. of 0x0000040x_xxxxxxxx are 0x40.
        assert_eq!(
            Board::new(Some("0000040511234567"), Some("unknown")),
            Board::P150a
        );
        assert_eq!(Board::new(Some("0x0000041511234567"), None), Board::P150b);
        assert_eq!(Board::new(Some("0000042511234567"), None), Board::P150c);
        assert_eq!(Board::new(None, Some("P150a")), Board::P150a);
        assert_eq!(
            Board::new(Some("0000018511234567"), Some("n150")),
            Board::Other("n150".to_owned())
        );
        assert_eq!(
            Board::new(Some("not a number"), Some("unknown")),
            Board::Unknown
        );
        assert!(!Board::Unknown.is_p150());
    }
}
