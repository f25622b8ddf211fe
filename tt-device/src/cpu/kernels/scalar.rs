//! The definition itself, as a table of kernels.

use super::{AttendGroup, DeltaHead, Kernels, LinearPart};
use crate::cpu::isa::Isa;
use crate::reference::{attention, convolution, delta, elementwise, linear, norm};

pub(crate) static KERNELS: Kernels = Kernels {
    isa: Isa::Scalar,
    linear: linear_part,
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

fn linear_part(part: &LinearPart<'_>, out: &mut [f32]) {
    let inputs = part.x.len() / part.rows;
    for (x, out) in part.x.chunks_exact(inputs).zip(out.chunks_exact_mut(part.width)) {
        linear::linear_columns(x, part.tiles, part.shape, part.format, part.first_tile_column, out);
    }
}

fn delta_head(head: &DeltaHead<'_>, before: Option<&[f32]>, state: &mut [f32], out: &mut [f32]) {
    if let Some(before) = before {
        state.copy_from_slice(before);
    }
    for (r, out) in out.chunks_exact_mut(head.value_dim).enumerate() {
        let at = r * head.key_dim;
        delta::delta_step(
            &head.q[at..at + head.key_dim],
            &head.k[at..at + head.key_dim],
            &head.v[r * head.v_stride..][..head.value_dim],
            head.decay[r],
            head.beta[r],
            state,
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
