//! The definition itself, as a table of kernels.

use super::{AttendGroup, BLOCK, DeltaHead, Kernels, LinearPart};
use crate::cpu::isa::Isa;
use crate::numerics::round_activation;
use crate::reference::{attention, convolution, delta, elementwise, linear, norm};
use crate::weight::TILE;

pub(crate) static KERNELS: Kernels = Kernels {
    isa: Isa::Scalar,
    linear: linear_part,
    round,
    rms_norm: norm::rms_norm,
    l2_norm: norm::l2_norm,
    add: elementwise::add,
    silu_mul: elementwise::silu_mul,
    sigmoid_mul: elementwise::sigmoid_mul,
    conv_silu: convolution::conv_silu,
    delta: delta_head,
    attend: attend_group,
    argmax: elementwise::argmax,
};

fn linear_part(part: &LinearPart<'_>, out: &mut [&mut [f32]]) {
    let blocks = part.shape.tile_rows() * TILE;
    let mut row = Vec::with_capacity(blocks.next_multiple_of(BLOCK));
    for (r, out) in out.iter_mut().enumerate() {
        row.clear();
        for block in part.x.x.chunks_exact(part.x.rows) {
            row.extend_from_slice(&block[r]);
        }
        linear::linear_columns(
            &row,
            part.tiles,
            part.shape,
            part.format,
            part.first_tile_column,
            out,
        );
    }
}

fn round(x: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = round_activation(*x);
    }
}

fn delta_head(head: &DeltaHead<'_>, lanes: &mut [&mut [f32]], out: &mut [f32]) {
    for (r, out) in out.chunks_exact_mut(head.value_dim).enumerate() {
        let at = if lanes.len() == 1 {
            0
        } else {
            let (from, to) = lanes.split_at_mut(r + 1);
            to[0].copy_from_slice(from[r]);
            r + 1
        };
        let keys = r * head.key_dim..(r + 1) * head.key_dim;
        delta::delta_step(
            &head.q[keys.clone()],
            &head.k[keys],
            &head.v[r * head.v_stride..][..head.value_dim],
            head.decay[r],
            head.beta[r],
            lanes[at],
            out,
        );
    }
}

fn attend_group(group: &AttendGroup<'_>, scores: &mut Vec<f32>, out: &mut [f32]) {
    let width = group.kv.shape().head_dim;
    for (i, out) in out.chunks_exact_mut(width).enumerate() {
        attention::attend(
            group.query(i),
            group.visible + i / group.heads,
            group.scale,
            |t, d| group.kv.key(group.kv_head, t, d),
            |t, d| group.kv.value(group.kv_head, t, d),
            scores,
            out,
        );
    }
}
