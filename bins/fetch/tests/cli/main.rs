//! The real program against a Hub on loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod commands;
mod kills;
mod program;
mod users;
