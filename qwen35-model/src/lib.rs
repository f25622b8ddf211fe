#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod config;
mod error;
pub mod names;
pub mod sequence;
pub mod text;
pub mod trunk;
pub mod weights;

pub use config::{LayerKind, ModelConfig};
pub use error::ModelError;
pub use trunk::Model;
