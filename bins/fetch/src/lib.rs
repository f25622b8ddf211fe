#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod args;
pub mod display;
pub mod environment;
pub mod reference;

pub use environment::SettingError;
