//! Stands in for the Docker CLI in the tests: writes down how it was called, and behaves like a container when told to run.
//!
//! `STAND_IN` names its folder. Each call appends a JSON array of its arguments to `calls`. Files in the folder change what
//! it does: `unreachable` (no server), `dies` (the container ends with 3), `unhealthy` (never ready), `stubborn` (does not
//! end on SIGTERM, only when `docker stop` names it). `log` tells what happened to the container.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// What Docker would have written to the file of the identity.
const ID: &str = "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e";

fn main() {
    let folder = PathBuf::from(std::env::var_os("STAND_IN").expect("STAND_IN names the folder"));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    append(&folder, "calls", &serde_json::json!(arguments).to_string());
    match arguments.first().map(String::as_str) {
        Some("version") if folder.join("unreachable").exists() => {
            eprintln!(
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?"
            );
            exit(1);
        }
        Some("version") => println!("28.2.2"),
        Some("run") => run(&folder, &arguments),
        Some("stop") => stop(
            &folder,
            arguments.last().map(String::as_str).unwrap_or_default(),
        ),
        other => panic!("not a call that the launcher makes: {other:?}"),
    }
}

fn append(folder: &Path, name: &str, line: &str) {
    let mut file = fs::File::options()
        .append(true)
        .create(true)
        .open(folder.join(name))
        .expect("a log");
    writeln!(file, "{line}").expect("a line");
}

fn after<'a>(arguments: &'a [String], name: &str) -> &'a str {
    let at = arguments
        .iter()
        .position(|argument| argument == name)
        .expect("the argument");
    &arguments[at + 1]
}

fn run(folder: &Path, arguments: &[String]) {
    fs::write(after(arguments, "--cidfile"), ID).expect("the identity");
    fs::write(folder.join("pid"), std::process::id().to_string()).expect("the pid");
    if folder.join("dies").exists() {
        eprintln!("container: no device");
        exit(3);
    }
    let port = after(arguments, "--publish")
        .split(':')
        .nth(1)
        .expect("a port");
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).expect("the port");
    let healthy = !folder.join("unhealthy").exists();
    std::thread::spawn(move || answer(&listener, healthy));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).expect("a signal");
        let mut interrupt = signal(SignalKind::interrupt()).expect("a signal");
        append(folder, "log", "started");
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            append(folder, "log", name);
            if !folder.join("stubborn").exists() || folder.join("stopped").exists() {
                break;
            }
        }
        append(folder, "log", "closed the card");
    });
}

/// 503 with a phase at first, then 200; always 503 when it is not healthy.
fn answer(listener: &TcpListener, healthy: bool) {
    for (count, stream) in listener.incoming().enumerate() {
        let Ok(mut stream) = stream else { continue };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        let (status, body) = match healthy && count >= 2 {
            true => ("200 OK", r#"{"status":"ok"}"#),
            false => (
                "503 Service Unavailable",
                r#"{"error":{"message":"Loading model"},"loading":{"phase":"load","done":1,"total":2}}"#,
            ),
        };
        let length = body.len();
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
    }
}

/// Ends the container that has this identity, as Docker would: the others it does not know.
fn stop(folder: &Path, id: &str) {
    assert_eq!(id, ID, "another container was to be stopped");
    fs::write(folder.join("stopped"), "").expect("a mark");
    let pid = fs::read_to_string(folder.join("pid")).expect("the pid");
    Command::new("kill")
        .args(["-TERM", &pid])
        .status()
        .expect("a signal");
}
