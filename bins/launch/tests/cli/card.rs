//! A container's life, as the stand-in for the Docker CLI saw it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use misbehaving_hub::{COMMIT, IMAGE, Repository};
use serde_json::json;

use crate::program::{REPO, Started, World, package};

/// Arguments that start on a machine's card.
fn confirmed<'a>(machine: &'a str, port: &'a str) -> Vec<&'a str> {
    vec![
        "--device",
        "p150",
        "--device-ownership-confirmed",
        "--host-root",
        machine,
        "--port",
        port,
        REPO,
    ]
}

fn machine(world: &World, tree: &str) -> (String, String) {
    (
        world.machine(tree).to_str().unwrap().to_owned(),
        world.port.to_string(),
    )
}

#[test]
fn the_container_is_run_with_exactly_the_golden_arguments() {
    let world = World::new();
    let (machine, port) = machine(&world, "healthy-iommu");
    let mut started = Started::new(world.command(&confirmed(&machine, &port)));
    started.until(&format!("Ready: http://127.0.0.1:{port}"));
    started.signal("-TERM");
    assert_eq!(started.end(), Some(0));
    let calls = world.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/card/run-arguments.txt"
    );
    let at = |name: &str| calls[0].iter().find(|a| a.contains(name)).unwrap().clone();
    let id_file = calls[0][5].clone();
    let tensors = at("target=/tensor-cache")
        .replace("type=bind,source=", "")
        .replace(",target=/tensor-cache", "");
    let expected: Vec<String> = fs::read_to_string(golden)
        .unwrap()
        .lines()
        .map(|line| {
            line.replace("{COMMIT12}", &COMMIT[..12])
                .replace("{PORT}", &port)
                .replace("{IDFILE}", &id_file)
                .replace("{SNAPSHOT}", world.snapshot().to_str().unwrap())
                .replace("{TENSORCACHE}", &tensors)
                .replace("{IMAGE}", IMAGE)
        })
        .collect();
    assert_eq!(calls[0], expected);
    // The tensor cache is beside the packages, and the file of the identity in a folder that is gone.
    assert!(
        tensors.starts_with(
            world
                .folder
                .path()
                .join(".cache/qwen35-native-tensors")
                .to_str()
                .unwrap()
        ),
        "{tensors}"
    );
    assert!(
        id_file.contains("qwen35-launch-") && !std::path::Path::new(&id_file).exists(),
        "{id_file}"
    );
}

#[test]
fn a_signal_is_handed_on_once_and_the_container_closes_the_card() {
    for signal in ["-INT", "-TERM"] {
        let world = World::new();
        let (machine, port) = machine(&world, "healthy-no-iommu");
        let mut started = Started::new(world.command(&confirmed(&machine, &port)));
        started.until("waiting for the server, 0 s: load 1/2");
        started.until("Ready: ");
        started.signal(signal);
        assert_eq!(started.end(), Some(0), "{:?}", started.heard);
        assert_eq!(
            world.container_log(),
            ["started", "SIGTERM", "closed the card"]
        );
        assert_eq!(world.calls().len(), 1, "no other call of docker was needed");
    }
}

/// Fault report L6.
#[test]
fn a_second_signal_warns_and_a_stubborn_container_is_stopped_by_its_identity() {
    let world = World::new();
    world.behave("stubborn");
    let (machine, port) = machine(&world, "healthy-iommu");
    let mut arguments = vec!["--grace", "2"];
    arguments.extend(confirmed(&machine, &port));
    let mut started = Started::new(world.command(&arguments));
    started.until("Ready: ");
    started.signal("-INT");
    started.until("SIGINT: the server finishes what runs");
    started.signal("-INT");
    started.until("SIGINT again: the card is being closed");
    assert_eq!(started.end(), Some(0), "{:?}", started.heard);
    let calls = world.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[1][..3], ["stop", "--time", "30"]);
    assert_eq!(calls[1][3].len(), 64);
    assert_eq!(
        world.container_log().last().map(String::as_str),
        Some("closed the card")
    );
}

#[test]
fn nothing_is_started_without_the_confirmation() {
    let world = World::new();
    let (machine, port) = machine(&world, "healthy-iommu");
    for device in ["p150", "auto"] {
        let ran = world.run(&[
            "--device",
            device,
            "--host-root",
            &machine,
            "--port",
            &port,
            REPO,
        ]);
        ran.assert_code(2);
        assert!(
            ran.err.contains("--device-ownership-confirmed"),
            "{}",
            ran.err
        );
    }
    assert!(world.calls().is_empty());
    assert!(
        world.hub.seen().is_empty(),
        "nobody waits for a fetch to be told that"
    );
}

#[test]
fn a_held_card_is_left_alone() {
    let world = World::new();
    let (machine, port) = machine(&world, "held");
    let ran = world.run(&confirmed(&machine, &port));
    ran.assert_code(4);
    assert!(
        ran.err
            .contains("process 4711 (python3) in a container, where it is process 1"),
        "{}",
        ran.err
    );
    assert!(world.calls().is_empty());
}

/// Fault report L1.
#[test]
fn another_launcher_is_waited_for_a_bounded_time_and_named() {
    let world = World::new();
    let (machine, port) = machine(&world, "healthy-iommu");
    let lock = std::path::Path::new(&machine).join("run/lock/qwen35-card-0.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "process 4711\n").unwrap();
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let mut arguments = vec!["--device-wait", "1"];
    arguments.extend(confirmed(&machine, &port));
    let ran = world.run(&arguments);
    ran.assert_code(4);
    assert!(
        ran.err.contains("process 4711 holds ") && ran.err.contains("qwen35-card-0.lock"),
        "{}",
        ran.err
    );
    assert!(world.calls().is_empty());
}

/// Fault reports L4 and L5.
#[test]
fn a_machine_that_is_not_ready_is_refused_with_what_mends_it() {
    let world = World::new();
    let (machine, port) = machine(&world, "missing-hugepages");
    let ran = world.run(&confirmed(&machine, &port));
    ran.assert_code(4);
    for text in [
        "/dev/hugepages-1G is not mounted",
        "mend: sudo mkdir -p /dev/hugepages-1G && sudo mount -t hugetlbfs",
    ] {
        assert!(ran.err.contains(text), "{}", ran.err);
    }
    let empty = world
        .folder
        .path()
        .join("empty")
        .to_str()
        .unwrap()
        .to_owned();
    world.run(&confirmed(&empty, &port)).assert_code(4);
    world.behave("unreachable");
    let healthy = world.machine("healthy-iommu");
    let ran = world.run(&confirmed(healthy.to_str().unwrap(), &port));
    ran.assert_code(4);
    assert!(
        ran.err.contains("Cannot connect to the Docker daemon"),
        "{}",
        ran.err
    );
    assert!(world.calls().is_empty());
    assert!(
        world
            .hub
            .seen_for("checkpoint/tensors/a.tensorbin")
            .is_empty(),
        "nothing was fetched for it"
    );
}

#[test]
fn images_without_a_digest_or_of_another_release_are_refused() {
    let world = World::new();
    let (machine, port) = machine(&world, "healthy-iommu");
    let other = IMAGE.replace("abab", "cdcd");
    for (image, words) in [
        ("registry.example/qwen35/runtime:latest", "must be pinned"),
        ("registry.example/qwen35/runtime", "must be pinned"),
        (other.as_str(), "make its proofs say what was not measured"),
    ] {
        let mut arguments = vec!["--image", image];
        arguments.extend(confirmed(&machine, &port));
        let ran = world.run(&arguments);
        ran.assert_code(2);
        assert!(ran.err.contains(words), "{image}: {}", ran.err);
    }
    // A release without an image needs one, and a mirror of the named one is the same image.
    let mut nameless = package(COMMIT);
    let nobody = json!({"format": "tt-native/1", "release": "r", "inventory": []})
        .to_string()
        .into_bytes();
    nameless
        .files
        .insert("runtime-release.json".to_owned(), nobody.into());
    nameless.id = "owner/nameless".to_owned();
    world.hub.put(nameless);
    let mut arguments = confirmed(&machine, &port);
    *arguments.last_mut().unwrap() = "owner/nameless";
    let ran = world.run(&arguments);
    ran.assert_code(2);
    assert!(ran.err.contains("names no image"), "{}", ran.err);
    let mirror = IMAGE.replace("registry.example", "mirror.example");
    let ran = world.run(&[
        "--print-command",
        "--image",
        &mirror,
        "--host-root",
        &machine,
        REPO,
    ]);
    ran.assert_code(0);
    assert!(ran.out.contains(&mirror));
    assert!(world.calls().is_empty());
}

#[test]
fn a_container_that_ends_by_itself_is_an_error_with_its_status() {
    let world = World::new();
    world.behave("dies");
    let (machine, port) = machine(&world, "healthy-iommu");
    let ran = world.run(&confirmed(&machine, &port));
    ran.assert_code(4);
    assert!(ran.err.contains("container: no device"), "{}", ran.err);
    assert!(
        ran.err
            .contains("the container ended by itself (exit status: 3)"),
        "{}",
        ran.err
    );
    assert_eq!(world.calls().len(), 1);
}

#[test]
fn a_server_that_never_answers_is_given_up_and_stopped() {
    let world = World::new();
    world.behave("unhealthy");
    let (machine, port) = machine(&world, "healthy-iommu");
    let mut arguments = vec!["--health-timeout", "1"];
    arguments.extend(confirmed(&machine, &port));
    let ran = world.run(&arguments);
    ran.assert_code(4);
    assert!(
        ran.err.contains("did not answer within 1s: load 1/2"),
        "{}",
        ran.err
    );
    assert_eq!(
        world.container_log(),
        ["started", "SIGTERM", "closed the card"]
    );
}

#[test]
fn a_port_that_is_taken_is_found_before_the_container() {
    let world = World::new();
    let (machine, port) = machine(&world, "healthy-iommu");
    let _taken = std::net::TcpListener::bind(("127.0.0.1", world.port)).unwrap();
    let ran = world.run(&confirmed(&machine, &port));
    ran.assert_code(3);
    assert!(
        ran.err
            .contains(&format!("port {port} of 127.0.0.1 is taken")),
        "{}",
        ran.err
    );
    assert!(world.calls().is_empty());
}

#[test]
fn the_tensor_cache_is_never_among_the_packages() {
    let world = World::new();
    let (machine, port) = machine(&world, "healthy-iommu");
    let inside = world.cache().join("tensors");
    let mut arguments = vec!["--tensor-cache", inside.to_str().unwrap()];
    arguments.extend(confirmed(&machine, &port));
    let ran = world.run(&arguments);
    ran.assert_code(2);
    assert!(
        ran.err.contains("must not contain each other"),
        "{}",
        ran.err
    );
    assert!(world.calls().is_empty());
}

/// Fault report K5. Root may write anywhere, so the program runs as somebody else.
#[test]
fn a_tensor_cache_that_cannot_be_written_is_done_without() {
    use std::os::unix::process::CommandExt as _;
    let world = World::new();
    let own = std::os::unix::fs::MetadataExt::uid(&fs::metadata(world.folder.path()).unwrap());
    if own != 0 {
        eprintln!("skipped: not root");
        return;
    }
    let (machine, port) = machine(&world, "healthy-iommu");
    let tensors = world.folder.path().join("tensors");
    fs::create_dir(&tensors).unwrap();
    open_to_all(world.folder.path());
    fs::set_permissions(&tensors, fs::Permissions::from_mode(0o555)).unwrap();
    let mut arguments = vec!["--tensor-cache", tensors.to_str().unwrap()];
    arguments.extend(confirmed(&machine, &port));
    let mut command = world.command(&arguments);
    command.uid(65_534);
    let mut started = Started::new(command);
    started.until("Ready: ");
    started.signal("-TERM");
    assert_eq!(started.end(), Some(0));
    assert!(
        started
            .heard
            .iter()
            .any(|line| line.contains("converts all tensors again")),
        "{:?}",
        started.heard
    );
    assert!(
        !world.calls()[0]
            .iter()
            .any(|argument| argument.contains("tensor-cache"))
    );
}

fn open_to_all(folder: &std::path::Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => open_to_all(&entry.path()),
            kind if kind.is_file() => {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o666)).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn two_packages_never_share_converted_tensors() {
    let world = World::new();
    let (machine, port) = machine(&world, "healthy-iommu");
    let folder_of = |world: &World| {
        let calls = world.calls();
        calls
            .last()
            .unwrap()
            .iter()
            .find(|a| a.contains("target=/tensor-cache"))
            .unwrap()
            .clone()
    };
    let mut folders = Vec::new();
    for manifest in ["{\"a\": 1}", "{\"a\": 2}"] {
        let files = [(
            "checkpoint/native-manifest.json".to_owned(),
            manifest.into(),
        )];
        world.hub.put(Repository::package(
            REPO,
            &misbehaving_hub::commit(folders.len() as u64 + 5),
            files,
        ));
        let mut started = Started::new(world.command(&confirmed(&machine, &port)));
        started.until("Ready: ");
        started.signal("-TERM");
        assert_eq!(started.end(), Some(0));
        folders.push(folder_of(&world));
    }
    assert_ne!(folders[0], folders[1]);
}
