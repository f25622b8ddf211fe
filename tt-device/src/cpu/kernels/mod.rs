//! The arithmetic of each instruction set, behind one table of functions.
//!
//! A table is picked once, when the device opens. Every function of every table computes exactly
//! what its namesake in [`crate::reference`] defines.

mod scalar;
#[cfg(target_arch = "x86_64")]
mod simd;
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "intrinsics of an instruction set are safe only where it is present"
)]
mod x86_64;

use crate::Contract;
use crate::cpu::isa::Isa;
use crate::cpu::memory::HostKv;
use crate::weight::{MatrixShape, WeightFormat};

/// Inputs that lie side by side for all rows: see [`Activations`].
pub(crate) const BLOCK: usize = 128;

/// Rows of activations, rounded as the contract says: `[blocks of 128 inputs, rows, 128]`, with
/// zeros past the last input. So the inputs that a tile meets are one cache line run a row, whatever
/// the width of a row is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activations<'a> {
    pub(crate) rows: usize,
    pub(crate) x: &'a [[f32; BLOCK]],
}

impl<'a> Activations<'a> {
    /// Inputs `128 block..` of all rows.
    pub(crate) fn block(&self, block: usize) -> &'a [[f32; BLOCK]] {
        &self.x[block * self.rows..][..self.rows]
    }
}

/// One thread's share of a linear: whole tile columns, all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearPart<'a> {
    pub(crate) contract: Contract,
    pub(crate) x: Activations<'a>,
    /// All bytes of the matrix.
    pub(crate) tiles: &'a [u8],
    pub(crate) shape: MatrixShape,
    pub(crate) format: WeightFormat,
    pub(crate) first_tile_column: usize,
    /// Outputs of this part; a multiple of 32 except at the right edge.
    pub(crate) width: usize,
}

/// One value head of the delta rule over the rows of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaHead<'a> {
    /// Normed queries and keys, `[rows, key_dim]`.
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    /// Row r's value is `v[r * v_stride..][..value_dim]`.
    pub(crate) v: &'a [f32],
    pub(crate) v_stride: usize,
    pub(crate) decay: &'a [f32],
    pub(crate) beta: &'a [f32],
    pub(crate) key_dim: usize,
    pub(crate) value_dim: usize,
}

/// Consecutive query rows, and of each the heads that share a key/value head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttendGroup<'a> {
    /// Row r's heads are `q[r * q_stride..][..heads * head_dim]`.
    pub(crate) q: &'a [f32],
    pub(crate) q_stride: usize,
    /// Query rows.
    pub(crate) queries: usize,
    /// Query heads of a row.
    pub(crate) heads: usize,
    pub(crate) kv: &'a HostKv,
    pub(crate) kv_head: usize,
    /// Stored rows that the first query row sees; each later one sees one more.
    pub(crate) visible: usize,
    pub(crate) scale: f32,
}

impl<'a> AttendGroup<'a> {
    /// Query `i` of `[queries, heads]`.
    pub(crate) fn query(&self, i: usize) -> &'a [f32] {
        let dim = self.kv.shape().head_dim;
        &self.q[i / self.heads * self.q_stride + i % self.heads * dim..][..dim]
    }
}

/// Four rows of the same channels.
pub(crate) type FourRows<'a> = [&'a [f32]; 4];
/// Head, lanes, out `[rows, value_dim]`. One lane is the state, updated in place; else there is one
/// more than rows, and row r takes the state from lane r to lane r + 1.
pub(crate) type DeltaKernel = fn(&DeltaHead<'_>, &mut [&mut [f32]], &mut [f32]);

/// The functions of one instruction set.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub(crate) isa: Isa,
    /// Out: `part.width` outputs of each row.
    pub(crate) linear: fn(&LinearPart<'_>, out: &mut [&mut [f32]]),
    /// x, out: as many activations, rounded as `host/1` says.
    pub(crate) round: fn(&[f32], &mut [f32]),
    /// x, scale, eps, out: one row.
    pub(crate) rms_norm: fn(&[f32], &[f32], f32, &mut [f32]),
    /// x, eps, scale, out: one row.
    pub(crate) l2_norm: fn(&[f32], f32, f32, &mut [f32]),
    /// x += y.
    pub(crate) add: fn(&mut [f32], &[f32]),
    /// out = silu(gate) * up.
    pub(crate) silu_mul: fn(&[f32], &[f32], &mut [f32]),
    /// x *= sigmoid(gate).
    pub(crate) sigmoid_mul: fn(&mut [f32], &[f32]),
    /// taps, rows, out: one token, some channels.
    pub(crate) conv_silu: fn(FourRows<'_>, FourRows<'_>, &mut [f32]),
    pub(crate) delta: DeltaKernel,
    /// group, scratch, out `[queries, heads, head_dim]`.
    pub(crate) attend: fn(&AttendGroup<'_>, &mut Vec<f32>, &mut [f32]),
    pub(crate) argmax: fn(&[f32]) -> usize,
}

/// The table of an instruction set.
///
/// # Panics
/// When this CPU does not have it: a table's functions use its instructions.
pub(crate) fn table(isa: Isa) -> &'static Kernels {
    assert!(isa.is_present(), "the cpu has no {isa}");
    match isa {
        Isa::Scalar => &scalar::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &x86_64::AVX2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => &x86_64::AVX512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16 => &x86_64::AVX512_BF16,
        #[cfg(not(target_arch = "x86_64"))]
        _ => &scalar::KERNELS,
    }
}

/// Whether the dot products of [`Isa::Avx512Bf16`], where that is present, are quicker than the fused
/// multiply-adds of [`Isa::Avx512`].
pub(crate) fn prefers_dot() -> bool {
    #[cfg(target_arch = "x86_64")]
    return Isa::Avx512Bf16.is_present() && x86_64::prefers_dot();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
