//! Other users' locks and folders that cannot be written. Fault reports I9 and I11.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

use misbehaving_hub::{COMMIT, Repository};

use crate::program::{Place, REPO, Ran};

const NOBODY: u32 = 65_534;

/// Only root can become somebody else.
fn is_root(place: &Place) -> bool {
    let root = fs::metadata(place.folder.path()).unwrap().uid() == 0;
    if !root {
        eprintln!("skipped: not root");
    }
    root
}

fn fetched() -> Place {
    let place = Place::new();
    let files = [("checkpoint/a.bin".to_owned(), vec![1; 3000].into())];
    place.hub.put(Repository::package(REPO, COMMIT, files));
    place.run(&[REPO]).assert_code(0);
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    place
}

#[test]
fn another_user_reads_a_cache_that_he_cannot_write() {
    let place = fetched();
    if !is_root(&place) {
        return;
    }
    let as_nobody = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.uid(NOBODY);
        Ran::of(command)
    };
    let pinned = format!("{REPO}@{COMMIT}");
    as_nobody(&[&pinned]).assert_code(0);
    as_nobody(&[&pinned, "--reverify"]).assert_code(0);
    // Without records everything is hashed, and nothing has to be written.
    fs::remove_file(
        place
            .cache()
            .join("owner/name")
            .join(format!("{COMMIT}.verified")),
    )
    .unwrap();
    as_nobody(&[&pinned, "--offline"]).assert_code(0);
}

#[test]
fn another_users_lock_is_waited_for_and_its_holder_named() {
    let place = fetched();
    if !is_root(&place) {
        return;
    }
    let package = place.cache().join("owner/name");
    let lock = package.join(".locks").join(COMMIT);
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(package.join(COMMIT).join("checkpoint/a.bin")).unwrap();
    for folder in [&package, &package.join(".locks"), &package.join(COMMIT)] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let mut command = place.command(&[REPO, "--lock-wait", "0"]);
    command.uid(NOBODY);
    let ran = Ran::of(command);
    ran.assert_code(3);
    assert!(ran.err.contains("held by pid "), "{}", ran.err);
}
