//! How a check is shown while it runs: a bar on a terminal, lines elsewhere, nothing on request.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use native_manifest::Progress;

/// A display, which is taken away at the end.
pub(crate) trait Display: Progress {
    fn finished(&self) {}
}

/// The display that fits where the standard error goes.
pub(crate) fn fitting(quiet: bool) -> Box<dyn Display> {
    if quiet {
        Box::new(Nothing)
    } else if std::io::stderr().is_terminal() {
        Box::new(Bar::new())
    } else {
        Box::new(Lines::default())
    }
}

struct Nothing;

impl Progress for Nothing {}
impl Display for Nothing {}

/// Rate and time left.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let style = "{wide_bar} {bytes:>11}/{total_bytes:11} {bytes_per_sec:>13} {eta:>4}";
        let style =
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style))
    }
}

impl Progress for Bar {
    fn started(&self, _: u64, bytes: u64) {
        self.0.set_length(bytes);
        self.0.reset_eta();
    }

    fn advanced(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Display for Bar {
    fn finished(&self) {
        self.0.finish_and_clear();
    }
}

/// A line for each tenth.
#[derive(Default)]
struct Lines {
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress for Lines {
    fn started(&self, files: u64, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
        say(&format!("checking {files} files, {}", HumanBytes(bytes)));
    }

    fn advanced(&self, bytes: u64) {
        let total = self.total.load(Ordering::Relaxed).max(1);
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        let tenth = |done: u64| u128::from(done) * 10 / u128::from(total);
        let now = tenth(before + bytes);
        // Each tenth is crossed by one call, so each line comes once.
        if now > tenth(before) && now < 10 {
            say(&format!(
                "{}0 %: {} of {}",
                now,
                HumanBytes(before + bytes),
                HumanBytes(total)
            ));
        }
    }
}

impl Display for Lines {}

fn say(line: &str) {
    // Where nobody listens, nothing is lost.
    let _ = writeln!(std::io::stderr(), "{line}");
}
