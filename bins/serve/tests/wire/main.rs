//! What goes over the wire, against an engine that plays a script.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_pass_by_value,
    reason = "the numbers of a test are small, and its helpers take values as they are written"
)]
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
