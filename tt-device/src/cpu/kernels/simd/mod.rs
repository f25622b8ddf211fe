//! Kernels written once over sixteen lanes, for every vector instruction set.
//!
//! [`Simd`] is the set of lane operations they need. Each instruction set gives a token that can
//! only be made where it was detected, so that the operations are safe to call; the functions here
//! are inlined into wrappers that enable the instruction set (`super::x86_64`).

#![expect(
    clippy::needless_range_loop,
    reason = "registers are arrays that several of them are indexed in step"
)]

pub(super) mod attention;
pub(super) mod convolution;
pub(super) mod delta;
pub(super) mod elementwise;
pub(super) mod lanes;
pub(super) mod linear;
pub(super) mod math;
pub(super) mod norm;
pub(super) mod tile;

pub(super) use lanes::{Kernel, LANES, Simd, UNIT_OFFSET};
