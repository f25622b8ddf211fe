//! Tables, JSON, and the progress of a conversion.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use qwen35_quantize::{ConvertProgress, Plan, Precision};

pub(crate) fn print_plan(plan: &Plan) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let width = plan
        .tensors
        .iter()
        .map(|tensor| tensor.name.len())
        .max()
        .unwrap_or(0);
    writeln!(
        out,
        "{:width$}  {:>16}  {:6}  {:>13}  why",
        "tensor", "shape", "stored", "bytes"
    )?;
    for tensor in &plan.tensors {
        let shape = tensor
            .shape
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("x");
        let (name, precision, bytes, why) = (
            &tensor.name,
            tensor.precision.name(),
            tensor.file_bytes,
            &tensor.why,
        );
        writeln!(
            out,
            "{name:width$}  {shape:>16}  {precision:6}  {bytes:>13}  {why}"
        )?;
    }
    writeln!(out)?;
    for (precision, (count, bytes)) in plan.by_precision() {
        writeln!(out, "{precision:6}  {count:>4} tensors  {bytes:>14} bytes")?;
    }
    writeln!(
        out,
        "mtp     {:>4} tensors  {:>14} bytes",
        plan.mtp.len(),
        plan.mtp_bytes
    )?;
    writeln!(
        out,
        "total   {:>4} tensors  {:>14} bytes",
        plan.tensors.len() + plan.mtp.len(),
        plan.package_bytes()
    )?;
    Ok(())
}

pub(crate) fn print_plan_json(plan: &Plan) -> Result<()> {
    let by_precision: serde_json::Map<_, _> = plan
        .by_precision()
        .into_iter()
        .map(|(name, (tensors, bytes))| {
            (
                name.to_owned(),
                serde_json::json!({ "tensors": tensors, "bytes": bytes }),
            )
        })
        .collect();
    let json = serde_json::json!({
        "target_tensors": plan.tensors.len(),
        "mtp_tensors": plan.mtp.len(),
        "package_bytes": plan.package_bytes(),
        "target_bytes": plan.tensor_bytes(),
        "mtp_bytes": plan.mtp_bytes,
        "by_precision": by_precision,
        "tensors": plan.tensors,
    });
    println!("{json:#}");
    Ok(())
}

/// A bar with rate and time left on a terminal, a line now and then elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Bar {
    state: Mutex<Option<Shown>>,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines { total: u64, done: u64, told: u64 },
}

impl Bar {
    fn shown(&self) -> MutexGuard<'_, Option<Shown>> {
        // What is shown has no state that a panic could break.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn finish(&self) {
        if let Some(Shown::Bar(bar)) = &*self.shown() {
            bar.finish_and_clear();
        }
    }
}

impl ConvertProgress for Bar {
    fn started(&self, bytes: u64) {
        let shown = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(bytes);
            let template = "{bytes}/{total_bytes} {bytes_per_sec} {eta} left  {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            Shown::Bar(bar)
        } else {
            Shown::Lines {
                total: bytes,
                done: 0,
                told: 0,
            }
        };
        *self.shown() = Some(shown);
    }

    fn tensor(&self, name: &str, precision: Precision) {
        if let Some(Shown::Bar(bar)) = &*self.shown() {
            bar.set_message(format!("{name} as {precision}"));
        }
    }

    fn advanced(&self, bytes: u64) {
        match &mut *self.shown() {
            Some(Shown::Bar(bar)) => bar.inc(bytes),
            Some(Shown::Lines { total, done, told }) => {
                *done += bytes;
                // A line for each tenth.
                let tenth = *done * 10 / (*total).max(1);
                if tenth > *told {
                    *told = tenth;
                    eprintln!("{done} of {total} bytes of source");
                }
            }
            None => {}
        }
    }
}
