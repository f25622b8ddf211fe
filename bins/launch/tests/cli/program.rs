//! A folder with everything that the program sees of the world.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use misbehaving_hub::{COMMIT, Content, Hub, Repository};

pub(crate) const REPO: &str = "owner/name";

/// Longest time for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir_all(&programs).unwrap();
        fs::create_dir_all(folder.path().join("stand-in")).unwrap();
        symlink(stand_in(), programs.join("docker")).unwrap();
        // A port that was free a moment ago.
        let port = TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let world = Self {
            hub: Hub::start(),
            folder,
            port,
        };
        world.hub.put(package(COMMIT));
        world
    }

    /// Makes the machine of a tree file (`testdata/card`); its path.
    pub(crate) fn machine(&self, tree: &str) -> PathBuf {
        let root = self.folder.path().join(format!("machine-{tree}"));
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../testdata/card")
            .join(format!("{tree}.tree"));
        for line in fs::read_to_string(file)
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            if let Some((link, target)) = line.split_once(" -> ") {
                let link = root.join(link);
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink(target, link).unwrap();
            } else if let Some((path, text)) = line.split_once(" =") {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, unescape(text.strip_prefix(' ').unwrap_or(text))).unwrap();
            }
        }
        root
    }

    /// The program with nothing in its environment but this world.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qwen35-launch"));
        let path = format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display());
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.folder.path())
            .env("HF_ENDPOINT", self.hub.url());
        command
            .env("STAND_IN", self.stand_in())
            .env("TMPDIR", self.folder.path());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran {
            code: status.code(),
            out: text(stdout),
            err: text(stderr),
        }
    }

    pub(crate) fn stand_in(&self) -> PathBuf {
        self.folder.path().join("stand-in")
    }

    /// Makes the stand-in behave in a way.
    pub(crate) fn behave(&self, how: &str) {
        fs::write(self.stand_in().join(how), "").unwrap();
    }

    /// Calls of Docker so far, without those for the version.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.stand_in().join("calls")).unwrap_or_default();
        let calls = text
            .lines()
            .map(|line| serde_json::from_str::<Vec<String>>(line).unwrap());
        calls.filter(|call| call[0] != "version").collect()
    }

    /// What happened to the container.
    pub(crate) fn container_log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.stand_in().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join(".cache/qwen35-native")
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.cache().join(REPO).join(COMMIT)
    }
}

/// The example target beside this test's own program.
fn stand_in() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/docker_stand_in");
    assert!(
        path.exists(),
        "{} is built by `cargo test -p qwen35-launch`",
        path.display()
    );
    path
}

/// A small package; nothing in it can be computed with.
pub(crate) fn package(commit: &str) -> Repository {
    let files = [
        (
            "checkpoint/native-manifest.json",
            Content::from("{\"format\": \"tt-native/1\"}"),
        ),
        (
            "checkpoint/tensors/a.tensorbin",
            Content::from(vec![5; 4000]),
        ),
    ];
    Repository::package(
        REPO,
        commit,
        files.map(|(path, content)| (path.to_owned(), content)),
    )
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }
}

/// The program while it runs. Its lines are collected from both outputs.
pub(crate) struct Started {
    child: Child,
    lines: Receiver<String>,
    pub(crate) heard: Vec<String>,
}

impl Started {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let errors = sender.clone();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        thread::spawn(move || {
            BufReader::new(out)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|l| sender.send(l))
        });
        thread::spawn(move || {
            BufReader::new(err)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|l| errors.send(l))
        });
        Self {
            child,
            lines,
            heard: Vec::new(),
        }
    }

    /// Waits for a line that holds the text.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("no line with {text:?}, but:\n{}", self.heard.join("\n")),
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .unwrap();
    }

    /// Waits for the end; the exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.heard.push(line);
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, length) = match after.as_bytes()[0] {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'x' => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            other => panic!("escape {other}"),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
