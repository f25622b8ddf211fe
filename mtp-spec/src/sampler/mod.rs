mod chain;
mod config;
mod distribution;
mod select;

pub use chain::{RowError, Sampler};
pub use config::{ConfigError, SamplerConfig};
pub use distribution::Distribution;

pub(crate) use distribution::mass;
pub(crate) use select::{Candidate, argmax, largest};
