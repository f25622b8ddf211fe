//! The real program, with a Hub on loopback, machines that are folders, and a stand-in for the Docker CLI.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod card;
mod cpu;
mod doctor;
mod fetching;
mod program;
