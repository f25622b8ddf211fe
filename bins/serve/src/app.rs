//! What every request handler sees: the configuration, the engine's seat, and the ids of requests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::config::Config;
use crate::generate::engine_thread::EngineSeat;
use crate::generate::job::{Event, Job, Run};
use crate::generate::queue::Refused;
use crate::generate::status::Status;
use crate::model::Model;
use crate::wire::error::ApiError;

/// State of the server.
#[derive(Debug)]
pub struct App {
    /// As it was started.
    pub config: Config,
    /// The engine's seat.
    pub seat: Arc<EngineSeat>,
    // Makes ids unique over restarts.
    boot: u64,
    requests: AtomicU64,
    // Fields of requests that nobody reads, told once each.
    ignored: Mutex<BTreeSet<String>>,
}

/// Ignored fields that are remembered; more are ignored without a word, so that a client cannot fill the memory.
const IGNORED_FIELDS: usize = 256;

impl App {
    /// A server that was just started.
    #[must_use]
    pub fn new(config: Config, seat: Arc<EngineSeat>) -> Self {
        Self {
            config,
            seat,
            boot: rand::random(),
            requests: AtomicU64::new(0),
            ignored: Mutex::default(),
        }
    }

    /// The model, if requests can be answered now.
    ///
    /// # Errors
    /// While it loads, when it could not be loaded, and when the server is stopping.
    pub fn model(&self) -> Result<Arc<Model>, ApiError> {
        match self.seat.status() {
            Status::Ready => {}
            Status::Stopping => return Err(ApiError::Stopping),
            Status::Loading(_) | Status::Failed(_) => return Err(ApiError::Loading),
        }
        self.seat.model.get().cloned().ok_or(ApiError::Loading)
    }

    /// The name under which the model is announced.
    #[must_use]
    pub fn served_name(&self, model: &Model) -> String {
        let given = self.config.names.served.first();
        given.unwrap_or(&model.about.model).clone()
    }

    /// Refuses a model that is not served here. Names are compared without regard to case.
    ///
    /// # Errors
    /// [`ApiError::UnknownModel`].
    pub fn check_model_name(&self, model: &Model, asked: Option<&str>) -> Result<(), ApiError> {
        let Some(asked) = asked.filter(|_| !self.config.names.accept_any) else {
            return Ok(());
        };
        let mut known = self.config.names.served.iter().chain([&model.about.model]);
        if known.any(|name| name.eq_ignore_ascii_case(asked)) {
            return Ok(());
        }
        Err(ApiError::UnknownModel {
            model: asked.to_owned(),
            served: self.served_name(model),
        })
    }

    /// An id that no other answer has.
    pub fn new_id(&self, prefix: &str) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{:016x}{number:08x}", self.boot)
    }

    /// Puts a request in the queue.
    ///
    /// # Errors
    /// When the queue is full or closed.
    pub fn submit(
        &self,
        id: &str,
        runs: Vec<Run>,
        arrived: Instant,
    ) -> Result<UnboundedReceiver<Event>, ApiError> {
        let (events, receiver) = mpsc::unbounded_channel();
        let time_limit = self.config.limits.request_time;
        let job = Job {
            id: id.to_owned(),
            runs,
            events,
            arrived,
            deadline: arrived + time_limit,
            time_limit,
        };
        match self.seat.queue.push(job) {
            Ok(()) => Ok(receiver),
            Err(Refused::Closed { .. }) => Err(ApiError::Stopping),
            Err(Refused::Full { waiting, .. }) => Err(ApiError::QueueFull {
                waiting,
                retry_after: self.retry_after(waiting),
            }),
        }
    }

    /// Logs fields that nobody reads, each once in the server's life.
    pub fn note_ignored(&self, route: &str, fields: BTreeSet<String>) {
        for field in fields {
            let mut ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
            if ignored.len() < IGNORED_FIELDS && ignored.insert(field.clone()) {
                tracing::warn!(route, field, "request field is ignored");
            }
        }
    }

    /// When a place in the queue is likely: when those that wait have had their turn, at the pace so far.
    fn retry_after(&self, waiting: usize) -> Duration {
        let pace = self
            .seat
            .activity
            .mean_request()
            .unwrap_or(Duration::from_secs(1));
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        pace.saturating_mul(waiting.max(1))
            .clamp(Duration::from_secs(1), Duration::from_secs(60))
    }
}
