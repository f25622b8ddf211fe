//! Contract `tensix/1`: what the Blackhole matrix unit would compute, bit for bit.
//!
//! [`definition`] is the contract in plain scalar Rust; [`MatrixUnit`] computes the same bits with
//! integer SIMD on all threads of the current rayon pool. [`packing`] holds the device's own
//! rules for making and reading bytes, which differ from the host's encoder.
//!
//! ```
//! use tt_device::tensix::{Accumulate, Fidelity, MatmulShape, MatrixUnit};
//!
//! let unit = MatrixUnit { fidelity: Fidelity::HiFi2, accumulate: Accumulate::F32 };
//! let shape = MatmulShape { m: 1, k: 2, n: 1 };
//! let mut out = [0.0];
//! unit.matmul(&[1.0, 3.0], &[0.5, -2.0], shape, &mut out);
//! assert_eq!(out, [-5.5]);
//! ```
//!
//! # Where the rules come from
//!
//! tenstorrent/tt-isa-documentation `WormholeB0/TensixTile/TensixCoprocessor/{MVMUL,SrcASrcB}.md`
//! (which mantissa bits a phase reads), tenstorrent/tt-llk `llk_math_matmul.h` (order of phases and
//! faces), and the vendor's simulator tenstorrent/ttsim v1.10.0 (commit 56694c8), `src/tensix.cpp`
//! (alignment and rounding). The golden data are ttnn 0.77 on that simulator. No silicon was used.
//!
//! # What is not modelled
//!
//! One block over k: partial results that a kernel spills to memory and reloads, and
//! `packer_l1_acc`, add roundings that depend on its blocking. Wormhole's renormalisation of -1,
//! stochastic rounding, TF32, FP16 and integer operands are left out.

mod activations;
pub mod definition;
#[allow(
    unsafe_code,
    reason = "kernels call functions of instruction sets that they have detected, and load vectors"
)]
mod kernels;
mod linear;
mod matrix_unit;
pub mod packing;
mod settings;
mod weights;

pub use kernels::Kernel;
pub use linear::{CONTRACT, LinearSettings, ResultFormat};
pub use matrix_unit::{Columns, MatmulShape, MatrixUnit};
pub use packing::ActivationFormat;
pub use settings::{Accumulate, Fidelity, Phase, UnknownSetting};
pub use weights::Weights;
