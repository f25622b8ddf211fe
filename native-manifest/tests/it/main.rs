//! Packages written, read, checked and spoilt.

#![expect(clippy::unwrap_used, reason = "in a test, the panic is the message")]

mod attacks;
mod demo;
mod harness;
mod proofs;
mod schema_files;
mod snapshots;
mod tampering;
mod writers;
