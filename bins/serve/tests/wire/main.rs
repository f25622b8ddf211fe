//! What goes over the wire, against an engine that plays a script.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where by its panic"
)]

mod boundary;
mod cancel;
mod chat;
mod client;
mod completions;
mod errors;
mod harness;
mod info;
mod logprobs;
mod queue;
mod reasoning;
mod reference;
mod responses;
mod scripted;
mod stop;
mod stream;
mod structured;
mod tools;
