//! What the engine thread is doing, for `/health` and `/slots`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Where the engine stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The package is being opened.
    Loading(LoadProgress),
    /// Requests are answered.
    Ready,
    /// The package could not be opened, and will not be.
    Failed(String),
    /// The server is going down.
    Stopping,
}

/// How far loading has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LoadProgress {
    /// What is being done: `verify`, `load`, `warm-up`.
    pub phase: String,
    /// Done of it, in units of the phase.
    pub done: u64,
    /// All of it.
    pub total: u64,
}

impl LoadProgress {
    /// The beginning of a phase whose size is not known.
    #[must_use]
    pub fn phase(name: &str) -> Self {
        Self {
            phase: name.to_owned(),
            done: 0,
            total: 0,
        }
    }
}

/// The one slot: which request runs, and how far it has come.
#[derive(Debug, Default)]
pub struct Activity {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    task: Option<String>,
    arrived: Option<Instant>,
    counts: Counts,
    requests: u64,
    busy: Duration,
}

/// Tokens of the request that runs, or of the last one that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of those, the ones whose state was still there.
    pub cached: usize,
    /// Of those, the ones whose state is there now.
    pub prefilled: usize,
    /// Tokens generated.
    pub decoded: usize,
}

/// A look at the slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The request that runs.
    pub task: Option<String>,
    /// Its tokens, or those of the last one.
    pub counts: Counts,
    /// Requests that ran so far.
    pub requests: u64,
}

impl Activity {
    /// Looks at the slot.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        Snapshot {
            task: state.task.clone(),
            counts: state.counts,
            requests: state.requests,
        }
    }

    /// How long a request takes on average; `None` before the first has ended.
    pub fn mean_request(&self) -> Option<Duration> {
        let state = self.lock();
        let ended = state.requests - u64::from(state.task.is_some());
        let ended = u32::try_from(ended).unwrap_or(u32::MAX);
        state.busy.checked_div(ended)
    }

    pub(super) fn take(&self, task: &str) {
        let mut state = self.lock();
        state.task = Some(task.to_owned());
        state.arrived = Some(Instant::now());
        state.counts = Counts::default();
        state.requests += 1;
    }

    pub(super) fn release(&self) {
        let mut state = self.lock();
        state.task = None;
        if let Some(began) = state.arrived.take() {
            state.busy += began.elapsed();
        }
    }

    pub(super) fn began(&self, prompt: usize, cached: usize) {
        self.lock().counts = Counts {
            prompt,
            cached,
            prefilled: cached,
            decoded: 0,
        };
    }

    pub(super) fn prefilled(&self, tokens: usize) {
        self.lock().counts.prefilled = tokens;
    }

    pub(super) fn decoded(&self, tokens: usize) {
        self.lock().counts.decoded = tokens;
    }

    // Every change is one assignment, so a poisoned lock guards nothing broken.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
