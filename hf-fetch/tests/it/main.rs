//! Fetching from a Hub that misbehaves on purpose. The names of the tests say the behaviour; those with a number in their
//! comment answer a public fault report.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod begun;
mod caches;
mod disk;
mod harness;
mod integrity;
mod package;
mod ranges;
mod redirects;
mod retries;
mod scale;
