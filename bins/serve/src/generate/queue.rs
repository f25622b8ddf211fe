//! The queue in front of the engine: first in, first out, and bounded.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something that can wait in a [`JobQueue`].
pub trait Waiting {
    /// Whether nobody wants it any more, so that its place can go to another.
    fn is_abandoned(&self) -> bool;
}

/// A bounded first-in-first-out queue between request handlers and the one engine thread.
#[derive(Debug)]
pub struct JobQueue<J> {
    shared: Arc<Shared<J>>,
}

impl<J> Clone for JobQueue<J> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Why a job was not taken; the job comes back.
#[derive(Debug)]
pub enum Refused<J> {
    /// As many wait as may.
    Full {
        /// The job.
        job: J,
        /// How many wait.
        waiting: usize,
    },
    /// The queue takes no more jobs.
    Closed {
        /// The job.
        job: J,
    },
}

#[derive(Debug)]
struct Shared<J> {
    state: Mutex<State<J>>,
    arrived: Condvar,
    capacity: usize,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<J>,
    // The engine thread waits for a job, so one more than `capacity` may come in.
    idle: bool,
    closed: bool,
}

impl<J: Waiting> JobQueue<J> {
    /// A queue in which up to `capacity` jobs wait behind the one that runs.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    jobs: VecDeque::new(),
                    idle: false,
                    closed: false,
                }),
                arrived: Condvar::new(),
                capacity,
            }),
        }
    }

    /// Puts a job at the end. Abandoned jobs lose their place first.
    ///
    /// # Errors
    /// When the queue is full or closed.
    pub fn push(&self, job: J) -> Result<(), Refused<J>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refused::Closed { job });
        }
        let places = self.shared.capacity + usize::from(state.idle);
        if state.jobs.len() >= places {
            state.jobs.retain(|waiting| !waiting.is_abandoned());
        }
        if state.jobs.len() >= places {
            let waiting = state.jobs.len();
            return Err(Refused::Full { job, waiting });
        }
        state.jobs.push_back(job);
        drop(state);
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// Takes the job that waited longest, and waits for one when there is none. `None` once the queue is closed and
    /// empty.
    pub fn pop(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.idle = false;
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle = true;
            state = self
                .shared
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more jobs. Those that wait are still handed out.
    pub fn close(&self) {
        self.lock().closed = true;
        self.shared.arrived.notify_all();
    }

    /// Takes no more jobs and returns those that wait.
    pub fn drain(&self) -> Vec<J> {
        let mut state = self.lock();
        state.closed = true;
        let jobs = state.jobs.drain(..).collect();
        drop(state);
        self.shared.arrived.notify_all();
        jobs
    }

    /// How many jobs wait, those that nobody wants any more left out.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let state = self.lock();
        let wanted = state.jobs.iter().filter(|job| !job.is_abandoned());
        wanted.count()
    }

    // A panic while the lock was held cannot leave the deque half changed, so the poison is of no interest.
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[derive(Debug)]
    struct Job {
        number: u32,
        abandoned: Arc<AtomicBool>,
    }

    impl Waiting for Job {
        fn is_abandoned(&self) -> bool {
            self.abandoned.load(Ordering::SeqCst)
        }
    }

    fn job(number: u32) -> Job {
        Job {
            number,
            abandoned: Arc::default(),
        }
    }

    #[test]
    fn jobs_come_out_in_the_order_in_which_they_went_in() {
        let queue = JobQueue::new(3);
        for number in 0..3 {
            queue.push(job(number)).unwrap();
        }
        queue.close();
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop().map(|j| j.number)).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn a_full_queue_gives_the_job_back_and_says_how_many_wait() {
        let queue = JobQueue::new(2);
        queue.push(job(0)).unwrap();
        queue.push(job(1)).unwrap();
        let Err(Refused::Full { job, waiting }) = queue.push(job(2)) else {
            panic!("the queue was full");
        };
        assert_eq!((job.number, waiting), (2, 2));
    }

    #[test]
    fn an_abandoned_job_gives_up_its_place() {
        let queue = JobQueue::new(1);
        let leaving = job(0);
        let left = Arc::clone(&leaving.abandoned);
        queue.push(leaving).unwrap();
        assert!(queue.push(job(1)).is_err());
        left.store(true, Ordering::SeqCst);
        assert_eq!(queue.waiting(), 0);
        queue.push(job(2)).unwrap();
        assert_eq!(queue.pop().unwrap().number, 2);
    }

    #[test]
    fn a_queue_without_places_still_serves_an_idle_engine() {
        let queue = JobQueue::new(0);
        assert!(queue.push(job(0)).is_err(), "no engine waits yet");
        let engine = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop().map(|j| j.number))
        };
        let mut next = job(1);
        while let Err(refused) = queue.push(next) {
            let Refused::Full { job, .. } = refused else {
                panic!("the queue is open");
            };
            next = job;
            thread::yield_now();
        }
        assert_eq!(engine.join().unwrap(), Some(1));
        assert!(queue.push(job(2)).is_err(), "the engine is busy now");
    }

    #[test]
    fn closing_wakes_the_engine_and_refuses_new_jobs() {
        let queue: JobQueue<Job> = JobQueue::new(1);
        let engine = {
            let queue = queue.clone();
            thread::spawn(move || queue.pop().is_none())
        };
        queue.close();
        assert!(engine.join().unwrap());
        assert!(matches!(queue.push(job(0)), Err(Refused::Closed { .. })));
    }

    #[test]
    fn draining_returns_those_that_wait() {
        let queue = JobQueue::new(2);
        queue.push(job(0)).unwrap();
        queue.push(job(1)).unwrap();
        assert_eq!(queue.drain().len(), 2);
        assert!(queue.pop().is_none());
    }
}
