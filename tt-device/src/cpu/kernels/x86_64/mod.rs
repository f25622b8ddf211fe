//! x86-64: one token and one table for each instruction set.
//!
//! A token is the proof that an instruction set is present: it is made by a function that enables
//! the set, so safe code can only hold one where the caller has vouched for it, and the one place that
//! vouches is the table, which [`super::table`] hands out after detection.

#[macro_use]
mod table;
mod avx2;
mod avx512;
mod avx512_bf16;

pub(super) static AVX2: super::Kernels = avx2::KERNELS;
pub(super) static AVX512: super::Kernels = avx512::KERNELS;
pub(super) static AVX512_BF16: super::Kernels = avx512_bf16::KERNELS;
pub(super) use avx512_bf16::prefers_dot;
