//! How a fetch is shown: bars on a terminal, lines elsewhere, JSON for programs.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hf_fetch::{Event, Progress, Source};
use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// The display that fits: JSON when asked for, bars on a terminal, lines otherwise.
pub fn fitting(json: bool, no_bars: bool) -> Arc<dyn Progress> {
    if json {
        Arc::new(JsonLines)
    } else if std::io::stderr().is_terminal() && !no_bars {
        Arc::new(Bars::new())
    } else {
        Arc::new(Lines::default())
    }
}

/// One JSON object a line, on the standard output.
#[derive(Clone, Copy, Debug)]
pub struct JsonLines;

impl Progress for JsonLines {
    fn report(&self, event: &Event<'_>) {
        if let Some(object) = json_of(event) {
            // A reader that went away ends the program elsewhere.
            let _ = writeln!(std::io::stdout(), "{object}");
        }
    }
}

/// One line a finished file, on the standard error.
#[derive(Debug, Default)]
pub struct Lines(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    files: usize,
    done: usize,
}

impl Progress for Lines {
    fn report(&self, event: &Event<'_>) {
        let mut counts = lock(&self.0);
        match event {
            Event::Planned { missing_files, .. } => {
                (counts.files, counts.done) = (*missing_files, 0);
                say(&planned_text(event));
            }
            Event::FileVerified {
                path,
                bytes,
                source,
            } => {
                counts.done += 1;
                let (done, files) = (counts.done, counts.files);
                let how = source_text(*source);
                say(&format!(
                    "[{done}/{files}] {path}: {} {how}",
                    HumanBytes(*bytes)
                ));
            }
            other => {
                if let Some(text) = notice(other) {
                    say(&text);
                }
            }
        }
    }
}

/// A bar a file and one for all, with rate and time left.
#[derive(Debug)]
pub struct Bars {
    all: MultiProgress,
    state: Mutex<BarState>,
}

#[derive(Debug)]
struct BarState {
    total: ProgressBar,
    files: HashMap<String, ProgressBar>,
}

/// Files below this length get no bar of their own: it would be gone before anybody saw it.
const SMALLEST_BAR_BYTES: u64 = 1 << 20;

impl Bars {
    fn new() -> Self {
        let all = MultiProgress::new();
        let total = all.add(ProgressBar::new(0).with_style(style(
            "{msg:30!} {wide_bar} {bytes:>11}/{total_bytes:11} {bytes_per_sec:>13} {eta:>4}",
        )));
        total.set_message("total");
        Self {
            all,
            state: Mutex::new(BarState {
                total,
                files: HashMap::new(),
            }),
        }
    }
}

impl Progress for Bars {
    fn report(&self, event: &Event<'_>) {
        let mut state = lock(&self.state);
        match event {
            Event::Planned { disk_bytes, .. } => {
                state.total.set_length(*disk_bytes);
                state.total.reset_eta();
                let _ = self.all.println(planned_text(event));
            }
            Event::FileStarted { path, bytes, have } if *bytes >= SMALLEST_BAR_BYTES => {
                let bar = ProgressBar::new(*bytes).with_style(style("  {msg:28!} {wide_bar} {bytes:>11}/{total_bytes:11} {bytes_per_sec:>13} {eta:>4}"));
                let bar = self
                    .all
                    .insert_before(&state.total, bar)
                    .with_position(*have);
                bar.reset_eta();
                bar.set_message(tail(path.as_str(), 28));
                state.files.insert(path.to_string(), bar);
            }
            Event::FileAdvanced { path, bytes } => {
                state.total.inc(*bytes);
                if let Some(bar) = state.files.get(path.as_str()) {
                    bar.inc(*bytes);
                }
            }
            Event::FileRewound {
                path,
                bytes,
                reason,
            } => {
                state.total.inc_length(*bytes);
                if let Some(bar) = state.files.get(path.as_str()) {
                    bar.set_position(0);
                }
                let _ = self
                    .all
                    .println(format!("{path}: {reason}, fetching it again"));
            }
            Event::FileVerified { path, .. } => {
                if let Some(bar) = state.files.remove(path.as_str()) {
                    bar.finish_and_clear();
                }
            }
            Event::Published { .. } => state.total.finish_and_clear(),
            other => {
                if let Some(text) = notice(other) {
                    let _ = self.all.println(text);
                }
            }
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are constant; a mistake in them shows as the default bar.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The end of a path, which tells files apart better than its beginning.
fn tail(path: &str, most: usize) -> String {
    let length = path.chars().count();
    if length <= most {
        return path.to_owned();
    }
    let end: String = path.chars().skip(length - (most - 1)).collect();
    format!("…{end}")
}

fn planned_text(event: &Event<'_>) -> String {
    let Event::Planned {
        files,
        bytes,
        missing_files,
        fetch_bytes,
        copy_bytes,
        ..
    } = event
    else {
        return String::new();
    };
    if *missing_files == 0 {
        return format!("{files} files, {}: all here", HumanBytes(*bytes));
    }
    let mut text = format!(
        "{files} files, {}; {missing_files} missing, {} to fetch",
        HumanBytes(*bytes),
        HumanBytes(*fetch_bytes)
    );
    if *copy_bytes > 0 {
        text.push_str(&format!(
            ", {} from the Hugging Face cache",
            HumanBytes(*copy_bytes)
        ));
    }
    text
}

/// Things that deserve a line in every display for people.
fn notice(event: &Event<'_>) -> Option<String> {
    match event {
        Event::WaitingForLock { holder } => Some(format!(
            "waiting for {holder}, which fetches the same commit"
        )),
        Event::FileRewound { path, reason, .. } => {
            Some(format!("{path}: {reason}, fetching it again"))
        }
        Event::Retrying {
            what,
            failed,
            pause,
            reason,
        } => {
            let seconds = pause.as_secs_f64();
            Some(format!(
                "{what}: attempt {failed} failed ({reason}); again in {seconds:.1} s"
            ))
        }
        _ => None,
    }
}

fn source_text(source: Source) -> &'static str {
    match source {
        Source::HfCache => "copied and verified",
        Source::Rehashed => "verified again",
        _ => "verified",
    }
}

fn json_of(event: &Event<'_>) -> Option<Value> {
    Some(match event {
        Event::Resolved { repo, commit } => {
            json!({"event": "resolved", "repository": repo.as_str(), "commit": commit.to_string()})
        }
        Event::Planned {
            files,
            bytes,
            missing_files,
            fetch_bytes,
            copy_bytes,
            disk_bytes,
        } => json!({
            "event": "planned", "files": files, "bytes": bytes, "missing_files": missing_files,
            "fetch_bytes": fetch_bytes, "copy_bytes": copy_bytes, "disk_bytes": disk_bytes,
        }),
        Event::WaitingForLock { holder } => json!({"event": "waiting_for_lock", "holder": holder}),
        Event::FileStarted { path, bytes, have } => {
            json!({"event": "file_started", "path": path.as_str(), "bytes": bytes, "have": have})
        }
        Event::FileAdvanced { path, bytes } => {
            json!({"event": "file_advanced", "path": path.as_str(), "bytes": bytes})
        }
        Event::FileRewound {
            path,
            bytes,
            reason,
        } => {
            json!({"event": "file_rewound", "path": path.as_str(), "bytes": bytes, "reason": reason})
        }
        Event::Retrying {
            what,
            failed,
            pause,
            reason,
        } => json!({
            "event": "retrying", "what": what, "failed": failed, "pause_seconds": pause.as_secs_f64(), "reason": reason,
        }),
        Event::FileVerified {
            path,
            bytes,
            source,
        } => {
            let source = match source {
                Source::HfCache => "hf_cache",
                Source::Rehashed => "rehashed",
                _ => "hub",
            };
            json!({"event": "file_verified", "path": path.as_str(), "bytes": bytes, "source": source})
        }
        Event::Published { folder, received } => {
            json!({"event": "published", "folder": folder.display().to_string(), "received_bytes": received})
        }
        _ => return None,
    })
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_keeps_its_end() {
        assert_eq!(tail("short", 28), "short");
        let long = "checkpoint/tensors/model.layers.31.mlp.down_proj.weight.tensorbin";
        let shown = tail(long, 28);
        assert_eq!(shown.chars().count(), 28);
        assert!(shown.ends_with("weight.tensorbin"));
    }

    #[test]
    fn json_events_name_themselves() {
        let event = Event::WaitingForLock { holder: "pid 1" };
        assert_eq!(
            json_of(&event).unwrap().to_string(),
            r#"{"event":"waiting_for_lock","holder":"pid 1"}"#
        );
    }
}
