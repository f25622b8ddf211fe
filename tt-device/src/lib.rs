#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod backend;
pub mod card;
pub mod cpu;
mod error;
pub mod numerics;
pub mod ops;
pub mod reference;
pub mod tensix;
pub mod weight;

pub use backend::{Backend, Element, KvShape};
pub use cpu::{Cpu, CpuBuilder, Isa};
pub use error::DeviceError;
pub use numerics::Contract;
pub use ops::{
    AttentionShape, DeltaInputs, DeltaShape, DeltaState, HeadSlice, Keep, LinearOut, Ops,
};
pub use weight::{MatrixShape, WeightFormat, WeightLayout, WeightView};
