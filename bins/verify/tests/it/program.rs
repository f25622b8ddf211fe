//! Running the program.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a run left.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The standard output, which is one JSON object.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }

    /// Kind and file of each finding.
    #[track_caller]
    pub(crate) fn findings(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let json = self.json();
        let findings = json["findings"]
            .as_array()
            .unwrap_or_else(|| panic!("no findings in {json}"));
        findings
            .iter()
            .map(|finding| (text(&finding["kind"]), text(&finding["file"])))
            .collect()
    }
}

pub(crate) fn verify<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_qwen35-verify"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
