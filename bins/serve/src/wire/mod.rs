//! What goes over the wire: request fields, answers, errors.

pub mod body;
pub mod chat;
pub mod completions;
pub mod control;
pub mod error;
pub mod lenient;
pub mod logprobs;
pub mod models;
pub mod props;
pub mod responses;
pub mod tokens;
pub mod unsupported;
pub mod usage;
