#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod budget;
mod convert;
pub mod plan;
pub mod precision;
mod store;

pub use convert::{ConvertError, ConvertProgress, PackageIdentity, SourceModel, convert};
pub use plan::{Plan, PlanError, PlannedTensor};
pub use precision::{Override, Precision, Preset};
pub use store::{StoreError, store};
