//! The one thread that owns the engine: it computes and never awaits.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use tokio::sync::watch;

use super::job::{EndCause, Event, Job};
use super::queue::JobQueue;
use super::run::{RunError, Surroundings, run};
use super::status::{Activity, LoadProgress, Status};
use crate::metrics::{Metrics, Outcome};
use crate::model::{Model, ModelText};
use crate::wire::error::ApiError;
use mtp_spec::{RowError, SpecError};
use qwen35_model::engine::{Engine, EngineError};

/// An engine and the text half of its package.
#[derive(Debug)]
pub struct Opened {
    /// Computes.
    pub engine: Box<dyn Engine>,
    /// Knows texts.
    pub text: ModelText,
}

/// Opens a package; called again when the engine has panicked, so that a request never meets the remains of another.
pub type OpenEngine =
    Box<dyn FnMut(&mut dyn FnMut(LoadProgress)) -> Result<Opened, OpenError> + Send>;

/// Why a package could not be opened.
pub type OpenError = Box<dyn Error + Send + Sync>;

/// What the engine thread shares with the request handlers.
pub struct EngineSeat {
    /// Requests that wait.
    pub queue: JobQueue<Job>,
    /// The model, once it is loaded.
    pub model: OnceLock<Arc<Model>>,
    /// What runs.
    pub activity: Activity,
    /// What ran.
    pub metrics: Metrics,
    status: watch::Sender<Status>,
    abort: AtomicBool,
    recheck: bool,
}

impl EngineSeat {
    /// A seat in which up to `waiting` requests wait. With `recheck` each generation that began from a saved prefix is
    /// computed again from nothing and compared.
    #[must_use]
    pub fn new(waiting: usize, recheck: bool) -> Self {
        Self {
            queue: JobQueue::new(waiting),
            model: OnceLock::new(),
            activity: Activity::default(),
            metrics: Metrics::default(),
            status: watch::Sender::new(Status::Loading(LoadProgress::phase("load"))),
            abort: AtomicBool::new(false),
            recheck,
        }
    }

    /// Where the engine stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Tells of every change of the status.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Takes no more requests. What waits and what runs goes on.
    pub fn close(&self) {
        self.set(Status::Stopping);
        self.queue.close();
    }

    /// Ends what runs at its next check, and what waits at once.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        for job in self.queue.drain() {
            fail(&job, ApiError::Stopping);
        }
    }

    fn set(&self, status: Status) {
        self.status.send_if_modified(|current| {
            // Stopping is final, and so is a failure until then.
            if *current == Status::Stopping || *current == status {
                return false;
            }
            *current = status;
            true
        });
    }
}

impl fmt::Debug for EngineSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineSeat")
            .field("status", &self.status())
            .field("waiting", &self.queue.waiting())
            .finish_non_exhaustive()
    }
}

/// Starts the engine thread. It ends when the queue is closed and empty, or when the package cannot be opened.
///
/// # Errors
/// When the system has no thread left.
pub fn spawn(
    mut open: OpenEngine,
    seat: Arc<EngineSeat>,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("engine".into()).spawn(move || {
        while let Some(engine) = open_engine(&mut open, &seat) {
            if serve(engine, &seat) == Ended::QueueClosed {
                return;
            }
            seat.set(Status::Loading(LoadProgress::phase("restart")));
        }
        seat.queue.close();
        for job in seat.queue.drain() {
            fail(&job, ApiError::Loading);
        }
    })
}

fn open_engine(open: &mut OpenEngine, seat: &EngineSeat) -> Option<Box<dyn Engine>> {
    let mut report = |progress| seat.set(Status::Loading(progress));
    let opened = catch_unwind(AssertUnwindSafe(|| open(&mut report)));
    let failure = match opened {
        Ok(Ok(Opened { engine, text })) => {
            seat.model
                .get_or_init(|| Arc::new(Model::new(engine.about().clone(), text)));
            seat.set(Status::Ready);
            return Some(engine);
        }
        Ok(Err(error)) => describe(&*error),
        Err(_) => "opening the package panicked".to_owned(),
    };
    tracing::error!(error = failure, "the package cannot be opened");
    seat.set(Status::Failed(failure));
    None
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    QueueClosed,
    Panicked,
}

fn serve(mut engine: Box<dyn Engine>, seat: &EngineSeat) -> Ended {
    while let Some(job) = seat.queue.pop() {
        seat.activity.take(&job.id);
        let (events, id) = (job.events.clone(), job.id.clone());
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut *engine, job, seat)));
        seat.activity.release();
        if outcome.is_err() {
            tracing::error!(id, "a request panicked; the engine is opened anew");
            seat.metrics.ended(Outcome::Failed);
            drop(events.send(Event::Failed(ApiError::Internal { id })));
            // Its own destructor may meet the broken state as well.
            drop(catch_unwind(AssertUnwindSafe(|| drop(engine))));
            return Ended::Panicked;
        }
    }
    Ended::QueueClosed
}

fn work(engine: &mut dyn Engine, job: Job, seat: &EngineSeat) {
    let Some(model) = seat.model.get() else {
        return fail(&job, ApiError::Loading);
    };
    let span = tracing::info_span!("request", id = job.id);
    let _entered = span.enter();
    let began = Instant::now();
    let queued = began - job.arrived;
    seat.metrics.queued(queued);
    let around = Surroundings {
        tokenizer: &model.text.tokenizer,
        events: &job.events,
        arrived: job.arrived,
        queued,
        deadline: job.deadline,
        abort: &seat.abort,
        recheck: seat.recheck,
        activity: &seat.activity,
        metrics: &seat.metrics,
    };
    let mut outcome = Outcome::Answered;
    for generation in job.runs {
        match run(engine, &generation, around) {
            Ok((cause, cost)) => {
                if cause == EndCause::Length {
                    outcome = Outcome::Limited;
                }
                seat.metrics.generation(&cost);
                tracing::info!(
                    prompt = cost.prompt_tokens,
                    cached = cost.cached_tokens,
                    tokens = cost.emitted_tokens,
                    drafted = cost.drafted,
                    accepted = cost.accepted,
                    prefill_ms = cost.prefill.as_millis(),
                    decode_ms = cost.decode.as_millis(),
                    "generated"
                );
            }
            Err(error) => {
                let (outcome, told) = match &error {
                    RunError::Abandoned => (Outcome::Cancelled, None),
                    RunError::TimedOut => (
                        Outcome::Failed,
                        Some(ApiError::TimedOut {
                            limit: job.time_limit,
                        }),
                    ),
                    RunError::Stopping => (Outcome::Cancelled, Some(ApiError::Stopping)),
                    RunError::Engine(cause) => (Outcome::Failed, Some(api_error(cause, &job.id))),
                };
                tracing::warn!(error = describe(&error), "ended early");
                seat.metrics.ended(outcome);
                if let Some(told) = told {
                    drop(job.events.send(Event::Failed(told)));
                }
                return;
            }
        }
    }
    seat.metrics.ended(outcome);
    seat.metrics.request(job.arrived.elapsed());
}

/// What a request could do wrong was checked before, but for what only shows while it runs.
fn api_error(error: &EngineError, id: &str) -> ApiError {
    match error {
        EngineError::Model(SpecError::Row {
            source: RowError::Nothing,
            ..
        }) => ApiError::field(
            "logit_bias",
            "no token is left to draw: what the form of the answer allows is banned",
        ),
        error if error.is_request_fault() => ApiError::field("prompt", describe(error)),
        _ => ApiError::Internal { id: id.to_owned() },
    }
}

fn fail(job: &Job, error: ApiError) {
    drop(job.events.send(Event::Failed(error)));
}

/// An error with its causes, on one line.
fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
