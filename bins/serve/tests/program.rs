//! The program itself: what it prints, how it stops, what it exits with.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where by its panic"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn server(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qwen35-serve"));
    command
        .args(args)
        .env("RUST_LOG", "error")
        .stdin(Stdio::null());
    command
}

/// A server that answers, and its address.
fn ready(args: &[&str]) -> (Child, String) {
    let mut child = server(&[&["--port", "0"], args].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on http://")
        .unwrap()
        .to_owned();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    loop {
        line.clear();
        assert!(
            messages.read_line(&mut line).unwrap() > 0,
            "the server ended before it was ready"
        );
        if line.starts_with("ready: ") {
            break;
        }
    }
    // Whatever it says later must not stop it.
    std::thread::spawn(move || std::io::copy(&mut messages, &mut std::io::sink()));
    (child, address)
}

fn request(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[cfg(unix)]
#[test]
fn it_says_where_it_listens_answers_from_the_demo_package_and_stops_when_told() {
    for signal in ["TERM", "INT"] {
        let (mut child, address) = ready(&[]);
        let body = r#"{"messages": [{"role": "user", "content": "What is the opposite of hot?"}], "temperature": 0}"#;
        let answer = request(
            &address,
            &format!(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        );
        assert!(answer.contains("The opposite of hot is cold."), "{answer}");
        let told = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status()
            .unwrap();
        assert!(told.success());
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn arguments_that_cannot_be_meant_are_exit_code_2() {
    for args in [
        &["--ctx", "0"][..],
        &["--isa", "mmx"],
        &["--contract", "host/9"],
        &["--port", "x"],
        &["--nonsense"],
    ] {
        let output = server(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn a_package_that_is_not_there_is_exit_code_3_with_the_reason() {
    let empty = tempfile::tempdir().unwrap();
    let folder = empty.path().to_str().unwrap();
    let output = server(&["--port", "0", "--package", folder])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("the package cannot be opened"),
        "{message}"
    );
}

#[test]
fn a_context_longer_than_the_model_allows_is_refused() {
    let output = server(&["--port", "0", "--ctx", "1000000"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("at most 4096")
    );
}

#[test]
fn a_port_that_is_taken_is_exit_code_3() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = server(&["--port", &port]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("cannot listen on")
    );
}

#[test]
fn what_was_verified_is_remembered_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo-package");
    let record = folder.path().join("verified.json");
    for _ in 0..2 {
        let (mut child, address) = ready(&[
            "--package",
            package,
            "--verified-record",
            record.to_str().unwrap(),
        ]);
        let answer = request(
            &address,
            &format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"),
        );
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        child.kill().unwrap();
        child.wait().unwrap();
        let text = std::fs::read(&record).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&text).unwrap()["files"].is_object());
    }
}
