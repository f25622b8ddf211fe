//! Everything before something is started.

use std::fs;

use misbehaving_hub::{COMMIT, Content, Fault, Repository, commit};

use crate::program::{REPO, Started, World, package};

#[test]
fn download_only_fetches_and_starts_nothing() {
    let world = World::new();
    let ran = world.run(&["--download-only", REPO]);
    ran.assert_code(0);
    assert_eq!(
        ran.out.lines().next(),
        Some(format!("Revision: {COMMIT}").as_str())
    );
    assert_eq!(
        ran.out.lines().last(),
        Some(format!("Package: {}", world.snapshot().display()).as_str())
    );
    assert_eq!(
        fs::read(world.snapshot().join("checkpoint/tensors/a.tensorbin")).unwrap(),
        vec![5; 4000]
    );
    assert!(world.calls().is_empty());
    // With a card in the machine too, and without a confirmation: nothing is started on it.
    let machine = world.machine("healthy-iommu");
    world
        .run(&[
            "--download-only",
            "--host-root",
            machine.to_str().unwrap(),
            REPO,
        ])
        .assert_code(0);
    assert!(world.calls().is_empty());
}

#[test]
fn an_older_revision_has_its_own_folder_and_going_back_is_the_same_command() {
    let world = World::new();
    world.run(&["--download-only", REPO]).assert_code(0);
    let newer = commit(7);
    world.hub.put(package(&newer));
    let ran = world.run(&["--download-only", REPO]);
    ran.assert_code(0);
    assert!(ran.out.contains(&format!("Revision: {newer}")));
    world.hub.forget();
    let back = world.run(&["--download-only", "--revision", COMMIT, REPO]);
    back.assert_code(0);
    assert!(
        back.out
            .contains(&format!("Package: {}", world.snapshot().display()))
    );
    assert!(world.hub.seen().is_empty(), "it is here already");
}

#[test]
fn print_command_runs_nothing_and_fetches_no_tensor() {
    let world = World::new();
    let port = world.port.to_string();
    let ran = world.run(&["--print-command", "--mtp", "off", "--port", &port, REPO]);
    ran.assert_code(0);
    let expected = format!(
        "qwen35-serve --package {} --port {port} --mtp off",
        world.snapshot().display()
    );
    assert_eq!(ran.out.lines().last(), Some(expected.as_str()));
    let machine = world.machine("healthy-iommu");
    let ran = world.run(&[
        "--print-command",
        "--host-root",
        machine.to_str().unwrap(),
        REPO,
    ]);
    ran.assert_code(0);
    let line = ran.out.lines().last().unwrap();
    assert!(
        line.starts_with("docker run --rm --name qwen35-0123456789ab-8000 "),
        "{line}"
    );
    assert!(line.contains("--publish 127.0.0.1:8000:8000"), "{line}");
    assert!(
        world
            .hub
            .seen_for("checkpoint/tensors/a.tensorbin")
            .is_empty()
    );
    assert!(world.calls().is_empty());
}

#[test]
fn what_is_no_native_package_is_refused() {
    let world = World::new();
    let files = [("config.json".to_owned(), Content::from("{}"))];
    world
        .hub
        .put(Repository::new("owner/ordinary", COMMIT, files));
    let ran = world.run(&["owner/ordinary"]);
    ran.assert_code(3);
    assert!(
        ran.err.contains("owner/ordinary is no native package"),
        "{}",
        ran.err
    );
    world
        .run(&["--package", world.folder.path().to_str().unwrap()])
        .assert_code(3);
}

#[test]
fn usage_is_checked_before_anything_is_asked() {
    let world = World::new();
    for arguments in [
        vec![],
        vec!["../x/y"],
        vec!["--revision", "../../main", REPO],
        vec!["--port", "70000", REPO],
        vec!["--mtp", "maybe", REPO],
        vec!["--package", "/x", REPO],
        vec!["--host", "0.0.0.0", REPO],
    ] {
        world.run(&arguments).assert_code(2);
    }
    assert!(world.hub.seen().is_empty());
}

#[test]
fn wrong_bytes_are_a_finding_and_nothing_is_started() {
    let world = World::new();
    world
        .hub
        .always("checkpoint/tensors/a.tensorbin", Fault::Flip(17));
    let ran = world.run(&["--device", "cpu", REPO]);
    ran.assert_code(1);
    assert!(ran.err.contains("digest mismatch"), "{}", ran.err);
    assert!(!world.snapshot().exists());
}

#[test]
fn a_signal_during_the_fetch_ends_it_and_the_next_run_continues() {
    let world = World::new();
    world
        .hub
        .always("checkpoint/tensors/a.tensorbin", Fault::StallAfter(1000));
    let mut started = Started::new(world.command(&["--download-only", REPO]));
    started.until("native-manifest.json");
    started.signal("-INT");
    assert_eq!(started.end(), Some(130));
    assert!(!world.snapshot().exists());
    world.hub.behave();
    world.run(&["--download-only", REPO]).assert_code(0);
}
