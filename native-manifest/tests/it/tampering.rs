//! Each kind of fault is found, and named by file, tensor and field.

use std::fs;

use native_manifest::schema::{MANIFEST_FILE, PUBLICATION_FILE, RELEASE_FILE, SUMS_FILE};
use native_manifest::testing::{edit_json, reseal, reseal_sums, tensor_file, values};
use native_manifest::{
    FindingClass, FindingKind, ManifestError, Snapshot, StoredLayout, StoredType, VerifyOptions,
};
use serde_json::json;

use crate::harness::Package;

const Q: &str = "checkpoint/tensors/layers.0.attn.q.weight.tensorbin";

#[test]
fn one_flipped_bit_in_any_file_is_found() {
    let package = Package::new();
    let sums = String::from_utf8(package.read(SUMS_FILE)).unwrap();
    for path in sums.lines().map(|line| &line[66..]).chain([SUMS_FILE]) {
        let good = package.read(path);
        for at in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            package.write(path, &bad);
            match package.open() {
                Ok(claimed) => {
                    let report = claimed.examine(&crate::harness::strict(), &()).unwrap();
                    assert!(!report.is_clean(), "bit {at} of {path}");
                    assert!(
                        report
                            .findings
                            .iter()
                            .any(|finding| finding.file.as_deref() == Some(path)
                                || finding.field == path
                                || finding.to_string().contains(path)),
                        "{path}: {:#?}",
                        report.findings
                    );
                }
                // A manifest that can no longer be read is refused before anything is checked.
                Err(error) => assert!(error.to_string().contains(path), "{path}: {error}"),
            }
        }
        package.write(path, &good);
    }
    assert!(package.report().is_clean());
}

#[test]
fn missing_extra_and_short_files_are_told_apart() {
    let package = Package::new();
    fs::remove_file(package.path("checkpoint/tokenizer.json")).unwrap();
    fs::write(package.path("checkpoint/notes.txt"), "x").unwrap();
    fs::write(package.path("checkpoint/config.json"), "{").unwrap();
    let report = package.report();
    let kinds: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.kind, f.file.as_deref().unwrap()))
        .collect();
    assert_eq!(
        kinds,
        [
            (FindingKind::Size, "checkpoint/config.json"),
            (FindingKind::Extra, "checkpoint/notes.txt"),
            (FindingKind::Missing, "checkpoint/tokenizer.json"),
        ]
    );
    for class in [
        FindingClass::Missing,
        FindingClass::Extra,
        FindingClass::Mismatch,
    ] {
        assert_eq!(report.count(class), 1);
    }
}

#[test]
fn a_folder_in_place_of_a_file_is_named() {
    let package = Package::new();
    fs::remove_file(package.path("checkpoint/tokenizer.json")).unwrap();
    fs::create_dir(package.path("checkpoint/tokenizer.json")).unwrap();
    assert_eq!(package.only_finding().kind, FindingKind::Unreadable);
}

#[test]
fn a_header_that_contradicts_the_manifest_is_found_field_by_field() {
    let values = values("x", &[40, 48]);
    let file = |shape: &[usize], dtype, layout| tensor_file(&values, shape, dtype, layout).unwrap();
    for (bytes, field) in [
        (
            file(&[48, 40], StoredType::Bfp8, StoredLayout::Tile),
            "shape",
        ),
        (
            file(&[1, 40, 48], StoredType::Bfp8, StoredLayout::Tile),
            "shape",
        ),
        // 8 x 130 elements of 4 bits have about as many bytes; the size of the file does not give it away.
        (
            file(&[40, 48], StoredType::Bfp4, StoredLayout::Tile),
            "dtype",
        ),
        (
            file(&[40, 48], StoredType::Bf16, StoredLayout::RowMajor),
            "layout",
        ),
    ] {
        let package = Package::new();
        package.write(Q, bytes);
        reseal(&package.root());
        let finding = package.report().findings.into_iter().find(|finding| {
            finding.kind == FindingKind::Header && finding.field == field
                || finding.kind == FindingKind::Schema
        });
        let finding =
            finding.unwrap_or_else(|| panic!("{field}: {:#?}", package.report().findings));
        assert_eq!(finding.tensor.as_deref(), Some("layers.0.attn.q.weight"));
    }
}

#[test]
fn bytes_after_the_tensor_are_found() {
    let package = Package::new();
    let mut bytes = package.read(Q);
    bytes.extend([0; 64]);
    package.write(Q, bytes);
    reseal(&package.root());
    let finding = package.expect_finding(FindingKind::Header, Q, "trailing bytes");
    assert_eq!(
        (finding.expected.as_str(), finding.found.as_str()),
        ("0", "64")
    );
}

#[test]
fn codes_that_no_encoder_writes_are_found_where_asked_for() {
    let package = Package::new();
    let mut bytes = package.read(Q);
    let last = bytes.len() - 1;
    // The last code of the last tile is padding, so zero; a sign without magnitude is none.
    bytes[last] = 0x80;
    package.write(Q, bytes);
    reseal(&package.root());
    let finding = package.expect_finding(FindingKind::Codes, Q, "codes");
    assert!(finding.found.contains("tile 3"), "{finding}");
    package
        .open()
        .unwrap()
        .verify(&VerifyOptions::default(), &())
        .unwrap();
}

#[test]
fn wrong_totals_are_found_in_each_list() {
    for (file, pointer, field) in [
        (MANIFEST_FILE, "/totals/target_bytes", "totals.target_bytes"),
        (
            MANIFEST_FILE,
            "/totals/target_tensors",
            "totals.target_tensors",
        ),
        (
            MANIFEST_FILE,
            "/totals/target_parameters",
            "totals.target_parameters",
        ),
        (MANIFEST_FILE, "/totals/mtp_tensors", "totals.mtp_tensors"),
        (MANIFEST_FILE, "/totals/mtp_bytes", "totals.mtp_bytes"),
        (
            MANIFEST_FILE,
            "/totals/mtp_parameters",
            "totals.mtp_parameters",
        ),
        (RELEASE_FILE, "/totals/files", "totals"),
        (PUBLICATION_FILE, "/totals/bytes", "totals"),
    ] {
        let package = Package::new();
        edit_json(&package.root(), file, |value| {
            *value.pointer_mut(pointer).unwrap() = json!(1_000_000);
        });
        reseal(&package.root());
        let finding = package.only_finding();
        assert_eq!(
            (
                finding.kind,
                finding.file.as_deref(),
                finding.field.as_str()
            ),
            (FindingKind::Total, Some(file), field)
        );
        // What the package says is what is found; the sum of the parts is what was expected.
        assert!(finding.found.contains("1000000"), "{finding}");
    }
}

#[test]
fn lists_that_disagree_are_found() {
    let package = Package::new();
    edit_json(&package.root(), MANIFEST_FILE, |manifest| {
        manifest["tensors"][1]["sha256"] = "0".repeat(64).into();
    });
    let finding = package.expect_finding(FindingKind::Conflict, MANIFEST_FILE, "sha256");
    assert_eq!(finding.tensor.as_deref(), Some("layers.0.attn.q.weight"));

    let package = Package::new();
    edit_json(&package.root(), PUBLICATION_FILE, |list| {
        list["inventory"]
            .as_array_mut()
            .unwrap()
            .retain(|entry| entry["path"] != Q);
        let entries = list["inventory"].as_array().unwrap();
        let bytes: u64 = entries
            .iter()
            .map(|entry| entry["bytes"].as_u64().unwrap())
            .sum();
        list["totals"] = json!({"files": entries.len(), "bytes": bytes});
    });
    reseal_sums(&package.root());
    package.expect_finding(FindingKind::Conflict, PUBLICATION_FILE, Q);
    package.expect_finding(FindingKind::Extra, Q, "file");
}

#[test]
fn a_tensor_the_inventory_does_not_know_is_found() {
    let package = Package::new();
    edit_json(&package.root(), RELEASE_FILE, |release| {
        release["inventory"]
            .as_array_mut()
            .unwrap()
            .retain(|entry| entry["path"] != Q);
    });
    let finding = package.expect_finding(FindingKind::Conflict, MANIFEST_FILE, "file");
    assert_eq!(
        (finding.found.as_str(), finding.tensor.as_deref()),
        ("no entry", Some("layers.0.attn.q.weight"))
    );
}

#[test]
fn checksum_lines_are_compared_both_ways() {
    let package = Package::new();
    let good = String::from_utf8(package.read(SUMS_FILE)).unwrap();
    let lines: Vec<_> = good.lines().collect();
    package.write(SUMS_FILE, lines[1..].join("\n"));
    assert_eq!(package.only_finding().found, "no line");
    package.write(SUMS_FILE, format!("{good}{}  other\n", "0".repeat(64)));
    assert_eq!(package.only_finding().field, "other");
    package.write(SUMS_FILE, good.replacen(&lines[0][..8], "00000000", 1));
    assert_eq!(package.only_finding().kind, FindingKind::Conflict);
    package.write(SUMS_FILE, b"\xff\xfe");
    assert_eq!(package.only_finding().kind, FindingKind::Schema);
    fs::remove_file(package.path(SUMS_FILE)).unwrap();
    assert_eq!(package.only_finding().kind, FindingKind::Missing);
}

#[test]
fn the_mtp_file_is_compared_tensor_by_tensor() {
    let spoil = |edit: &dyn Fn(&mut serde_json::Value)| {
        let package = Package::new();
        edit_json(&package.root(), MANIFEST_FILE, |manifest| {
            edit(&mut manifest["mtp"]["tensors"]);
        });
        reseal(&package.root());
        package
            .report()
            .findings
            .into_iter()
            .map(|f| (f.kind, f.field, f.tensor.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let fc = || "mtp.fc.weight".to_owned();
    let found = spoil(&|tensors| tensors[0]["dtype"] = "F16".into());
    assert_eq!(found, [(FindingKind::Header, "dtype".to_owned(), fc())]);
    let found = spoil(&|tensors| tensors[0]["shape"] = json!([3, 2]));
    assert_eq!(found, [(FindingKind::Header, "shape".to_owned(), fc())]);
    let found = spoil(&|tensors| tensors[0]["sha256"] = "0".repeat(64).into());
    assert_eq!(found, [(FindingKind::Digest, "sha256".to_owned(), fc())]);
    let found = spoil(&|tensors| tensors[0]["name"] = "mtp.other".into());
    assert!(
        found.contains(&(
            FindingKind::Missing,
            "tensor".to_owned(),
            "mtp.other".to_owned()
        )),
        "{found:?}"
    );
    assert!(
        found.contains(&(FindingKind::Extra, "tensor".to_owned(), fc())),
        "{found:?}"
    );
}

#[test]
fn a_record_that_contradicts_itself_is_found() {
    for (edit, field) in [
        (json!({"layout": "row-major"}), "layout"),
        (json!({"name": ""}), "name"),
        (json!({"shape": [40, 49]}), "source.shape"),
        (json!({"shape": [400, 480]}), "bytes"),
    ] {
        let package = Package::new();
        edit_json(&package.root(), MANIFEST_FILE, |manifest| {
            for (key, value) in edit.as_object().unwrap() {
                manifest["tensors"][1][key] = value.clone();
            }
        });
        reseal(&package.root());
        package.expect_finding(FindingKind::Schema, MANIFEST_FILE, field);
    }
    let package = Package::new();
    edit_json(&package.root(), MANIFEST_FILE, |manifest| {
        manifest["rounding"] = "up".into();
        manifest["tensors"][2]["source"]["first_row"] = 49.into();
    });
    reseal(&package.root());
    package.expect_finding(FindingKind::Schema, MANIFEST_FILE, "rounding");
    package.expect_finding(FindingKind::Schema, MANIFEST_FILE, "source.rows");
}

#[test]
fn a_summary_that_counts_otherwise_is_found() {
    let package = Package::new();
    edit_json(
        &package.root(),
        "checkpoint/precision-summary.json",
        |summary| summary["types"][0]["tensors"] = 9.into(),
    );
    reseal(&package.root());
    let finding = package.only_finding();
    assert_eq!(
        (finding.kind, finding.field.as_str()),
        (FindingKind::Total, "types")
    );
}

#[test]
fn another_major_format_is_refused_by_name_before_its_fields_are_read() {
    for file in [RELEASE_FILE, MANIFEST_FILE] {
        let package = Package::new();
        package.write(file, r#"{"tensors": 5, "format": "tt-native/2"}"#);
        match package.open().unwrap_err() {
            ManifestError::Version {
                path,
                found,
                supported,
            } => {
                assert_eq!(
                    (path.as_str(), found.as_str(), supported),
                    (file, "tt-native/2", "tt-native/1")
                );
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn json_that_cannot_be_read_names_file_and_field() {
    for (text, field) in [
        ("", "."),
        ("{", "."),
        ("[]", "."),
        (r#"{"format":"tt-native/1"}"#, "."),
        (
            r#"{"format":"tt-native/1","release":"r","inventory":[{"path":"a","bytes":-1}]}"#,
            "inventory",
        ),
        (
            r#"{"format":"tt-native/1","release":"r","inventory":[]} trailing"#,
            ".",
        ),
    ] {
        let package = Package::new();
        package.write(RELEASE_FILE, text);
        match package.open().unwrap_err() {
            ManifestError::Json {
                path, field: found, ..
            } => {
                assert_eq!(path, RELEASE_FILE);
                assert!(found.starts_with(field) || found == "?", "{text}: {found}");
            }
            other => panic!("{text}: {other}"),
        }
    }
}

#[test]
fn an_absent_package_is_unreadable_not_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let error = Snapshot::open(folder.path()).unwrap_err();
    assert!(
        matches!(&error, ManifestError::Absent { path } if path == RELEASE_FILE),
        "{error}"
    );
    let error = Snapshot::open(folder.path().join("no")).unwrap_err();
    assert!(matches!(&error, ManifestError::Absent { .. }), "{error}");
}
