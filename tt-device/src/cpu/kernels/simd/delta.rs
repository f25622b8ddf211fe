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
//! second one, and the block of columns stays in the first-level cache while the rows go by.

use super::{LANES, Simd};
use crate::cpu::kernels::DeltaHead;

#[inline(always)]
pub(in crate::cpu::kernels) fn delta<S: Simd>(
    s: S,
    head: &DeltaHead<'_>,
    before: Option<&[f32]>,
    state: &mut [f32],
    out: &mut [f32],
) {
    let (key_dim, width) = (head.key_dim, head.value_dim);
    assert_eq!(
        state.len(),
        key_dim * width,
        "a state is [key_dim, value_dim]"
    );
    let mut column = 0;
    while column + 4 * LANES <= width {
        block::<S, 4, false>(s, head, before, state, out, column);
        column += 4 * LANES;
    }
    while column + LANES <= width {
        block::<S, 1, false>(s, head, before, state, out, column);
        column += LANES;
    }
    if column < width {
        block::<S, 1, true>(s, head, before, state, out, column);
    }
}

/// `W` vectors of columns from `column` on; `PART` when the last one is cut short by the width.
#[inline(always)]
fn block<S: Simd, const W: usize, const PART: bool>(
    s: S,
    head: &DeltaHead<'_>,
    before: Option<&[f32]>,
    state: &mut [f32],
    out: &mut [f32],
    column: usize,
) {
    let (key_dim, width) = (head.key_dim, head.value_dim);
    let rows = out.len() / width;
    let columns = column..if PART { width } else { column + W * LANES };
    let mut m = [s.splat(0.0); W];
    if rows > 0 {
        let source = before.unwrap_or(state);
        for (k, source) in head.k[..key_dim].iter().zip(source.chunks_exact(width)) {
            let k = s.splat(*k);
            let old = load::<S, W, PART>(s, &source[columns.clone()]);
            for j in 0..W {
                m[j] = s.fma(k, old[j], m[j]);
            }
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
        let source = if r == 0 { before } else { None };
        let o;
        (m, o) = sweep::<S, W, PART>(s, &row, u, source, state, width, column);
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
    width: usize,
    column: usize,
) -> ([S::V; W], [S::V; W]) {
    let columns = column..if PART { width } else { column + W * LANES };
    let decay = s.splat(row.decay);
    let (mut m, mut o) = ([s.splat(0.0); W], [s.splat(0.0); W]);
    let weights = row.q.iter().zip(row.k).zip(row.next);
    for (i, (state, ((q, k), next))) in state.chunks_exact_mut(width).zip(weights).enumerate() {
        let old = match source {
            Some(source) => load::<S, W, PART>(s, &source[i * width..][columns.clone()]),
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
