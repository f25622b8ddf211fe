//! Running the program in a folder and an environment of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use misbehaving_hub::Hub;

pub(crate) const REPO: &str = "owner/name";

pub(crate) struct Place {
    pub(crate) hub: Hub,
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            hub: Hub::start(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The program with nothing in its environment but this Hub and a home folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qwen35-fetch"));
        command
            .env_clear()
            .env("HF_ENDPOINT", self.hub.url())
            .env("HOME", self.folder.path());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments))
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join(".cache/qwen35-native")
    }
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(mut command: Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: status.code(),
            out: text(stdout),
            err: text(stderr),
        }
    }

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

    /// The folder that the program named last.
    pub(crate) fn folder(&self) -> &Path {
        Path::new(self.out.lines().last().unwrap())
    }
}
