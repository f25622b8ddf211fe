//! The definition of contract `host/1`, in plain scalar Rust.
//!
//! This is the judge: it is written to be read beside the papers, not to be fast, and every fast
//! path of [`crate::cpu`] is tested to give the same bits. It is also what runs when the scalar
//! instruction set is chosen.

pub mod attention;
pub mod convolution;
pub mod delta;
pub mod elementwise;
pub mod linear;
pub mod math;
pub mod norm;
pub mod rope;
pub mod sum;
