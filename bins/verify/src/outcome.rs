//! What came of a check, for people and for programs.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use native_manifest::{FindingClass, Report};
use serde_json::{Map, Value, json};

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Outcome {
    verdict: Verdict,
    /// What was checked, in the order it is shown.
    facts: Vec<(&'static str, String)>,
    elapsed: Duration,
}

#[derive(Debug)]
enum Verdict {
    /// The check was made; the report may have findings.
    Checked(Report),
    /// It could not be made.
    Unreadable(String),
}

impl Outcome {
    pub(crate) fn checked(report: Report) -> Self {
        Self {
            verdict: Verdict::Checked(report),
            facts: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    pub(crate) fn unreadable(error: String) -> Self {
        Self {
            verdict: Verdict::Unreadable(error),
            facts: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// The same, with one more fact about what was checked.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((name, value.into()));
        self
    }

    pub(crate) fn after(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match &self.verdict {
            Verdict::Checked(report) if report.is_clean() => ExitCode::SUCCESS,
            Verdict::Checked(_) => ExitCode::from(1),
            Verdict::Unreadable(_) => ExitCode::from(3),
        }
    }

    pub(crate) fn print(&self, json: bool, out: &mut impl Write) -> io::Result<()> {
        if json {
            return writeln!(out, "{:#}", self.json());
        }
        for (name, value) in &self.facts {
            writeln!(out, "{name:9} {value}")?;
        }
        match &self.verdict {
            Verdict::Unreadable(error) => writeln!(out, "error     {error}"),
            Verdict::Checked(report) => self.print_report(report, out),
        }
    }

    fn print_report(&self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let seconds = self.elapsed.as_secs_f64();
        write!(
            out,
            "checked   {} files, {} bytes",
            report.files, report.bytes
        )?;
        if report.tensors > 0 {
            write!(out, ", {} tensors", report.tensors)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = report.bytes as f64 / 1e9 / seconds.max(1e-9);
        writeln!(out, " in {seconds:.2} s ({rate:.2} GB/s)")?;
        for finding in &report.findings {
            writeln!(out, "finding   {finding}")?;
        }
        if report.is_clean() {
            return writeln!(out, "result    ok");
        }
        let [mismatch, missing, extra] = counts(report);
        let total = report.findings.len();
        writeln!(
            out,
            "result    refused: {total} findings ({mismatch} mismatch, {missing} missing, {extra} extra)"
        )
    }

    fn json(&self) -> Value {
        let mut object: Map<String, Value> = self
            .facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
            .collect();
        match &self.verdict {
            Verdict::Unreadable(error) => {
                object.insert("result".to_owned(), "unreadable".into());
                object.insert("error".to_owned(), error.clone().into());
            }
            Verdict::Checked(report) => {
                let result = if report.is_clean() { "ok" } else { "refused" };
                let [mismatch, missing, extra] = counts(report);
                let findings: Vec<Value> = report
                    .findings
                    .iter()
                    .map(|finding| {
                        let mut value = json!(finding);
                        value["class"] = json!(finding.kind.class());
                        value
                    })
                    .collect();
                object.insert("result".to_owned(), result.into());
                object.insert("files".to_owned(), report.files.into());
                object.insert("bytes".to_owned(), report.bytes.into());
                object.insert("tensors".to_owned(), report.tensors.into());
                object.insert("seconds".to_owned(), self.elapsed.as_secs_f64().into());
                object.insert(
                    "counts".to_owned(),
                    json!({"mismatch": mismatch, "missing": missing, "extra": extra}),
                );
                object.insert("findings".to_owned(), findings.into());
            }
        }
        object.into()
    }
}

fn counts(report: &Report) -> [usize; 3] {
    [
        FindingClass::Mismatch,
        FindingClass::Missing,
        FindingClass::Extra,
    ]
    .map(|class| report.count(class))
}
