//! The folder `attacks/` of the repository describes hostile packages; here each is made and refused.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use native_manifest::schema::{MANIFEST_FILE, PUBLICATION_FILE, RELEASE_FILE, SUMS_FILE};
use native_manifest::testing::{edit_json, reseal, reseal_sums};
use native_manifest::{FindingKind, ManifestError, PathRule, Snapshot, VerifyOptions};
use serde_json::{Value, json};

use crate::harness::Package;

const Q: &str = "checkpoint/tensors/layers.0.attn.q.weight.tensorbin";

/// Every attack by the name of its folder, with the test that refuses it.
macro_rules! attacks {
    ($($folder:literal: $refuse:ident,)*) => {
        const ATTACKS: &[&str] = &[$($folder),*];

        $(#[test]
        fn $refuse() {
            refuse::$refuse();
        })*
    };
}

attacks! {
    "digest-mismatch": digest_mismatch,
    "duplicate-names": duplicate_names,
    "giant-header": giant_header,
    "inventory-lists-itself": inventory_lists_itself,
    "manifest-cycle": manifest_cycle,
    "path-escape": path_escape,
    "shape-overflow": shape_overflow,
    "sparse-giant-file": sparse_giant_file,
    "symlink-out": symlink_out,
    "truncated-tile": truncated_tile,
    "wrong-total": wrong_total,
}

#[test]
fn every_attack_is_described_and_every_description_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../attacks");
    let described: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let refused: BTreeSet<String> = ATTACKS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(described, refused);
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    for name in ATTACKS {
        assert!(folder.join(name).join("README.md").is_file(), "{name}");
        assert!(
            index.contains(&format!("({name}/README.md)")),
            "{name} is not in the index"
        );
    }
}

fn entry(path: &str) -> Value {
    json!({"path": path, "bytes": 1, "sha256": "0".repeat(64)})
}

/// Puts the path into each place of the package that names files, one after the other; gives what comes of each.
fn refusals(package: &Package, path: &str) -> Vec<String> {
    let root = package.root();
    let spoil = |file: &str, edit: &dyn Fn()| {
        let good = package.read(file);
        edit();
        let found = outcome(package);
        package.write(file, good);
        found
    };
    let in_list = |file: &str, list: &str| {
        spoil(file, &|| {
            edit_json(&root, file, |value| {
                value[list].as_array_mut().unwrap().push(entry(path));
            });
        })
    };
    vec![
        in_list(RELEASE_FILE, "inventory"),
        in_list(PUBLICATION_FILE, "inventory"),
        in_list(MANIFEST_FILE, "files"),
        spoil(MANIFEST_FILE, &|| {
            edit_json(&root, MANIFEST_FILE, |value| {
                value["tensors"][0]["file"] = path.into();
            });
        }),
        spoil(SUMS_FILE, &|| {
            let mut text = package.read(SUMS_FILE);
            text.extend(format!("{}  {path}\n", "0".repeat(64)).bytes());
            package.write(SUMS_FILE, text);
        }),
    ]
}

/// The error on opening, or all findings.
fn outcome(package: &Package) -> String {
    let checked = package
        .open()
        .and_then(|claimed| claimed.verify(&crate::harness::strict(), &()));
    match checked {
        Err(ManifestError::Rejected { report }) => {
            report.findings.iter().map(|f| format!("{f}\n")).collect()
        }
        Err(error) => error.to_string(),
        Ok(_) => panic!("the package was accepted"),
    }
}

fn giant(path: &PathBuf, bytes: u64) {
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(bytes)
        .unwrap();
}

#[test]
fn a_pipe_in_place_of_a_file_does_not_hang_the_check() {
    #[cfg(unix)]
    {
        let package = Package::new();
        for file in [Q, RELEASE_FILE] {
            fs::remove_file(package.path(file)).unwrap();
            let made = std::process::Command::new("mkfifo")
                .arg(package.path(file))
                .status()
                .unwrap();
            assert!(made.success());
            match Snapshot::open(package.root()) {
                Ok(_) => assert_eq!(package.only_finding().kind, FindingKind::Unreadable),
                Err(error) => assert!(error.is_unreadable(), "{error}"),
            }
        }
    }
}

mod refuse {
    use super::*;

    pub(super) fn path_escape() {
        let package = Package::new();
        for (path, rule) in [
            ("../outside", PathRule::DotPart),
            ("checkpoint/../../outside", PathRule::DotPart),
            ("/etc/passwd", PathRule::Absolute),
            ("//server/share/file", PathRule::Absolute),
            ("\\\\server\\share\\file", PathRule::Backslash),
            ("..\\outside", PathRule::Backslash),
            ("C:\\outside", PathRule::Colon),
            ("C:/outside", PathRule::Colon),
            ("C:outside", PathRule::Colon),
            ("checkpoint/config.json:stream", PathRule::Colon),
            ("checkpoint/./config.json", PathRule::DotPart),
            ("checkpoint//config.json", PathRule::EmptyPart),
            ("checkpoint/", PathRule::EmptyPart),
            ("", PathRule::EmptyPart),
            ("checkpoint/nul.json", PathRule::ReservedName),
            ("checkpoint/COM1", PathRule::ReservedName),
            ("checkpoint/config.json.", PathRule::TrailingDotOrSpace),
            ("checkpoint/config.json ", PathRule::TrailingDotOrSpace),
            ("checkpoint/a\u{202e}nosj.gifnoc", PathRule::Invisible),
            ("checkpoint/a\0.json", PathRule::Control),
            ("checkpoint/a\u{1b}[2J", PathRule::Control),
        ] {
            for refusal in refusals(&package, path) {
                assert!(refusal.contains(&rule.to_string()), "{path:?}: {refusal}");
            }
        }
    }

    pub(super) fn symlink_out() {
        #[cfg(unix)]
        {
            let package = Package::new();
            let outside = package.parent().join("outside");
            fs::rename(package.path(Q), &outside).unwrap();
            std::os::unix::fs::symlink(&outside, package.path(Q)).unwrap();
            let finding = package.only_finding();
            assert_eq!(
                (finding.kind, finding.file.as_deref()),
                (FindingKind::Link, Some(Q))
            );
            // A folder that leads out is as bad, and so is a manifest.
            for path in ["checkpoint/tensors", MANIFEST_FILE] {
                let package = Package::new();
                let outside = package.parent().join("outside");
                fs::rename(package.path(path), &outside).unwrap();
                std::os::unix::fs::symlink(&outside, package.path(path)).unwrap();
                let report = package.report();
                assert!(
                    report
                        .findings
                        .iter()
                        .any(|finding| finding.kind == FindingKind::Link),
                    "{path}"
                );
            }
        }
    }

    pub(super) fn digest_mismatch() {
        let package = Package::new();
        let mut bytes = package.read(Q);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        package.write(Q, &bytes);
        let finding = package.only_finding();
        assert_eq!(
            (finding.kind, finding.file.as_deref()),
            (FindingKind::Digest, Some(Q))
        );
        // A loader checks as much without being asked.
        let error = package
            .open()
            .unwrap()
            .verify(&VerifyOptions::default(), &())
            .unwrap_err();
        assert!(matches!(error, ManifestError::Rejected { .. }));
    }

    pub(super) fn truncated_tile() {
        // The lists are made to agree with the short file: only its header tells.
        for missing in [1, 64, 1088] {
            let package = Package::new();
            let bytes = package.read(Q);
            package.write(Q, &bytes[..bytes.len() - missing]);
            reseal(&package.root());
            let mut found = package.report().findings;
            // The summary counts the bytes as they were.
            found.retain(|finding| finding.kind != FindingKind::Total);
            let of_tensor = found
                .iter()
                .all(|finding| finding.tensor.as_deref() == Some("layers.0.attn.q.weight"));
            assert!(!found.is_empty() && of_tensor, "{found:#?}");
            let header = found
                .iter()
                .any(|f| f.kind == FindingKind::Header && f.found.contains("bytes of data"));
            // A file too short for its shape is not even read.
            assert!(
                header
                    || found
                        .iter()
                        .any(|f| f.kind == FindingKind::Schema && f.field == "bytes"),
                "{found:#?}"
            );
        }
    }

    pub(super) fn shape_overflow() {
        for shape in [
            json!([u64::MAX, u64::MAX]),
            json!([1_u64 << 32, 1_u64 << 32]),
            json!([1_u64 << 62, 4]),
            json!([u64::MAX]),
        ] {
            let package = Package::new();
            edit_json(&package.root(), MANIFEST_FILE, |manifest| {
                manifest["tensors"][1]["shape"] = shape.clone();
            });
            reseal(&package.root());
            let finding = package.expect_finding(FindingKind::Schema, MANIFEST_FILE, "shape");
            assert_eq!(finding.tensor.as_deref(), Some("layers.0.attn.q.weight"));
        }
        for shape in [json!([-1, 4]), json!([1.5]), json!(["4"]), json!(1e30)] {
            let package = Package::new();
            edit_json(&package.root(), MANIFEST_FILE, |manifest| {
                manifest["tensors"][1]["shape"] = shape.clone();
            });
            assert!(
                matches!(package.open(), Err(ManifestError::Json { .. })),
                "{shape}"
            );
        }
        // Sizes of an inventory that do not add up in 64 bits.
        let package = Package::new();
        edit_json(&package.root(), RELEASE_FILE, |release| {
            for index in [0, 1] {
                release["inventory"][index]["bytes"] = u64::MAX.into();
            }
        });
        assert!(outcome(&package).contains("more than 64 bits"));
    }

    pub(super) fn duplicate_names() {
        for path in ["checkpoint/Config.json", "CHECKPOINT/config.JSON"] {
            let refusals = refusals(&Package::new(), path);
            assert!(refusals[0].contains("are one name"), "{refusals:#?}");
            assert!(refusals[1].contains("are one name"), "{refusals:#?}");
            assert!(refusals[4].contains("are one name"), "{refusals:#?}");
        }
        // Composed and decomposed, and a file that is a folder too.
        for (pair, reason) in [
            (["caf\u{e9}", "cafe\u{301}"], "are one name"),
            (["same", "same"], "are one name"),
            (["a", "a/b"], "is listed as a file"),
        ] {
            let package = Package::new();
            edit_json(&package.root(), RELEASE_FILE, |release| {
                release["inventory"]
                    .as_array_mut()
                    .unwrap()
                    .extend(pair.map(entry));
            });
            assert!(outcome(&package).contains(reason));
        }
        // Two tensors of one name, and two names for one file.
        let package = Package::new();
        edit_json(&package.root(), MANIFEST_FILE, |manifest| {
            manifest["tensors"][2]["name"] = manifest["tensors"][1]["name"].clone();
        });
        reseal(&package.root());
        package.expect_finding(FindingKind::Duplicate, MANIFEST_FILE, "name");
        let package = Package::new();
        edit_json(&package.root(), MANIFEST_FILE, |manifest| {
            manifest["tensors"][2]["file"] = manifest["tensors"][1]["file"].clone();
        });
        reseal(&package.root());
        package.expect_finding(FindingKind::Duplicate, MANIFEST_FILE, "file");
        // A key twice in one object: which of the two would a reader take?
        let package = Package::new();
        let json = String::from_utf8(package.read(RELEASE_FILE)).unwrap();
        package.write(RELEASE_FILE, json.replacen('{', "{\"inventory\": [],", 1));
        assert!(outcome(&package).contains("duplicate field"));
    }

    pub(super) fn manifest_cycle() {
        // Each list would need the digest of the other.
        for (file, listed) in [
            (RELEASE_FILE, PUBLICATION_FILE),
            (RELEASE_FILE, SUMS_FILE),
            (RELEASE_FILE, "sha256sums"),
            (PUBLICATION_FILE, SUMS_FILE),
        ] {
            let package = Package::new();
            edit_json(&package.root(), file, |list| {
                list["inventory"]
                    .as_array_mut()
                    .unwrap()
                    .push(entry(listed));
            });
            let expected = format!("inventory \"{file}\" lists");
            assert!(outcome(&package).contains(&expected), "{file} {listed}");
        }
        // A proof names the manifest by digest; a manifest that lists the proof could never be written.
        let package = Package::new();
        edit_json(&package.root(), MANIFEST_FILE, |manifest| {
            manifest["files"]
                .as_array_mut()
                .unwrap()
                .push(entry("proofs/native-reload.mtp-off.json"));
        });
        match package.open() {
            Err(ManifestError::Cycle { inventory, listed }) => {
                assert_eq!(
                    (inventory.as_str(), listed.as_str()),
                    (MANIFEST_FILE, "proofs/native-reload.mtp-off.json")
                );
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn inventory_lists_itself() {
        for file in [RELEASE_FILE, PUBLICATION_FILE] {
            let package = Package::new();
            edit_json(&package.root(), file, |list| {
                list["inventory"].as_array_mut().unwrap().push(entry(file));
            });
            reseal_sums(&package.root());
            assert!(outcome(&package).contains(&format!("inventory \"{file}\" lists \"{file}\"")));
        }
        let package = Package::new();
        edit_json(&package.root(), MANIFEST_FILE, |manifest| {
            manifest["files"]
                .as_array_mut()
                .unwrap()
                .push(entry("native-manifest.json"));
        });
        assert!(matches!(package.open(), Err(ManifestError::Cycle { .. })));
        let package = Package::new();
        let mut sums = package.read(SUMS_FILE);
        sums.extend(format!("{}  {SUMS_FILE}\n", "0".repeat(64)).bytes());
        package.write(SUMS_FILE, sums);
        let finding = package.only_finding();
        assert_eq!(
            (finding.kind, finding.field.as_str()),
            (FindingKind::Conflict, SUMS_FILE)
        );
    }

    pub(super) fn wrong_total() {
        for (file, pointer) in [
            (MANIFEST_FILE, "/totals/target_bytes"),
            (MANIFEST_FILE, "/totals/mtp_parameters"),
            (RELEASE_FILE, "/totals/bytes"),
            (PUBLICATION_FILE, "/totals/files"),
        ] {
            let package = Package::new();
            edit_json(&package.root(), file, |value| {
                *value.pointer_mut(pointer).unwrap() = json!(7);
            });
            reseal(&package.root());
            let finding = package.only_finding();
            assert_eq!(
                (finding.kind, finding.file.as_deref()),
                (FindingKind::Total, Some(file))
            );
        }
    }

    pub(super) fn giant_header() {
        // A `.tensorbin` of few bytes whose header claims to be of many, and one of a safetensors file.
        for (file, claim) in [
            (Q, u64::MAX),
            (Q, 1 << 40),
            ("checkpoint/mtp.safetensors", u64::MAX),
            ("checkpoint/mtp.safetensors", 1 << 40),
        ] {
            let package = Package::new();
            let mut bytes = package.read(file);
            bytes[..8].copy_from_slice(&claim.to_le_bytes());
            package.write(file, bytes);
            reseal(&package.root());
            let finding = package.expect_finding(FindingKind::Header, file, "header");
            assert_eq!(package.report().findings.len(), 1, "{finding}");
        }
        // A manifest of more bytes than any manifest has: refused by its size, not read.
        let package = Package::new();
        giant(&package.path(MANIFEST_FILE), 1 << 40);
        match package.open() {
            Err(ManifestError::TooLarge { path, bytes, .. }) => {
                assert_eq!((path.as_str(), bytes), (MANIFEST_FILE, 1 << 40));
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn sparse_giant_file() {
        // The file takes no place on the disk, and would take an hour to hash.
        const TERABYTE: u64 = 1 << 40;
        let package = Package::new();
        giant(&package.path(Q), TERABYTE);
        let finding = package.only_finding();
        assert_eq!(
            (finding.kind, finding.found.as_str()),
            (FindingKind::Size, "1099511627776 bytes")
        );
        // Lists that agree with the file do not help: the tensor's shape does not have so many bytes.
        for (file, pointer) in [
            (MANIFEST_FILE, "tensors"),
            (RELEASE_FILE, "inventory"),
            (PUBLICATION_FILE, "inventory"),
        ] {
            edit_json(&package.root(), file, |list| {
                for entry in list[pointer].as_array_mut().unwrap() {
                    if [&entry["path"], &entry["file"]]
                        .iter()
                        .any(|path| path.as_str().is_some_and(|path| Q.ends_with(path)))
                    {
                        entry["bytes"] = TERABYTE.into();
                    }
                }
            });
        }
        let finding = package.expect_finding(FindingKind::Schema, MANIFEST_FILE, "bytes");
        assert_eq!(finding.tensor.as_deref(), Some("layers.0.attn.q.weight"));
        assert!(package.report().bytes < 1 << 20);
    }
}
