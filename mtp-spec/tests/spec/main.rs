//! What this crate claims, checked from outside over a small Markov target: no tensor, every claim exact.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail as its tests do")]

mod chain;
mod coupled;
mod drafters;
mod enumeration;
mod guard;
mod markov;
mod masks;
mod naive;
mod requests;
mod walk;
