//! Everything a card needs before a child is started on it, each with the line that mends it.

use std::fs;
use std::path::{Path, PathBuf};

use super::discover::{Card, discover};
use super::holder::vendor_mutex;
use super::host::{DriverVersion, HostRoot};

/// Where 1 GiB pages must be mounted.
pub const HUGEPAGES_1G: &str = "/dev/hugepages-1G";
/// Where ordinary huge pages must be mounted.
pub const HUGEPAGES: &str = "/dev/hugepages";

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Possible, with a drawback.
    Warning,
    /// A child would not run.
    Bad,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What mends it, when something has to be.
    pub mend: Option<String>,
}

/// A file system that files will be written to.
#[derive(Clone, Debug)]
pub struct DiskNeed {
    /// What for, in a word or two.
    pub purpose: &'static str,
    /// A folder on it. It need not exist yet.
    pub folder: PathBuf,
    /// Bytes that will be written.
    pub bytes: u64,
}

/// What the caller knows and this module cannot find out by reading files.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// Version of the Docker server, or why it cannot be reached.
    pub docker: Result<String, String>,
    /// File systems that must have room.
    pub disks: Vec<DiskNeed>,
    /// The card to use; `None` takes the first P150.
    pub card: Option<u32>,
}

/// The cards of a machine and the findings about one of them.
#[derive(Clone, Debug)]
pub struct Report {
    /// All cards.
    pub cards: Vec<Card>,
    /// The card that the findings are about.
    pub chosen: Option<u32>,
    /// Version of the driver.
    pub driver: Option<DriverVersion>,
    /// The checks, in the order of a repair.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether a child can be started.
    pub fn is_ready(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.verdict != Verdict::Bad)
    }
}

/// Looks at everything. Reads only.
pub fn preflight(root: &HostRoot, circumstances: &Circumstances) -> Report {
    let cards = discover(root);
    let driver = root.driver_version();
    let chosen = cards
        .iter()
        .find(|card| {
            circumstances
                .card
                .map_or_else(|| card.board.is_p150(), |number| card.number == number)
        })
        .or_else(|| cards.first().filter(|_| circumstances.card.is_none()));
    let mut findings = vec![
        driver_finding(driver),
        card_finding(&cards, chosen, circumstances.card),
    ];
    if let Some(card) = chosen {
        findings.extend([
            node_finding(card),
            firmware_finding(card),
            iommu_finding(card),
        ]);
    }
    findings.push(mount_finding(root, "hugepage mount", HUGEPAGES, None));
    findings.push(mount_finding(
        root,
        "1 GiB hugepage mount",
        HUGEPAGES_1G,
        Some("1024M"),
    ));
    findings.push(free_pages_finding(root, chosen));
    if let Some(card) = chosen {
        findings.push(holder_finding(root, card));
    }
    findings.extend(circumstances.disks.iter().map(disk_finding));
    findings.push(docker_finding(&circumstances.docker));
    let chosen = chosen.map(|card| card.number);
    Report {
        cards,
        chosen,
        driver,
        findings,
    }
}

fn good(check: &'static str, found: impl Into<String>) -> Finding {
    Finding {
        check,
        verdict: Verdict::Good,
        found: found.into(),
        mend: None,
    }
}

fn bad(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding {
        check,
        verdict: Verdict::Bad,
        found: found.into(),
        mend: Some(mend.into()),
    }
}

fn warning(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding {
        check,
        verdict: Verdict::Warning,
        found: found.into(),
        mend: Some(mend.into()),
    }
}

fn driver_finding(version: Option<DriverVersion>) -> Finding {
    let check = "driver";
    match version {
        None => bad(
            check,
            "the kernel driver is not loaded",
            "install tenstorrent-dkms, then: sudo modprobe tenstorrent",
        ),
        Some(version) if version == DriverVersion::UNKNOWN => warning(
            check,
            "loaded, of unknown version",
            "install tenstorrent-dkms 2.10 or newer",
        ),
        Some(version) if version < DriverVersion::OLDEST => bad(
            check,
            format!("version {version}"),
            "install tenstorrent-dkms 2.10 or newer, then reboot",
        ),
        Some(version) if version < DriverVersion::EXCLUSIVE_OPEN => warning(
            check,
            format!(
                "version {version}; an exclusive open is no lock before 2.10, so users are found by its list only"
            ),
            "install tenstorrent-dkms 2.10 or newer, then reboot",
        ),
        Some(version) => good(check, format!("version {version}")),
    }
}

fn card_finding(cards: &[Card], chosen: Option<&Card>, wanted: Option<u32>) -> Finding {
    let check = "card";
    let seat = "seat the card and its power plug, then look with: lspci -d 1e52:";
    match (chosen, wanted) {
        (None, Some(number)) => bad(
            check,
            format!("no card {number}"),
            "see the list of cards above",
        ),
        (None, None) => bad(check, "no Tenstorrent card on this machine", seat),
        (Some(card), _) if card.board.is_p150() => {
            let more = if cards.len() > 1 {
                format!(", {} cards in all", cards.len())
            } else {
                String::new()
            };
            good(
                check,
                format!("{} number {}{more}", card.board, card.number),
            )
        }
        (Some(card), _) if card.is_blackhole == Some(true) => warning(
            check,
            format!(
                "{} number {} is a Blackhole, but not known to be a P150",
                card.board, card.number
            ),
            "the release was made for the P150; update the driver if it calls a P150 unknown",
        ),
        (Some(card), _) => bad(
            check,
            format!("{} number {}", card.board, card.number),
            "the release needs a P150",
        ),
    }
}

fn node_finding(card: &Card) -> Finding {
    let (check, node) = ("device node", card.node.display());
    let access = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    if !card.node_exists {
        return bad(
            check,
            format!("{node} is missing"),
            "sudo udevadm trigger, or in a container: pass the device in",
        );
    }
    match rustix::fs::access(&card.node, access) {
        Ok(()) => good(check, format!("{node} can be opened")),
        Err(e) => bad(
            check,
            format!("{node}: {e}"),
            "install the driver's udev rules, or add yourself to the node's group",
        ),
    }
}

fn firmware_finding(card: &Card) -> Finding {
    let check = "firmware";
    match (&card.firmware, card.telemetry.heartbeat) {
        (_, Some(0)) => bad(
            check,
            "the heartbeat is 0: the firmware does not run",
            "power the machine off and on",
        ),
        (Some(version), _) => good(check, format!("bundle {version}")),
        (None, _) => warning(
            check,
            "the driver reports no bundle version",
            "update the driver and the firmware bundle",
        ),
    }
}

fn iommu_finding(card: &Card) -> Finding {
    let check = "iommu";
    match card.iommu_translates {
        Some(true) => good(
            check,
            "translates the card's memory accesses; 1 GiB pages are not needed by the driver",
        ),
        Some(false) => good(
            check,
            "off or passing through; the card reaches host memory through 1 GiB pages only",
        ),
        None => warning(
            check,
            "the kernel says nothing about it",
            "look with: ls -l /sys/class/iommu",
        ),
    }
}

/// A mount point of huge pages in `/proc/mounts`, with the page size if one is asked for.
fn mount_finding(root: &HostRoot, check: &'static str, at: &str, page: Option<&str>) -> Finding {
    let size = page
        .map(|page| format!(",pagesize={}", page.replace("1024M", "1G")))
        .unwrap_or_default();
    let options = format!("mode=0777{size}");
    let mend = format!("sudo mkdir -p {at} && sudo mount -t hugetlbfs -o {options} none {at}");
    let mounts = fs::read_to_string(root.join("proc/mounts")).unwrap_or_default();
    let mounted = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .rfind(|f| f.get(1) == Some(&at));
    match mounted.as_deref() {
        None => bad(check, format!("{at} is not mounted"), mend),
        Some([_, _, "hugetlbfs", options, ..]) => match page {
            Some(page) if !options.split(',').any(|o| o == format!("pagesize={page}")) => bad(
                check,
                format!("{at} is mounted with other pages ({options})"),
                format!("sudo umount {at} && {mend}"),
            ),
            _ => good(check, format!("{at} is mounted")),
        },
        Some(other) => {
            let kind = other.get(2).copied().unwrap_or("nothing known");
            bad(
                check,
                format!("{at} is mounted as {kind}"),
                format!("sudo umount {at} && {mend}"),
            )
        }
    }
}

/// Without an IOMMU the driver pins at least one page of 1 GiB for a card.
fn free_pages_finding(root: &HostRoot, card: Option<&Card>) -> Finding {
    let check = "free 1 GiB pages";
    let count = |name: &str| {
        let folder = Path::new("sys/kernel/mm/hugepages/hugepages-1048576kB");
        root.text(folder.join(name))
            .and_then(|t| t.parse::<u64>().ok())
    };
    let mend = "add hugepagesz=1G hugepages=4 to the kernel command line and reboot, or stop who uses the pages";
    let needed = card.is_some_and(|card| card.iommu_translates != Some(true));
    match (count("free_hugepages"), count("nr_hugepages")) {
        (Some(free), total) if free > 0 => {
            good(check, format!("{free} of {} free", total.unwrap_or(free)))
        }
        (free, total) => {
            let found = match (free, total) {
                (Some(_), Some(total)) => format!("none of {total} free"),
                _ => "this kernel has none".to_owned(),
            };
            if needed {
                bad(check, found, mend)
            } else {
                good(check, format!("{found}; none needed here"))
            }
        }
    }
}

fn holder_finding(root: &HostRoot, card: &Card) -> Finding {
    let check = "owner";
    let mut holders: Vec<String> = card
        .holders
        .iter()
        .map(|holder| format!("{holder} has it open"))
        .collect();
    if let Some(owner) = vendor_mutex(root, card.number) {
        let (pid, tid) = (owner.pid, owner.tid);
        holders.push(format!(
            "the vendor's lock names process {pid}, thread {tid}, numbered in its own namespace"
        ));
    }
    if holders.is_empty() {
        return good(check, "nobody uses the card");
    }
    bad(
        check,
        holders.join("; "),
        "stop that process yourself; this program stops none and resets no card",
    )
}

fn disk_finding(need: &DiskNeed) -> Finding {
    let check = "disk";
    let existing = need
        .folder
        .ancestors()
        .find(|folder| folder.exists())
        .unwrap_or(Path::new("/"));
    let place = format!("{} ({})", existing.display(), need.purpose);
    match rustix::fs::statvfs(existing) {
        Err(e) => bad(check, format!("{place}: {e}"), "choose another folder"),
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found = format!("{place}: {} free, {} needed", gib(free), gib(need.bytes));
            if free >= need.bytes {
                good(check, found)
            } else {
                bad(check, found, "free some space or choose another folder")
            }
        }
    }
}

fn docker_finding(docker: &Result<String, String>) -> Finding {
    let check = "docker";
    match docker {
        Ok(version) => good(check, format!("server {version}")),
        Err(reason) => bad(
            check,
            reason.clone(),
            "install Docker, start it, and add yourself to the group docker",
        ),
    }
}

/// Bytes as GiB with one digit.
fn gib(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / (1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}
