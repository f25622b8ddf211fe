//! The real program, run on good and bad input.

#![expect(clippy::unwrap_used, reason = "in a test, the panic is the message")]

mod images;
mod packages;
mod program;
