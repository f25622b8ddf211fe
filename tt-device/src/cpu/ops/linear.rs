//! A linear split over threads: each takes a contiguous run of tile columns.

use rayon::prelude::*;

use crate::cpu::HostBuf;
use crate::cpu::kernels::LinearPart;
use crate::cpu::recorder::CpuRecorder;
use crate::weight::{TILE, WeightView};

/// Multiplications below which a second thread costs more than it brings.
const SPLIT: usize = 1 << 16;

/// Several linears of one input, which is rounded and padded once.
pub(crate) fn linears(
    rec: &mut CpuRecorder<'_>,
    x: &[f32],
    rows: usize,
    parts: &mut [(&WeightView, &mut HostBuf<f32>)],
) {
    let Some((first, _)) = parts.first() else { return };
    let inputs = first.shape().inputs;
    let padded = inputs.next_multiple_of(TILE);
    let packed = rec.scratch.activations.grown(rows * padded);
    for (packed, x) in packed.chunks_exact_mut(padded).zip(x.chunks_exact(inputs)) {
        for (p, x) in packed.iter_mut().zip(x) {
            *p = rec.contract.activation(*x);
        }
        packed[inputs..].fill(0.0);
    }
    let packed = &*packed;
    for (weight, out) in parts {
        assert_eq!(weight.shape().inputs, inputs, "linears of one input share its width");
        let out = &mut out.as_mut_slice()[..rows * weight.shape().outputs];
        one(rec.kernels.linear, packed, weight, rows, &mut rec.scratch.parts, out);
    }
}

fn one(
    kernel: fn(&LinearPart<'_>, &mut [f32]),
    x: &[f32],
    weight: &WeightView,
    rows: usize,
    scratch: &mut HostBuf<f32>,
    out: &mut [f32],
) {
    let shape = weight.shape();
    let columns = shape.tile_columns();
    let work = rows * shape.inputs * shape.outputs;
    let threads = if work < SPLIT { 1 } else { rayon::current_num_threads().min(columns) };
    let part = |first: usize, width: usize| LinearPart {
        x,
        rows,
        tiles: weight.bytes(),
        shape,
        format: weight.format(),
        first_tile_column: first,
        width,
    };
    if threads == 1 {
        kernel(&part(0, shape.outputs), out);
        return;
    }
    let share = columns.div_ceil(threads) * TILE;
    if rows == 1 {
        out.par_chunks_mut(share)
            .enumerate()
            .for_each(|(i, out)| kernel(&part(i * share / TILE, out.len()), out));
        return;
    }
    // A part's columns of all rows lie together in scratch, so that threads write apart; then the
    // rows are put together.
    let scratch = &mut scratch.grown(rows * shape.outputs)[..];
    scratch.par_chunks_mut(rows * share).enumerate().for_each(|(i, block)| {
        let width = block.len() / rows;
        kernel(&part(i * share / TILE, width), block);
    });
    let scratch = &*scratch;
    out.par_chunks_exact_mut(shape.outputs).enumerate().for_each(|(r, out)| {
        for (block, out) in scratch.chunks(rows * share).zip(out.chunks_mut(share)) {
            out.copy_from_slice(&block[r * out.len()..][..out.len()]);
        }
    });
}
