//! Attention split over key/value heads and blocks of query rows.

use rayon::prelude::*;

use crate::cpu::kernels::AttendGroup;
use crate::cpu::memory::HostKv;
use crate::cpu::recorder::CpuRecorder;
use crate::ops::AttentionShape;

/// Multiplications below which a second thread costs more than it brings.
const SPLIT: usize = 1 << 16;
/// Query rows that share a pass over keys and values.
const ROWS: usize = 4;

pub(crate) fn attend(
    rec: &mut CpuRecorder<'_>,
    q: &[f32],
    kv: &HostKv,
    first: usize,
    shape: AttentionShape,
    rows: usize,
    out: &mut [f32],
) {
    let kernel = rec.kernels.attend;
    let heads = shape.heads / shape.kv_heads;
    let width = heads * shape.head_dim;
    let row = shape.kv_heads * width;
    #[expect(clippy::cast_precision_loss, reason = "head widths are far below 2^24")]
    let scale = 1.0 / (shape.head_dim as f32).sqrt();
    // Task i: a block of rows, and of it one key/value head. Their results lie one after the other.
    let one = |scores: &mut Vec<f32>, (i, out): (usize, &mut [f32])| {
        let (from, kv_head) = (i / shape.kv_heads * ROWS, i % shape.kv_heads);
        let group = AttendGroup {
            q: &q[from * row + kv_head * width..],
            q_stride: row,
            queries: ROWS.min(rows - from),
            heads,
            kv,
            kv_head,
            visible: first + from + 1,
            scale,
        };
        kernel(&group, scores, &mut out[..group.queries * width]);
    };
    let split = rayon::current_num_threads() > 1 && q.len() * (first + rows) >= SPLIT;
    let run = |out: &mut [f32], task: usize| {
        if split {
            out.par_chunks_mut(task)
                .enumerate()
                .for_each_init(Vec::new, |scores, item| one(scores, item));
        } else {
            let mut scores = Vec::new();
            out.chunks_mut(task)
                .enumerate()
                .for_each(|item| one(&mut scores, item));
        }
    };
    if rows == 1 {
        run(out, width);
        return;
    }
    let task = ROWS * width;
    let by_task = rec
        .scratch
        .heads
        .grown(rows.div_ceil(ROWS) * shape.kv_heads * task);
    run(by_task, task);
    for (r, out) in out.chunks_exact_mut(row).enumerate() {
        for (h, out) in out.chunks_exact_mut(width).enumerate() {
            let at = (r / ROWS * shape.kv_heads + h) * task + r % ROWS * width;
            out.copy_from_slice(&by_task[at..at + width]);
        }
    }
}
