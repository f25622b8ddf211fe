//! The arithmetic of each instruction set, behind one table of functions.
//!
//! A table is picked once, when the device opens. Every function of every table computes exactly
//! what its namesake in [`crate::reference`] defines.

mod scalar;

use crate::cpu::isa::Isa;
use crate::cpu::memory::HostKv;
use crate::weight::{MatrixShape, WeightFormat};

/// One thread's share of a linear: whole tile columns, all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearPart<'a> {
    /// `[rows, inputs padded to tiles]`, rounded as the contract says, zeros in the padding.
    pub(crate) x: &'a [f32],
    pub(crate) rows: usize,
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

/// The query heads of one row that share a key/value head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttendGroup<'a> {
    /// `[group, head_dim]`.
    pub(crate) q: &'a [f32],
    pub(crate) kv: &'a HostKv,
    pub(crate) kv_head: usize,
    /// Stored rows that the query sees.
    pub(crate) rows: usize,
    pub(crate) scale: f32,
}

/// The functions of one instruction set.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub(crate) isa: Isa,
    /// `out[rows, part.width]`.
    pub(crate) linear: fn(&LinearPart<'_>, out: &mut [f32]),
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
    pub(crate) conv_silu: fn([&[f32]; 4], [&[f32]; 4], &mut [f32]),
    /// head, state before the first row where that is not `state` itself, state, out `[rows, value_dim]`.
    pub(crate) delta: fn(&DeltaHead<'_>, Option<&[f32]>, &mut [f32], &mut [f32]),
    /// group, scratch, out `[group, head_dim]`.
    pub(crate) attend: fn(&AttendGroup<'_>, &mut Vec<f32>, &mut [f32]),
    pub(crate) argmax: fn(&[f32]) -> usize,
}

/// The table of an instruction set that this CPU has.
pub(crate) fn table(isa: Isa) -> &'static Kernels {
    debug_assert!(isa.is_present());
    match isa {
        Isa::Scalar => &scalar::KERNELS,
        _ => &scalar::KERNELS,
    }
}
