//! Package folders.

use std::fs;
use std::path::PathBuf;

use native_manifest::testing::{edit_json, reseal, write_package};
use tempfile::TempDir;

use crate::program::verify;

const Q: &str = "checkpoint/tensors/layers.0.attn.q.weight.tensorbin";

fn package() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("package");
    write_package(&root).unwrap();
    (folder, root)
}

#[test]
fn a_good_package_ends_with_0() {
    let (_folder, root) = package();
    let run = verify([&root]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("release   tiny-1\n"), "{}", run.out);
    assert!(run.out.ends_with("result    ok\n"), "{}", run.out);
    assert!(run.err.starts_with("checking 13 files"), "{}", run.err);
    let quiet = verify([root.as_os_str(), "--quiet".as_ref()]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}

#[test]
fn json_has_the_facts() {
    let (_folder, root) = package();
    let run = verify([
        root.as_os_str(),
        "--json".as_ref(),
        "--threads".as_ref(),
        "1".as_ref(),
    ]);
    let json = run.json();
    assert_eq!(run.code, 0);
    assert_eq!(json["result"], "ok");
    assert_eq!(
        (json["files"].as_u64(), json["tensors"].as_u64()),
        (Some(13), Some(6))
    );
    assert_eq!(
        json["counts"],
        serde_json::json!({"mismatch": 0, "missing": 0, "extra": 0})
    );
    let manifest = fs::read(root.join("checkpoint/native-manifest.json")).unwrap();
    let digest = native_manifest::Sha256Digest::of(&manifest);
    assert_eq!(json["manifest"], format!("sha256:{digest}"));
}

#[test]
fn every_finding_is_named_and_ends_with_1() {
    let (_folder, root) = package();
    fs::remove_file(root.join("checkpoint/tokenizer.json")).unwrap();
    fs::write(root.join("extra.bin"), "x").unwrap();
    let mut bytes = fs::read(root.join(Q)).unwrap();
    bytes[3000] ^= 1;
    fs::write(root.join(Q), bytes).unwrap();
    let run = verify([root.as_os_str(), "--json".as_ref()]);
    assert_eq!(run.code, 1);
    let expected = [
        ("digest", Q),
        ("missing", "checkpoint/tokenizer.json"),
        ("extra", "extra.bin"),
    ];
    assert_eq!(
        run.findings(),
        expected.map(|(kind, file)| (kind.to_owned(), file.to_owned()))
    );
    assert_eq!(
        run.json()["counts"],
        serde_json::json!({"mismatch": 1, "missing": 1, "extra": 1})
    );
    let run = verify([&root]);
    assert_eq!(run.code, 1);
    assert!(
        run.out
            .ends_with("result    refused: 3 findings (1 mismatch, 1 missing, 1 extra)\n"),
        "{}",
        run.out
    );
    for (kind, file) in expected {
        assert!(
            run.out
                .contains(&format!("finding   {kind}: file \"{file}\"")),
            "{}",
            run.out
        );
    }
}

#[test]
fn options_leave_out_what_they_say() {
    let (_folder, root) = package();
    fs::write(root.join("extra.bin"), "x").unwrap();
    let mut bytes = fs::read(root.join(Q)).unwrap();
    *bytes.last_mut().unwrap() = 0x80;
    fs::write(root.join(Q), bytes).unwrap();
    reseal(&root);
    let run = |options: &[&str]| {
        let args = [root.to_str().unwrap(), "--json"]
            .into_iter()
            .chain(options.iter().copied());
        let run = verify(args);
        (
            run.code,
            run.findings()
                .into_iter()
                .map(|(kind, _)| kind)
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(run(&[]), (1, vec!["codes".to_owned(), "extra".to_owned()]));
    assert_eq!(run(&["--skip-codes"]), (1, vec!["extra".to_owned()]));
    assert_eq!(run(&["--runtime-only"]), (1, vec!["codes".to_owned()]));
    assert_eq!(run(&["--runtime-only", "--skip-codes"]), (0, vec![]));
}

#[cfg(unix)]
#[test]
fn links_out_are_refused_unless_allowed() {
    let (folder, root) = package();
    let blob = folder.path().join("blob");
    fs::rename(root.join(Q), &blob).unwrap();
    std::os::unix::fs::symlink(&blob, root.join(Q)).unwrap();
    let run = verify([root.as_os_str(), "--json".as_ref()]);
    assert_eq!(
        (run.code, run.findings()),
        (1, vec![("link".to_owned(), Q.to_owned())])
    );
    let run = verify([root.as_os_str(), "--allow-links".as_ref()]);
    assert_eq!(run.code, 0, "{}", run.out);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_checked_and_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, root) = package();
    let folders = ["checkpoint/tensors", "checkpoint", "evidence", ""];
    let set = |mode| {
        for folder in folders {
            fs::set_permissions(root.join(folder), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o555);
    let before = fs::metadata(root.join("checkpoint"))
        .unwrap()
        .modified()
        .unwrap();
    let run = verify([&root]);
    assert_eq!(run.code, 0, "{}", run.out);
    assert_eq!(
        fs::metadata(root.join("checkpoint"))
            .unwrap()
            .modified()
            .unwrap(),
        before
    );
    set(0o755);
}

#[test]
fn lists_that_cannot_be_trusted_are_findings() {
    type Edit = fn(&mut serde_json::Value);
    let cases: [(&str, Edit, &str, &str); 4] = [
        (
            "runtime-release.json",
            |list| list["inventory"][0]["path"] = "../x".into(),
            "schema",
            "runtime-release.json",
        ),
        (
            "runtime-release.json",
            |list| list["inventory"][0]["path"] = "SHA256SUMS".into(),
            "schema",
            "runtime-release.json",
        ),
        (
            "release-manifest.json",
            |list| list["inventory"][0]["path"] = "C:\\x".into(),
            "schema",
            "release-manifest.json",
        ),
        (
            "checkpoint/native-manifest.json",
            |manifest| manifest["tensors"][0]["shape"] = serde_json::json!([-1]),
            "schema",
            "checkpoint/native-manifest.json",
        ),
    ];
    for (file, edit, kind, named) in cases {
        let (_folder, root) = package();
        edit_json(&root, file, edit);
        let run = verify([root.as_os_str(), "--json".as_ref()]);
        assert_eq!(run.code, 1, "{file}: {}", run.out);
        assert!(
            run.findings()
                .contains(&(kind.to_owned(), named.to_owned())),
            "{}",
            run.out
        );
    }
}

#[test]
fn a_manifest_of_a_terabyte_is_refused_by_its_size() {
    let (_folder, root) = package();
    let path = root.join("checkpoint/native-manifest.json");
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let run = verify([root.as_os_str(), "--json".as_ref()]);
    assert_eq!(
        run.findings(),
        [(
            "size".to_owned(),
            "checkpoint/native-manifest.json".to_owned()
        )]
    );
}

#[test]
fn what_is_no_package_ends_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let run = verify([folder.path()]);
    assert_eq!(run.code, 3);
    assert!(
        run.out
            .contains("error     this is no package: file \"runtime-release.json\" is missing"),
        "{}",
        run.out
    );
    let run = verify([folder.path().join("no").as_os_str(), "--json".as_ref()]);
    assert_eq!(
        (run.code, run.json()["result"].as_str().unwrap()),
        (3, "unreadable")
    );

    let (_folder, root) = package();
    fs::write(
        root.join("runtime-release.json"),
        r#"{"format": "tt-native/2"}"#,
    )
    .unwrap();
    let run = verify([&root]);
    assert_eq!(run.code, 3);
    assert!(run.out.contains("tt-native/2"), "{}", run.out);
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    for args in [
        vec![],
        vec!["--no-such-option", "x"],
        vec!["x", "--threads", "0"],
        vec!["a", "b"],
        vec!["image", "x"],
    ] {
        let run = verify(args.clone());
        assert_eq!(run.code, 2, "{args:?} {}", run.out);
        assert!(
            run.out.is_empty() && run.err.contains("--help"),
            "{args:?} {}",
            run.err
        );
    }
    assert_eq!(verify(["--help"]).code, 0);
    assert_eq!(verify(["--version"]).code, 0);
}

#[test]
fn names_that_would_draw_on_a_terminal_are_escaped() {
    let (_folder, root) = package();
    fs::write(root.join("\u{1b}[31mred\u{7}"), "x").unwrap();
    let run = verify([&root]);
    assert_eq!(run.code, 1);
    assert!(
        !run.out.contains('\u{1b}') && !run.out.contains('\u{7}'),
        "{:?}",
        run.out
    );
}

#[test]
fn a_statement_names_every_file_by_digest() {
    let (folder, root) = package();
    let file = folder.path().join("statement.json");
    let run = verify([root.as_os_str(), "--statement".as_ref(), file.as_os_str()]);
    assert_eq!(run.code, 0, "{}", run.out);
    let statement: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    let subjects = statement["subject"].as_array().unwrap();
    assert_eq!(subjects.len(), 13);
    for subject in subjects {
        let bytes = fs::read(root.join(subject["name"].as_str().unwrap())).unwrap();
        assert_eq!(
            subject["digest"]["sha256"],
            native_manifest::Sha256Digest::of(&bytes).to_string()
        );
    }
    // Nothing is stated of a package with a finding.
    fs::remove_file(&file).unwrap();
    fs::write(root.join("extra"), "").unwrap();
    let run = verify([root.as_os_str(), "--statement".as_ref(), file.as_os_str()]);
    assert_eq!((run.code, file.exists()), (1, false));
}
