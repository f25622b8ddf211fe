#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod config;
pub mod engine;
mod error;
pub mod names;
pub mod package;
pub mod sequence;
pub mod session;
pub mod tensors;
pub mod text;
pub mod trunk;
pub mod weights;

pub use config::{LayerKind, ModelConfig};
pub use engine::{Engine, EngineAbout, EngineError, EngineOptions, Generation, LocalEngine};
pub use error::ModelError;
pub use session::{MtpDrafter, Session, SessionOptions};
pub use trunk::Model;
