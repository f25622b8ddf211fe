//! Causal attention of some query rows and the query heads that share a key/value head.
//!
//! ```text
//! for each block of 16 keys, some queries at a time:      K read once for all of them
//!     s[query][16 keys] = one chain over d
//! for each query: largest, exp, total                     over the keys it sees
//! for each run of keys, some elements of d, some queries: V read once for all of them
//!     o[query][d] = one chain over the keys, kept in `out` from run to run
//! the keys that only later rows see, query by query
//! ```
//!
//! It departs from the definition only in the interleaving of independent chains.

use super::math::exp;
use super::norm::total;
use super::{LANES, Simd};
use crate::cpu::kernels::AttendGroup;
use crate::cpu::memory::{KEY_BLOCK, KvRows};

/// Keys whose values stay in the first-level cache while the elements of `out` go by.
const RUN: usize = 32;

/// An element as key/value rows store it.
trait Stored: Copy {
    fn lanes<S: Simd>(s: S, x: &[Self; LANES]) -> S::V;
    fn widen(self) -> f32;
}

impl Stored for u16 {
    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: &[Self; LANES]) -> S::V {
        s.bf16(x)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self) << 16)
    }
}

impl Stored for f32 {
    #[inline(always)]
    fn lanes<S: Simd>(s: S, x: &[Self; LANES]) -> S::V {
        s.load(x)
    }

    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
}

#[inline(always)]
pub(in crate::cpu::kernels) fn attend<S: Simd>(
    s: S,
    group: &AttendGroup<'_>,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    match group.kv.rows() {
        KvRows::Bf16 { keys, values } => {
            over(s, group, keys.as_slice(), values.as_slice(), scores, out);
        }
        KvRows::F32 { keys, values } => {
            over(s, group, keys.as_slice(), values.as_slice(), scores, out);
        }
    }
}

#[inline(always)]
fn over<S: Simd, T: Stored>(
    s: S,
    group: &AttendGroup<'_>,
    keys: &[T],
    values: &[T],
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    assert!(group.visible > 0, "a query sees at least its own row");
    let shape = group.kv.shape();
    let head = shape.capacity * shape.head_dim;
    let keys = &keys[group.kv_head * head..][..head];
    let values = &values[group.kv_head * head..][..head];
    let last = group.visible + group.queries - 1;
    let stride = last.next_multiple_of(KEY_BLOCK);
    scores.clear();
    scores.resize(group.queries * group.heads * stride, 0.0);

    score(s, group, keys, stride, scores);
    let mut sums = vec![0.0; group.queries * group.heads];
    for (i, (scores, sum)) in scores.chunks_exact_mut(stride).zip(&mut sums).enumerate() {
        *sum = soften(s, &mut scores[..group.visible + i / group.heads]);
    }
    out.fill(0.0);
    gather(s, group, values, stride, scores, out);
    for (out, sum) in out.chunks_exact_mut(shape.head_dim).zip(&sums) {
        for o in out {
            *o /= sum;
        }
    }
}

/// Scores of all queries over all blocks of keys; those past what a query sees mean nothing.
#[inline(always)]
fn score<S: Simd, T: Stored>(
    s: S,
    group: &AttendGroup<'_>,
    keys: &[T],
    stride: usize,
    scores: &mut [f32],
) {
    let dim = group.kv.shape().head_dim;
    let queries = group.queries * group.heads;
    let blocks = stride / KEY_BLOCK;
    let mut block = 0;
    while block < blocks {
        ask(s, keys, (block + 2) * KEY_BLOCK * dim, 2 * KEY_BLOCK * dim);
        let pair = block + 2 <= blocks;
        let mut query = 0;
        while query < queries {
            let left = queries - query;
            if left >= 4 && pair && S::REGISTERS >= 32 {
                score_block::<S, T, 4, 2>(
                    s,
                    group,
                    &keys[block * KEY_BLOCK * dim..],
                    query,
                    &mut scores[block * KEY_BLOCK..],
                    stride,
                );
                query += 4;
            } else if left >= 4 {
                score_block::<S, T, 4, 1>(
                    s,
                    group,
                    &keys[block * KEY_BLOCK * dim..],
                    query,
                    &mut scores[block * KEY_BLOCK..],
                    stride,
                );
                if pair {
                    let block = block + 1;
                    score_block::<S, T, 4, 1>(
                        s,
                        group,
                        &keys[block * KEY_BLOCK * dim..],
                        query,
                        &mut scores[block * KEY_BLOCK..],
                        stride,
                    );
                }
                query += 4;
            } else {
                score_block::<S, T, 1, 1>(
                    s,
                    group,
                    &keys[block * KEY_BLOCK * dim..],
                    query,
                    &mut scores[block * KEY_BLOCK..],
                    stride,
                );
                if pair {
                    let block = block + 1;
                    score_block::<S, T, 1, 1>(
                        s,
                        group,
                        &keys[block * KEY_BLOCK * dim..],
                        query,
                        &mut scores[block * KEY_BLOCK..],
                        stride,
                    );
                }
                query += 1;
            }
        }
        block += 2;
    }
}

/// `Q` queries from `query` on over `B` blocks of keys.
#[inline(always)]
fn score_block<S: Simd, T: Stored, const Q: usize, const B: usize>(
    s: S,
    group: &AttendGroup<'_>,
    keys: &[T],
    query: usize,
    scores: &mut [f32],
    stride: usize,
) {
    let dim = group.kv.shape().head_dim;
    let keys = keys.as_chunks::<LANES>().0;
    let mut blocks: [&[[T; LANES]]; B] = [&[]; B];
    for (b, block) in blocks.iter_mut().enumerate() {
        *block = &keys[b * dim..][..dim];
    }
    let mut q: [&[f32]; Q] = [&[]; Q];
    for (j, q) in q.iter_mut().enumerate() {
        *q = &group.query(query + j)[..dim];
    }
    let mut sums = [[s.splat(0.0); B]; Q];
    for d in 0..dim {
        let mut k = [s.splat(0.0); B];
        for b in 0..B {
            k[b] = T::lanes(s, &blocks[b][d]);
        }
        for j in 0..Q {
            let q = s.splat(q[j][d]);
            for b in 0..B {
                sums[j][b] = s.fma(q, k[b], sums[j][b]);
            }
        }
    }
    let scale = s.splat(group.scale);
    for j in 0..Q {
        let to = &mut scores[(query + j) * stride..].as_chunks_mut::<LANES>().0[..B];
        for b in 0..B {
            s.store(s.mul(sums[j][b], scale), &mut to[b]);
        }
    }
}

/// Scores to `exp(s - largest)`; gives their total.
#[inline(always)]
fn soften<S: Simd>(s: S, scores: &mut [f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, tail) = scores.as_chunks_mut::<LANES>();
    let mut largest = s.load(&lanes);
    for chunk in chunks.iter() {
        let x = s.load(chunk);
        largest = s.select(s.greater(x, largest), x, largest);
    }
    s.store(largest, &mut lanes);
    let mut largest = f32::NEG_INFINITY;
    for x in lanes.iter().chain(tail.iter()) {
        if *x > largest {
            largest = *x;
        }
    }
    let largest = s.splat(largest);
    for chunk in chunks.iter_mut() {
        s.store(exp(s, s.sub(s.load(chunk), largest)), chunk);
    }
    if !tail.is_empty() {
        let softened = exp(s, s.sub(s.load_part(tail), largest));
        s.store_part(softened, tail);
    }
    total(s, scores)
}

/// `out[query] += sum_t e_t V_t` for each query over the keys it sees, t ascending.
#[inline(always)]
fn gather<S: Simd, T: Stored>(
    s: S,
    group: &AttendGroup<'_>,
    values: &[T],
    stride: usize,
    scores: &[f32],
    out: &mut [f32],
) {
    let dim = group.kv.shape().head_dim;
    let queries = group.queries * group.heads;
    let mut first = 0;
    while first < group.visible {
        let run = RUN.min(group.visible - first);
        ask(s, values, (first + run) * dim, run * dim);
        let values = &values[first * dim..][..run * dim];
        let mut query = 0;
        while query < queries {
            if queries - query >= 4 && S::REGISTERS >= 32 {
                gather_run::<S, T, 4>(
                    s,
                    values,
                    dim,
                    &scores[query * stride + first..],
                    stride,
                    run,
                    &mut out[query * dim..],
                );
                query += 4;
            } else {
                gather_run::<S, T, 1>(
                    s,
                    values,
                    dim,
                    &scores[query * stride + first..],
                    stride,
                    run,
                    &mut out[query * dim..],
                );
                query += 1;
            }
        }
        first += run;
    }
    // A query's later keys are its own affair: adding zero for the others could turn -0 into 0.
    for query in group.heads..queries {
        let seen = query / group.heads;
        let values = &values[group.visible * dim..][..seen * dim];
        let scores = &scores[query * stride + group.visible..];
        gather_run::<S, T, 1>(
            s,
            values,
            dim,
            scores,
            stride,
            seen,
            &mut out[query * dim..],
        );
    }
}

/// Asks for `len` elements from `first` on, as far as there are any.
#[inline(always)]
fn ask<S: Simd, T>(s: S, x: &[T], first: usize, len: usize) {
    let x = &x[first.min(x.len())..(first + len).min(x.len())];
    for line in x.iter().step_by(64 / size_of::<T>()) {
        s.ask_far(line, 0);
    }
}

/// A run of keys for `Q` queries.
#[inline(always)]
fn gather_run<S: Simd, T: Stored, const Q: usize>(
    s: S,
    values: &[T],
    dim: usize,
    scores: &[f32],
    stride: usize,
    run: usize,
    out: &mut [f32],
) {
    let mut e: [&[f32]; Q] = [&[]; Q];
    for (j, e) in e.iter_mut().enumerate() {
        *e = &scores[j * stride..][..run];
    }
    let mut d = 0;
    while d + 4 * LANES <= dim {
        gather_elements::<S, T, Q, 4>(s, values, dim, e, run, out, d);
        d += 4 * LANES;
    }
    while d + LANES <= dim {
        gather_elements::<S, T, Q, 1>(s, values, dim, e, run, out, d);
        d += LANES;
    }
    for d in d..dim {
        for (j, e) in e.iter().enumerate() {
            let mut sum = out[j * dim + d];
            for (t, e) in e.iter().enumerate() {
                sum = e.mul_add(values[t * dim + d].widen(), sum);
            }
            out[j * dim + d] = sum;
        }
    }
}

/// `D` vectors of elements from `d` on.
#[inline(always)]
fn gather_elements<S: Simd, T: Stored, const Q: usize, const D: usize>(
    s: S,
    values: &[T],
    dim: usize,
    e: [&[f32]; Q],
    run: usize,
    out: &mut [f32],
    d: usize,
) {
    let mut sums = [[s.splat(0.0); D]; Q];
    for j in 0..Q {
        let from = &out[j * dim + d..].as_chunks::<LANES>().0[..D];
        for i in 0..D {
            sums[j][i] = s.load(&from[i]);
        }
    }
    for t in 0..run {
        let row = &values[t * dim + d..].as_chunks::<LANES>().0[..D];
        let mut v = [s.splat(0.0); D];
        for i in 0..D {
            v[i] = T::lanes(s, &row[i]);
        }
        for j in 0..Q {
            let e = s.splat(e[j][t]);
            for i in 0..D {
                sums[j][i] = s.fma(e, v[i], sums[j][i]);
            }
        }
    }
    for j in 0..Q {
        let to = &mut out[j * dim + d..].as_chunks_mut::<LANES>().0[..D];
        for i in 0..D {
            s.store(sums[j][i], &mut to[i]);
        }
    }
}
