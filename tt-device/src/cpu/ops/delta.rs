//! A gated delta layer: convolution over rows, then head by head over the rows in order.

use rayon::prelude::*;

use crate::Cpu;
use crate::cpu::kernels::{DeltaHead, Kernels};
use crate::cpu::recorder::CpuRecorder;
use crate::ops::{DeltaInputs, DeltaShape, DeltaState, Keep};
use crate::reference::delta::{beta, decay};

/// Epsilon of the l2 norms of queries and keys, inside the root.
const L2_EPS: f32 = 1e-6;

pub(crate) fn delta(
    rec: &mut CpuRecorder<'_>,
    inputs: &DeltaInputs<'_, Cpu>,
    state: &mut DeltaState<'_, Cpu>,
    rows: usize,
    out: &mut [f32],
) {
    let shape = inputs.shape;
    let channels = shape.channels();
    let active = state.lane.as_slice()[0] as usize % state.lanes;
    let mixed = &inputs.mixed.as_slice()[..rows * channels];
    let convolved = rec.scratch.delta.grown(rows * channels);

    let windows = state.window.as_mut_slice();
    convolve(
        rec.kernels,
        inputs.taps.as_slice(),
        &windows[active * shape.window()..][..shape.window()],
        mixed,
        convolved,
    );
    match state.keep {
        Keep::Last => advance_window(
            &mut windows[active * shape.window()..][..shape.window()],
            mixed,
            channels,
        ),
        Keep::Each => fan_windows(windows, mixed, shape, active, state.lanes),
    }

    let convolved = &*convolved;
    let heads = Heads {
        kernels: rec.kernels,
        inputs,
        convolved,
        rows,
    };
    let by_head = rec
        .scratch
        .heads
        .grown(rows * shape.value_heads * shape.value_dim);
    let lanes = state.recurrent.as_mut_slice();
    match state.keep {
        Keep::Last => heads.in_place(
            &mut lanes[active * shape.state()..][..shape.state()],
            by_head,
        ),
        Keep::Each => heads.fan(lanes, active, state.lanes, by_head),
    }
    gather_heads(by_head, shape, rows, out);
}

fn convolve(kernels: &Kernels, taps: &[f32], window: &[f32], mixed: &[f32], out: &mut [f32]) {
    let channels = window.len() / 3;
    let taps: [&[f32]; 4] = std::array::from_fn(|j| &taps[j * channels..][..channels]);
    // Row t of the history is the window for t < 3, then the rows of this pass.
    let history = |t: usize| {
        if t < 3 {
            &window[t * channels..][..channels]
        } else {
            &mixed[(t - 3) * channels..][..channels]
        }
    };
    out.par_chunks_exact_mut(channels)
        .enumerate()
        .for_each(|(r, out)| {
            (kernels.conv_silu)(taps, std::array::from_fn(|j| history(r + j)), out);
        });
}

/// The last three rows of window and pass, oldest first.
fn advance_window(window: &mut [f32], mixed: &[f32], channels: usize) {
    let rows = mixed.len() / channels;
    let kept = 3usize.saturating_sub(rows);
    window.copy_within((3 - kept) * channels.., 0);
    let new = 3 - kept;
    window[kept * channels..].copy_from_slice(&mixed[(rows - new) * channels..]);
}

/// The window after row i goes to lane `active + 1 + i`.
fn fan_windows(windows: &mut [f32], mixed: &[f32], shape: DeltaShape, active: usize, lanes: usize) {
    let (size, channels) = (shape.window(), shape.channels());
    for (i, row) in mixed.chunks_exact(channels).enumerate() {
        let (from, to) = ((active + i) % lanes, (active + i + 1) % lanes);
        windows.copy_within(from * size..(from + 1) * size, to * size);
        advance_window(&mut windows[to * size..][..size], row, channels);
    }
}

struct Heads<'a> {
    kernels: &'static Kernels,
    inputs: &'a DeltaInputs<'a, Cpu>,
    convolved: &'a [f32],
    rows: usize,
}

impl Heads<'_> {
    /// All rows of each head on one state, updated in place. `out` is `[value_heads, rows, value_dim]`.
    fn in_place(&self, state: &mut [f32], out: &mut [f32]) {
        let shape = self.inputs.shape;
        let group = shape.value_heads / shape.key_heads;
        let head_state = shape.key_dim * shape.value_dim;
        let head_out = self.rows * shape.value_dim;
        state
            .par_chunks_exact_mut(group * head_state)
            .zip(out.par_chunks_exact_mut(group * head_out))
            .enumerate()
            .for_each(|(key_head, (state, out))| {
                let (q, k) = self.norm(key_head);
                let heads = state
                    .chunks_exact_mut(head_state)
                    .zip(out.chunks_exact_mut(head_out));
                for (i, (state, out)) in heads.enumerate() {
                    self.with_head(&q, &k, key_head * group + i, |head| {
                        (self.kernels.delta)(&head, &mut [state], out);
                    });
                }
            });
    }

    /// Row i of each head from lane `active + i` into lane `active + i + 1`.
    fn fan(&self, recurrent: &mut [f32], active: usize, lanes: usize, out: &mut [f32]) {
        assert!(
            self.rows < lanes,
            "a ring of lanes holds one lane more than a pass has rows"
        );
        let shape = self.inputs.shape;
        let group = shape.value_heads / shape.key_heads;
        let head_state = shape.key_dim * shape.value_dim;
        let mut by_head: Vec<Vec<&mut [f32]>> = (0..shape.value_heads)
            .map(|_| Vec::with_capacity(lanes))
            .collect();
        for lane in recurrent.chunks_exact_mut(shape.state()) {
            for (head, state) in by_head.iter_mut().zip(lane.chunks_exact_mut(head_state)) {
                head.push(state);
            }
        }
        by_head
            .par_iter_mut()
            .zip(out.par_chunks_exact_mut(self.rows * shape.value_dim))
            .enumerate()
            .for_each(|(value_head, (lanes, out))| {
                lanes.rotate_left(active);
                let (q, k) = self.norm(value_head / group);
                self.with_head(&q, &k, value_head, |head| {
                    (self.kernels.delta)(&head, &mut lanes[..=self.rows], out);
                });
            });
    }

    /// Normed queries and keys of one key head, `[rows, key_dim]` each.
    fn norm(&self, key_head: usize) -> (Vec<f32>, Vec<f32>) {
        let shape = self.inputs.shape;
        let dim = shape.key_dim;
        #[expect(clippy::cast_precision_loss, reason = "head widths are far below 2^24")]
        let scale = 1.0 / (dim as f32).sqrt();
        let mut q = vec![0.0; self.rows * dim];
        let mut k = vec![0.0; self.rows * dim];
        let rows = self.convolved.chunks_exact(shape.channels());
        for (row, (q, k)) in rows.zip(q.chunks_exact_mut(dim).zip(k.chunks_exact_mut(dim))) {
            (self.kernels.l2_norm)(&row[key_head * dim..][..dim], L2_EPS, scale, q);
            (self.kernels.l2_norm)(
                &row[(shape.key_heads + key_head) * dim..][..dim],
                L2_EPS,
                1.0,
                k,
            );
        }
        (q, k)
    }

    fn with_head(&self, q: &[f32], k: &[f32], value_head: usize, run: impl FnOnce(DeltaHead<'_>)) {
        let shape = self.inputs.shape;
        let (rate, dt_bias) = (
            self.inputs.rate.as_slice()[value_head],
            self.inputs.dt_bias.as_slice()[value_head],
        );
        let gate = |x: &[f32], r: usize| x[r * shape.value_heads + value_head];
        let decays: Vec<f32> = (0..self.rows)
            .map(|r| decay(gate(self.inputs.a.as_slice(), r), rate, dt_bias))
            .collect();
        let betas: Vec<f32> = (0..self.rows)
            .map(|r| beta(gate(self.inputs.b.as_slice(), r)))
            .collect();
        let v =
            &self.convolved[2 * shape.key_heads * shape.key_dim + value_head * shape.value_dim..];
        run(DeltaHead {
            q,
            k,
            v,
            v_stride: shape.channels(),
            decay: &decays,
            beta: &betas,
            key_dim: shape.key_dim,
            value_dim: shape.value_dim,
        });
    }
}

/// `[value_heads, rows, value_dim]` to `[rows, value_heads, value_dim]`.
fn gather_heads(by_head: &[f32], shape: DeltaShape, rows: usize, out: &mut [f32]) {
    let width = shape.value_heads * shape.value_dim;
    for (r, out) in out.chunks_exact_mut(width).take(rows).enumerate() {
        for (h, out) in out.chunks_exact_mut(shape.value_dim).enumerate() {
            out.copy_from_slice(&by_head[(h * rows + r) * shape.value_dim..][..shape.value_dim]);
        }
    }
}
