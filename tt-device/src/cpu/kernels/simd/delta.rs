//! One value head of the gated delta rule over the rows of a pass.
//!
//! ```text
//! for each block of columns:                     (columns are independent over all rows)
//!     m = sum_i k0_i S_i                         one sweep down the state
//!     for each row r:
//!         u = beta_r * fma(-decay_r, m, v_r)
//!         m = 0, o = 0
//!         for i ascending:                       one sweep: row r's update, row r+1's m
//!             S_i = fma(k_i, u, decay_r * S_i)
//!             o   = fma(q_i, S_i, o)
//!             m   = fma(k'_i, S_i, m)            k' is row r+1's key
//! ```
//!
//! It departs from the definition only in taking the next row's first sweep along with this row's
//! second one. The block of columns stays in the first-level cache while the rows go by: for many rows it
//! is copied together first, because rows of the whole state, 512 bytes apart, share half of the sets.

use std::ops::Range;

use super::{LANES, Simd};
use crate::cpu::kernels::DeltaHead;

/// Vectors of columns of a block: eight chains of sums in flight.
const VECTORS: usize = 4;
/// Rows that pay for copying a block of the state out and back.
const MANY: usize = 4;

/// Updates `lanes[0]` in place, or writes the state after row r to `lanes[r + 1]`.
#[inline(always)]
pub(in crate::cpu::kernels) fn delta<S: Simd>(
    s: S,
    head: &DeltaHead<'_>,
    lanes: &mut [&mut [f32]],
    out: &mut [f32],
) {
    let width = head.value_dim;
    let rows = out.len() / width;
    assert!(
        lanes.len() == 1 || lanes.len() == rows + 1,
        "a pass has one lane, or one more than it has rows"
    );
    assert!(
        lanes.iter().all(|lane| lane.len() == head.key_dim * width),
        "a state is [key_dim, value_dim]"
    );
    let mut together = Vec::new();
    let mut column = 0;
    while column + VECTORS * LANES <= width {
        let columns = column..column + VECTORS * LANES;
        if let ([state], MANY..) = (&mut *lanes, rows) {
            together.clear();
            for row in state.chunks_exact(width) {
                together.extend_from_slice(&row[columns.clone()]);
            }
            block::<S, VECTORS, false>(
                s,
                head,
                &mut [&mut together],
                columns.len(),
                0,
                out,
                column,
            );
            let together = together.chunks_exact(columns.len());
            for (row, together) in state.chunks_exact_mut(width).zip(together) {
                row[columns.clone()].copy_from_slice(together);
            }
        } else {
            block::<S, VECTORS, false>(s, head, lanes, width, column, out, column);
        }
        column = columns.end;
    }
    while column + LANES <= width {
        block::<S, 1, false>(s, head, lanes, width, column, out, column);
        column += LANES;
    }
    if column < width {
        block::<S, 1, true>(s, head, lanes, width, column, out, column);
    }
}

/// `W` vectors of columns from `column` on, the last one cut short by the width if `PART`. In the
/// lanes they start at `at`, in rows of `stride`.
#[inline(always)]
fn block<S: Simd, const W: usize, const PART: bool>(
    s: S,
    head: &DeltaHead<'_>,
    lanes: &mut [&mut [f32]],
    stride: usize,
    at: usize,
    out: &mut [f32],
    column: usize,
) {
    let (key_dim, width) = (head.key_dim, head.value_dim);
    let rows = out.len() / width;
    if rows == 0 {
        return;
    }
    let columns = column..if PART { width } else { column + W * LANES };
    let in_state = at..at + columns.len();
    let mut m = [s.splat(0.0); W];
    for (k, state) in head.k[..key_dim].iter().zip(lanes[0].chunks_exact(stride)) {
        let k = s.splat(*k);
        let old = load::<S, W, PART>(s, &state[in_state.clone()]);
        for j in 0..W {
            m[j] = s.fma(k, old[j], m[j]);
        }
    }
    for r in 0..rows {
        let minus_decay = s.splat(-head.decay[r]);
        let beta = s.splat(head.beta[r]);
        let v = load::<S, W, PART>(s, &head.v[r * head.v_stride..][columns.clone()]);
        let mut u = m;
        for j in 0..W {
            u[j] = s.mul(beta, s.fma(minus_decay, m[j], v[j]));
        }
        // After the last row there is no next key; its own stands in and the sum is not used.
        let next = (r + 1).min(rows - 1);
        let row = Row {
            q: &head.q[r * key_dim..][..key_dim],
            k: &head.k[r * key_dim..][..key_dim],
            next: &head.k[next * key_dim..][..key_dim],
            decay: head.decay[r],
        };
        let (from, to) = if lanes.len() == 1 {
            (None, &mut *lanes[0])
        } else {
            let (from, to) = lanes.split_at_mut(r + 1);
            (Some(&*from[r]), &mut *to[0])
        };
        let o;
        (m, o) = sweep::<S, W, PART>(s, &row, u, from, to, stride, in_state.clone());
        store::<S, W, PART>(s, o, &mut out[r * width..][columns.clone()]);
    }
}

/// What a sweep needs of its row and of the next.
struct Row<'a> {
    q: &'a [f32],
    k: &'a [f32],
    next: &'a [f32],
    decay: f32,
}

/// Updates a block of the state for one row; gives the next row's `m` and this row's output.
#[inline(always)]
fn sweep<S: Simd, const W: usize, const PART: bool>(
    s: S,
    row: &Row<'_>,
    u: [S::V; W],
    source: Option<&[f32]>,
    state: &mut [f32],
    stride: usize,
    columns: Range<usize>,
) -> ([S::V; W], [S::V; W]) {
    let decay = s.splat(row.decay);
    let (mut m, mut o) = ([s.splat(0.0); W], [s.splat(0.0); W]);
    let weights = row.q.iter().zip(row.k).zip(row.next);
    for (i, (state, ((q, k), next))) in state.chunks_exact_mut(stride).zip(weights).enumerate() {
        let old = match source {
            Some(source) => load::<S, W, PART>(s, &source[i * stride..][columns.clone()]),
            None => load::<S, W, PART>(s, &state[columns.clone()]),
        };
        let (q, k, next) = (s.splat(*q), s.splat(*k), s.splat(*next));
        let mut new = old;
        for j in 0..W {
            new[j] = s.fma(k, u[j], s.mul(decay, old[j]));
            o[j] = s.fma(q, new[j], o[j]);
            m[j] = s.fma(next, new[j], m[j]);
        }
        store::<S, W, PART>(s, new, &mut state[columns.clone()]);
    }
    (m, o)
}

#[inline(always)]
fn load<S: Simd, const W: usize, const PART: bool>(s: S, from: &[f32]) -> [S::V; W] {
    let mut vectors = [s.splat(0.0); W];
    if PART {
        vectors[0] = s.load_part(from);
    } else {
        let chunks = &from.as_chunks::<LANES>().0[..W];
        for j in 0..W {
            vectors[j] = s.load(&chunks[j]);
        }
    }
    vectors
}

#[inline(always)]
fn store<S: Simd, const W: usize, const PART: bool>(s: S, vectors: [S::V; W], to: &mut [f32]) {
    if PART {
        s.store_part(vectors[0], to);
    } else {
        let chunks = &mut to.as_chunks_mut::<LANES>().0[..W];
        for j in 0..W {
            s.store(vectors[j], &mut chunks[j]);
        }
    }
}
