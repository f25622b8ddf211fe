//! The Docker CLI as a child: asked for its version, run, told to stop. Never another container than the one it started.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tt_device::card::container::Container;

use crate::error::LaunchError;

/// Version of the Docker server, or the first line of why it cannot be had.
pub(crate) fn version() -> Result<String, String> {
    let output = std::process::Command::new("docker")
        .args(["version", "--format", "{{.Server.Version}}"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("docker cannot be run: {e}"))?;
    let first = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let version = first(&output.stdout);
    if output.status.success() && !version.is_empty() {
        return Ok(version);
    }
    let words = first(&output.stderr);
    Err(if words.is_empty() {
        format!("docker version ended with {}", output.status)
    } else {
        words
    })
}

/// A container that this process started in the foreground.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    id_file: PathBuf,
}

impl Running {
    /// Starts it. The child gets a process group of its own, so that Ctrl-C in a terminal reaches it through this process
    /// only, once and in order.
    pub(crate) fn start(container: &Container) -> Result<Self, LaunchError> {
        let arguments = container.run_arguments()?;
        let child = Command::new("docker")
            .args(&arguments)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(LaunchError::Docker)?;
        Ok(Self {
            child,
            id_file: container.id_file.clone(),
        })
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(&mut self) -> Result<ExitStatus, LaunchError> {
        self.child.wait().await.map_err(LaunchError::Docker)
    }

    /// Asks it to end: the CLI hands the signal on to the container's first process.
    pub(crate) fn ask_to_end(&self) {
        let pid = self
            .child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended this moment, and then there is nothing to ask.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for it to end within the grace. After that Docker is told to stop the container with this very identity.
    pub(crate) async fn end(&mut self, grace: Duration) -> Result<ExitStatus, LaunchError> {
        if let Ok(status) = timeout(grace, self.child.wait()).await {
            return status.map_err(LaunchError::Docker);
        }
        if let Some(id) = identity(&self.id_file) {
            eprintln!(
                "the container did not end within {} s; stopping it",
                grace.as_secs()
            );
            let stop = [
                OsStr::new("stop"),
                OsStr::new("--time"),
                OsStr::new("30"),
                OsStr::new(&id),
            ];
            let _ = Command::new("docker")
                .args(stop)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .await;
        }
        self.child.wait().await.map_err(LaunchError::Docker)
    }
}

/// The container's identity as Docker wrote it: 64 hexadecimal digits, or it is not one.
fn identity(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let id = text.trim();
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// The command as a shell would read it.
pub(crate) fn shell_line(program: &str, arguments: &[impl AsRef<OsStr>]) -> String {
    let quoted = arguments
        .iter()
        .map(|argument| quote(&argument.as_ref().to_string_lossy()));
    std::iter::once(program.to_owned())
        .chain(quoted)
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_line_as_the_arguments() {
        assert_eq!(shell_line("docker", &["run", "--rm"]), "docker run --rm");
        assert_eq!(
            shell_line("x", &["a b", "it's", ""]),
            r"x 'a b' 'it'\''s' ''"
        );
    }

    #[test]
    fn only_an_identity_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        assert_eq!(identity(&file), None);
        for (text, good) in [
            ("ab".repeat(32), true),
            ("ab".repeat(31), false),
            ("all".to_owned(), false),
        ] {
            std::fs::write(&file, format!("{text}\n")).unwrap();
            assert_eq!(identity(&file).is_some(), good, "{text}");
        }
    }
}
