//! Serving on the CPU, in the program's own process, with the demo package of this repository.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use misbehaving_hub::{COMMIT, Content, Repository};

use crate::program::{REPO, Started, World};

/// The files of the demo package, or `None` where it has not been made.
fn demo() -> Option<Vec<(String, Content)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo-package");
    if !root.join("runtime-release.json").exists() {
        eprintln!("skipped: no demo package");
        return None;
    }
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path
                    .strip_prefix(&root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                files.push((name, fs::read(&path).unwrap().into()));
            }
        }
    }
    Some(files)
}

fn request(port: u16, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    write!(stream, "{head} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_fetched_package_is_served_on_the_cpu_and_ends_with_a_signal() {
    let Some(files) = demo() else { return };
    let world = World::new();
    world.hub.put(Repository::new(REPO, COMMIT, files));
    let port = world.port.to_string();
    let mut started = Started::new(world.command(&["--device", "cpu", "--port", &port, REPO]));
    started.until(&format!("Revision: {COMMIT}"));
    started.until(&format!("Listening: http://127.0.0.1:{port}"));
    started.until(&format!("Ready: http://127.0.0.1:{port}"));
    let chat = r#"{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}"#;
    let answer = request(world.port, "POST /v1/chat/completions", chat);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(
        answer.contains("\"completion_tokens\":4") || answer.contains("\"finish_reason\":\"stop\""),
        "{answer}"
    );
    assert!(request(world.port, "GET /health", "").contains("\"status\":\"ok\""));
    started.signal("-INT");
    assert_eq!(started.end(), Some(0), "{:?}", started.heard);
    assert!(world.calls().is_empty(), "no container was needed");
}

#[test]
fn without_a_card_the_cpu_is_the_default_and_a_folder_serves_as_well_as_a_repository() {
    let Some(files) = demo() else { return };
    let world = World::new();
    let folder = world.folder.path().join("package");
    for (name, content) in files {
        let Content::Whole(bytes) = content else {
            unreachable!()
        };
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let empty = world.folder.path().join("no-card");
    let port = world.port.to_string();
    let arguments = [
        "--host-root",
        empty.to_str().unwrap(),
        "--mtp",
        "off",
        "--port",
        &port,
        "--package",
    ];
    let mut command = world.command(&arguments);
    command.arg(&folder);
    let mut started = Started::new(command);
    started.until("Ready: ");
    assert!(request(world.port, "GET /v1/models", "").starts_with("HTTP/1.1 200 OK"));
    started.signal("-TERM");
    assert_eq!(started.end(), Some(0), "{:?}", started.heard);
    assert!(world.hub.seen().is_empty());
}

#[test]
fn a_package_that_cannot_be_computed_with_is_an_error_that_says_why() {
    let world = World::new();
    let port = world.port.to_string();
    let ran = world.run(&["--device", "cpu", "--port", &port, REPO]);
    ran.assert_code(3);
    assert!(
        ran.err.contains("the package cannot be opened"),
        "{}",
        ran.err
    );
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let world = World::new();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", world.port)).unwrap();
    let port = world.port.to_string();
    let ran = world.run(&["--device", "cpu", "--port", &port, REPO]);
    ran.assert_code(3);
    assert!(
        ran.err.contains(&format!("127.0.0.1:{port}")),
        "{}",
        ran.err
    );
}
