//! Attention split over rows and key/value heads.

use rayon::prelude::*;

use crate::cpu::kernels::{AttendGroup, Kernels};
use crate::cpu::memory::HostKv;
use crate::ops::AttentionShape;

/// Multiplications below which a second thread costs more than it brings.
const SPLIT: usize = 1 << 16;

pub(crate) fn attend(
    kernels: &Kernels,
    q: &[f32],
    kv: &HostKv,
    first: usize,
    shape: AttentionShape,
    out: &mut [f32],
) {
    let group = shape.heads / shape.kv_heads * shape.head_dim;
    #[expect(clippy::cast_precision_loss, reason = "head widths are far below 2^24")]
    let scale = 1.0 / (shape.head_dim as f32).sqrt();
    let one = |scores: &mut Vec<f32>, (i, (q, out)): (usize, (&[f32], &mut [f32]))| {
        let rows = first + i / shape.kv_heads + 1;
        (kernels.attend)(&AttendGroup { q, kv, kv_head: i % shape.kv_heads, rows, scale }, scores, out);
    };
    if q.len() * (first + 1) < SPLIT {
        let mut scores = Vec::new();
        for item in q.chunks_exact(group).zip(out.chunks_exact_mut(group)).enumerate() {
            one(&mut scores, item);
        }
    } else {
        q.par_chunks_exact(group)
            .zip(out.par_chunks_exact_mut(group))
            .enumerate()
            .for_each_init(Vec::new, |scores, item| one(scores, item));
    }
}
