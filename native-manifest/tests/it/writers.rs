//! The writer: whole or nothing, and on from where it was.

use std::fs;
use std::io;

use native_manifest::testing::write_package;
use native_manifest::{Entry, ManifestError, PackagePath, PackageWriter, Sha256Digest};
use tempfile::TempDir;

fn path(text: &str) -> PackagePath {
    text.parse().unwrap()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn nothing_is_left_beside_a_finished_package() {
    let folder = folder();
    write_package(&folder.path().join("p")).unwrap();
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["p"]);
}

#[test]
fn a_target_that_exists_is_not_touched() {
    let folder = folder();
    let target = folder.path().join("p");
    fs::create_dir(&target).unwrap();
    match PackageWriter::open(&target) {
        Err(ManifestError::Writer { reason, .. }) => {
            assert_eq!(reason, "the target is there already");
        }
        other => panic!("{other:?}"),
    }
    assert!(fs::read_dir(&target).unwrap().next().is_none());
    assert!(!folder.path().join("p.partial").exists());
}

#[test]
fn two_writers_do_not_share_a_target() {
    let folder = folder();
    let target = folder.path().join("p");
    let first = PackageWriter::open(&target).unwrap();
    match PackageWriter::open(&target) {
        Err(ManifestError::Writer { reason, .. }) => {
            assert_eq!(reason, "another writer works on the target");
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    PackageWriter::open(&target).unwrap();
}

#[test]
fn finished_files_are_remembered_by_what_they_were_made_from() {
    let folder = folder();
    let target = folder.path().join("p");
    let mut writer = PackageWriter::open(&target).unwrap();
    let entry = writer
        .add(path("checkpoint/a"), "source 1", |sink| sink.write(b"abc"))
        .unwrap();
    assert_eq!(
        entry,
        Entry {
            path: path("checkpoint/a"),
            bytes: 3,
            sha256: Sha256Digest::of(b"abc")
        }
    );
    drop(writer);
    let writer = PackageWriter::open(&target).unwrap();
    assert_eq!(
        writer.finished(&path("checkpoint/a"), "source 1"),
        Some(&entry)
    );
    assert_eq!(writer.finished(&path("checkpoint/a"), "source 2"), None);
    assert_eq!(writer.finished(&path("checkpoint/b"), "source 1"), None);
}

#[test]
fn a_file_that_was_made_again_is_not_known_by_its_old_bytes() {
    let folder = folder();
    let target = folder.path().join("p");
    let mut writer = PackageWriter::open(&target).unwrap();
    writer
        .add(path("a"), "source 1", |sink| sink.write(b"abc"))
        .unwrap();
    // A kill between the rename and the next line of the journal: the new bytes are there, of the same size.
    let failed = writer.add(path("a"), "source 2", |sink| {
        sink.write(b"xyz")?;
        Err(Stopped)
    });
    assert!(matches!(failed, Err(Stopped)));
    fs::write(folder.path().join("p.partial/package/a"), b"xyz").unwrap();
    drop(writer);
    let writer = PackageWriter::open(&target).unwrap();
    assert_eq!(writer.finished(&path("a"), "source 1"), None);
}

#[derive(Debug)]
struct Stopped;

impl From<ManifestError> for Stopped {
    fn from(_: ManifestError) -> Self {
        Self
    }
}

#[test]
fn a_file_that_failed_half_way_is_not_there() {
    let folder = folder();
    let target = folder.path().join("p");
    let mut writer = PackageWriter::open(&target).unwrap();
    let failed = writer.add(path("a"), "s", |sink| {
        sink.write(b"half")?;
        Err(Stopped)
    });
    assert!(matches!(failed, Err(Stopped)));
    assert!(!folder.path().join("p.partial/package/a").exists());
    assert_eq!(writer.finished(&path("a"), "s"), None);
    let entry = writer
        .add(path("a"), "s", |sink| sink.write(b"whole"))
        .unwrap();
    assert_eq!(entry.bytes, 5);
}

#[test]
fn a_journal_cut_anywhere_loses_only_what_it_lost() {
    let folder = folder();
    let target = folder.path().join("p");
    let mut writer = PackageWriter::open(&target).unwrap();
    let names = ["a", "b", "c"];
    for name in names {
        writer
            .add(path(name), "s", |sink| sink.write(name.as_bytes()))
            .unwrap();
    }
    drop(writer);
    let journal = folder.path().join("p.partial/journal");
    let text = fs::read(&journal).unwrap();
    // Around each newline, and some places within the lines.
    let near_newline =
        |cut: &usize| text[cut.saturating_sub(2)..(cut + 2).min(text.len())].contains(&b'\n');
    for cut in (0..=text.len()).filter(|cut| near_newline(cut) || cut % 41 == 0) {
        fs::write(&journal, &text[..cut]).unwrap();
        let whole = text[..cut].iter().filter(|byte| **byte == b'\n').count();
        // A line without its newline is whole too, if all of it is there.
        let whole = whole + usize::from(text.get(cut) == Some(&b'\n'));
        let mut writer = PackageWriter::open(&target).unwrap();
        let known = names
            .iter()
            .filter(|name| writer.finished(&path(name), "s").is_some())
            .count();
        assert_eq!(known, whole, "cut at {cut}");
        // What is added now is not swallowed by the line that was cut.
        writer.add(path("d"), "s", |sink| sink.write(b"d")).unwrap();
        drop(writer);
        let writer = PackageWriter::open(&target).unwrap();
        assert!(writer.finished(&path("d"), "s").is_some(), "cut at {cut}");
        assert_eq!(
            names
                .iter()
                .filter(|name| writer.finished(&path(name), "s").is_some())
                .count(),
            whole
        );
    }
}

#[test]
fn leftovers_of_an_earlier_plan_do_not_enter_the_package() {
    let folder = folder();
    let target = folder.path().join("p");
    let mut writer = PackageWriter::open(&target).unwrap();
    writer
        .add(path("checkpoint/tensors/old.tensorbin"), "s", |sink| {
            sink.write(b"old")
        })
        .unwrap();
    drop(writer);
    write_package(&target).unwrap();
    assert!(!target.join("checkpoint/tensors/old.tensorbin").exists());
    let options = crate::harness::strict();
    native_manifest::Snapshot::open(&target)
        .unwrap()
        .verify(&options, &())
        .unwrap();
}

#[test]
fn an_interrupted_package_comes_out_the_same() {
    let (first, second) = (folder(), folder());
    write_package(&first.path().join("p")).unwrap();
    let target = second.path().join("p");
    let mut writer = PackageWriter::open(&target).unwrap();
    // Made by the earlier run, of the same bytes.
    let config = fs::read(first.path().join("p/checkpoint/config.json")).unwrap();
    writer
        .add_bytes(path("checkpoint/config.json"), &config)
        .unwrap();
    drop(writer);
    write_package(&target).unwrap();
    for file in [
        "SHA256SUMS",
        "release-manifest.json",
        "checkpoint/native-manifest.json",
    ] {
        assert_eq!(
            fs::read(target.join(file)).unwrap(),
            fs::read(first.path().join("p").join(file)).unwrap()
        );
    }
}

#[test]
fn the_same_file_twice_is_refused_and_the_target_stays_away() {
    let folder = folder();
    let target = folder.path().join("p");
    write_package(&folder.path().join("model")).unwrap();
    let claimed = native_manifest::Snapshot::open(folder.path().join("model")).unwrap();
    let colophon = native_manifest::Colophon {
        release: claimed.release().clone(),
        manifest: claimed.manifest().clone(),
    };
    let mut writer = PackageWriter::open(&target).unwrap();
    let entry = writer.add_bytes(path("checkpoint/a"), b"a").unwrap();
    let again = writer.add_bytes(path("checkpoint/A"), b"a").unwrap();
    match writer.finish(vec![entry, again], colophon) {
        Err(ManifestError::SameName { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(!target.exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_io_error() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    match PackageWriter::open(folder.path().join("file/p")) {
        Err(ManifestError::Io { source, .. }) => {
            assert_eq!(source.kind(), io::ErrorKind::NotADirectory);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        PackageWriter::open("/"),
        Err(ManifestError::Writer { .. })
    ));
}
