//! The real program against a Hub on loopback.

mod commands;
mod kills;
mod program;
mod users;
