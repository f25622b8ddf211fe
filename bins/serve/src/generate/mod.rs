//! From a checked request to tokens: jobs, their queue, and the one thread that owns the engine.

pub mod constraint;
pub mod engine_thread;
pub mod job;
pub mod queue;
mod recheck;
mod run;
pub mod status;
