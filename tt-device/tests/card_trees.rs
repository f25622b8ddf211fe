//! Cards, preflight and ownership on machines that are only folders (`testdata/card`).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tt_device::card::own::{Ownership, Probe, Prober, SystemProber};
use tt_device::card::preflight::{Circumstances, DiskNeed, Finding, Report, Verdict, preflight};
use tt_device::card::{Board, CardError, HostRoot, discover, vendor_mutex};

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(tree: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../testdata/card")
            .join(format!("{tree}.tree"));
        for line in fs::read_to_string(file)
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            if let Some((link, target)) = line.split_once(" -> ") {
                let link = folder.path().join(link);
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(target, link).unwrap();
            } else if let Some((path, text)) = line.split_once(" =") {
                let path = folder.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, unescape(text.strip_prefix(' ').unwrap_or(text))).unwrap();
            }
        }
        Self { folder }
    }

    fn root(&self) -> HostRoot {
        HostRoot::at(self.folder.path())
    }

    fn report(&self) -> Report {
        let disks = vec![DiskNeed {
            purpose: "packages",
            folder: self.folder.path().join("cache/x"),
            bytes: 1,
        }];
        preflight(
            &self.root(),
            &Circumstances {
                docker: Ok("28.0".to_owned()),
                disks,
                card: None,
            },
        )
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, length) = match after.as_bytes()[0] {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'x' => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            other => panic!("escape {other}"),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

fn finding<'a>(report: &'a Report, check: &str) -> &'a Finding {
    report
        .findings
        .iter()
        .find(|f| f.check == check)
        .unwrap_or_else(|| panic!("no check {check}"))
}

/// Answers from a list, and remembers how long it was made to wait.
struct Scripted {
    answers: VecDeque<Probe>,
    waited: Duration,
}

impl Prober for Scripted {
    fn probe(&mut self, _node: &Path) -> io::Result<Probe> {
        Ok(self.answers.pop_front().unwrap_or(Probe::Free))
    }

    fn pause(&mut self, time: Duration) {
        self.waited += time;
    }
}

fn scripted(answers: impl IntoIterator<Item = Probe>) -> Scripted {
    Scripted {
        answers: answers.into_iter().collect(),
        waited: Duration::ZERO,
    }
}

#[test]
fn a_p150_is_found_with_all_that_the_driver_tells() {
    let machine = Machine::new("healthy-iommu");
    let cards = discover(&machine.root());
    assert_eq!(cards.len(), 1);
    let card = &cards[0];
    assert_eq!((card.number, &card.board), (0, &Board::P150a));
    assert!(card.board.is_p150() && card.node_exists);
    assert_eq!(card.pci_address.as_deref(), Some("0000:01:00.0"));
    assert_eq!(card.is_blackhole, Some(true));
    assert_eq!(card.serial.as_deref(), Some("0000040511234567"));
    assert_eq!(card.firmware.as_deref(), Some("19.4.2.0"));
    assert_eq!(card.iommu_translates, Some(true));
    assert_eq!(card.telemetry.clock_mhz, Some(1350));
    assert_eq!(card.telemetry.temperature_celsius, Some(47.25));
    assert_eq!(card.telemetry.power_watts, Some(61.5));
    assert_eq!(card.telemetry.heartbeat, Some(52311));
    assert!(card.holders.is_empty());
}

#[test]
fn healthy_machines_pass_with_and_without_an_iommu() {
    let report = Machine::new("healthy-iommu").report();
    assert!(report.is_ready(), "{:#?}", report.findings);
    assert!(
        finding(&report, "free 1 GiB pages")
            .found
            .contains("none needed")
    );
    let report = Machine::new("healthy-no-iommu").report();
    assert!(report.is_ready(), "{:#?}", report.findings);
    assert!(finding(&report, "iommu").found.contains("passing through"));
    assert_eq!(finding(&report, "free 1 GiB pages").found, "4 of 4 free");
}

#[test]
fn missing_hugepages_are_named_with_the_line_that_mends_them() {
    let report = Machine::new("missing-hugepages").report();
    assert!(!report.is_ready());
    for check in ["hugepage mount", "1 GiB hugepage mount", "free 1 GiB pages"] {
        let finding = finding(&report, check);
        assert_eq!(finding.verdict, Verdict::Bad, "{check}");
        assert!(
            finding.mend.as_deref().unwrap().contains("hugepages"),
            "{check}"
        );
    }
    assert!(
        finding(&report, "1 GiB hugepage mount")
            .mend
            .as_deref()
            .unwrap()
            .contains("pagesize=1G")
    );
    // The driver is old, but usable: a warning that says what follows.
    assert_eq!(finding(&report, "driver").verdict, Verdict::Warning);
    assert!(finding(&report, "driver").found.contains("2.4.1"));
}

#[test]
fn a_hugepage_mount_of_the_wrong_page_size_is_found() {
    let machine = Machine::new("healthy-no-iommu");
    let mounts = machine.folder.path().join("proc/mounts");
    fs::write(
        &mounts,
        fs::read_to_string(&mounts)
            .unwrap()
            .replace("pagesize=1024M", "pagesize=2M"),
    )
    .unwrap();
    let report = machine.report();
    let finding = finding(&report, "1 GiB hugepage mount");
    assert_eq!(finding.verdict, Verdict::Bad);
    assert!(finding.found.contains("pagesize=2M"));
}

#[test]
fn a_held_card_names_the_process_and_its_container() {
    let machine = Machine::new("held");
    let report = machine.report();
    assert!(!report.is_ready());
    let found = &finding(&report, "owner").found;
    assert!(
        found.contains("process 4711 (python3) in a container, where it is process 1"),
        "{found}"
    );
    assert!(found.contains("vendor's lock names process 1"), "{found}");
}

#[test]
fn a_machine_without_a_card_is_told_so() {
    let empty = tempfile::tempdir().unwrap();
    let docker = Err("cannot connect".to_owned());
    let circumstances = Circumstances {
        docker,
        disks: Vec::new(),
        card: None,
    };
    let report = preflight(&HostRoot::at(empty.path()), &circumstances);
    assert!(report.cards.is_empty() && !report.is_ready());
    assert_eq!(
        finding(&report, "card").found,
        "no Tenstorrent card on this machine"
    );
    assert_eq!(finding(&report, "docker").verdict, Verdict::Bad);
}

#[test]
fn the_p150_is_chosen_among_other_boards() {
    let machine = Machine::new("other-boards");
    assert_eq!(machine.report().chosen, Some(1));
    let wrong = Circumstances {
        docker: Ok("28.0".to_owned()),
        disks: Vec::new(),
        card: Some(0),
    };
    let report = preflight(&machine.root(), &wrong);
    assert_eq!(finding(&report, "card").verdict, Verdict::Bad);
    assert!(finding(&report, "card").found.contains("n150"));
    let absent = Circumstances {
        card: Some(7),
        ..wrong
    };
    assert!(
        finding(&preflight(&machine.root(), &absent), "card")
            .found
            .contains("no card 7")
    );
}

#[test]
fn a_full_disk_is_found_on_each_file_system() {
    let machine = Machine::new("healthy-iommu");
    let need = |bytes| DiskNeed {
        purpose: "tensor cache",
        folder: PathBuf::from("/nonexistent/below"),
        bytes,
    };
    let disks = vec![need(1), need(u64::MAX)];
    let report = preflight(
        &machine.root(),
        &Circumstances {
            docker: Ok("x".to_owned()),
            disks,
            card: None,
        },
    );
    let verdicts: Vec<_> = report
        .findings
        .iter()
        .filter(|f| f.check == "disk")
        .map(|f| f.verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::Good, Verdict::Bad]);
}

#[test]
fn a_free_card_is_owned_once() {
    let machine = Machine::new("healthy-iommu");
    let first = Ownership::claim(&machine.root(), 0, Duration::ZERO, &mut SystemProber).unwrap();
    assert_eq!(first.number(), 0);
    let mut prober = scripted([]);
    let second = Ownership::claim(&machine.root(), 0, Duration::from_secs(2), &mut prober);
    let Err(CardError::Held {
        number: 0,
        waited,
        holders,
    }) = second
    else {
        panic!("{second:?}")
    };
    assert_eq!(
        (waited, prober.waited),
        (Duration::from_secs(2), Duration::from_secs(2))
    );
    let lock = first.lock().display().to_string();
    assert_eq!(
        holders,
        [format!("process {} holds {lock}", std::process::id())]
    );
    drop(first);
    assert!(Ownership::claim(&machine.root(), 0, Duration::ZERO, &mut SystemProber).is_ok());
}

#[test]
fn a_card_that_becomes_free_is_waited_for() {
    let machine = Machine::new("healthy-iommu");
    let mut prober = scripted([Probe::Busy, Probe::Busy, Probe::Busy, Probe::Free]);
    assert!(Ownership::claim(&machine.root(), 0, Duration::from_secs(5), &mut prober).is_ok());
    assert!(prober.waited > Duration::ZERO && prober.waited < Duration::from_secs(5));
}

#[test]
fn a_held_card_is_not_taken_and_waiting_ends() {
    let machine = Machine::new("held");
    let mut prober = scripted(std::iter::repeat_n(Probe::Busy, 100));
    let claimed = Ownership::claim(&machine.root(), 0, Duration::from_secs(2), &mut prober);
    let Err(CardError::Held { holders, .. }) = claimed else {
        panic!("{claimed:?}")
    };
    assert!(holders.iter().any(|h| h.contains("4711")), "{holders:?}");
    assert!(
        holders
            .iter()
            .any(|h| h.contains("TT_UMD_LOCK.CHIP_IN_USE_0_PCIe")),
        "{holders:?}"
    );
    // Waiting left no lock behind: with the others gone the card is free at once.
    fs::write(
        machine.folder.path().join("proc/driver/tenstorrent/0/pids"),
        "",
    )
    .unwrap();
    fs::remove_file(
        machine
            .folder
            .path()
            .join("dev/shm/TT_UMD_LOCK.CHIP_IN_USE_0_PCIe"),
    )
    .unwrap();
    assert!(Ownership::claim(&machine.root(), 0, Duration::ZERO, &mut SystemProber).is_ok());
}

#[test]
fn a_vendor_lock_whose_owner_died_holds_nothing() {
    let machine = Machine::new("dead-vendor-lock");
    assert_eq!(vendor_mutex(&machine.root(), 0), None);
    assert!(Ownership::claim(&machine.root(), 0, Duration::ZERO, &mut SystemProber).is_ok());
    // Cut files and odd words are no owner either.
    let lock = machine
        .folder
        .path()
        .join("dev/shm/TT_UMD_LOCK.CHIP_IN_USE_0_PCIe");
    for length in [0, 3, 40, 55] {
        fs::write(&lock, vec![1; length]).unwrap();
        assert_eq!(vendor_mutex(&machine.root(), 0), None);
    }
}

#[test]
fn a_missing_device_node_is_an_error_that_names_it() {
    let machine = Machine::new("healthy-iommu");
    fs::remove_file(machine.folder.path().join("dev/tenstorrent/0")).unwrap();
    let claimed = Ownership::claim(&machine.root(), 0, Duration::ZERO, &mut SystemProber);
    assert!(
        matches!(
            claimed,
            Err(CardError::Io {
                doing: "opening",
                ..
            })
        ),
        "{claimed:?}"
    );
    assert_eq!(
        finding(&machine.report(), "device node").verdict,
        Verdict::Bad
    );
}

#[test]
fn another_users_lock_file_can_be_locked_without_being_writable() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::new("healthy-iommu");
    drop(Ownership::claim(&machine.root(), 0, Duration::ZERO, &mut SystemProber).unwrap());
    let lock = machine.folder.path().join("run/lock/qwen35-card-0.lock");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(Ownership::claim(&machine.root(), 0, Duration::ZERO, &mut SystemProber).is_ok());
}
