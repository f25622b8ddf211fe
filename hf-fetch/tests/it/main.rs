//! Fetching from a Hub that misbehaves on purpose. The names of the tests say the behaviour; those with a number in their
//! comment answer a public fault report.

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
