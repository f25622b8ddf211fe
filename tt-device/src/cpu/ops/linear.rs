//! A linear split over threads: each takes a contiguous run of tile columns.

use rayon::prelude::*;

use crate::cpu::HostBuf;
use crate::cpu::kernels::LinearPart;
use crate::cpu::recorder::CpuRecorder;
use crate::ops::LinearOut;
use crate::{Contract, Cpu};
use crate::weight::{TILE, WeightView};

/// Multiplications below which a second thread costs more than it brings.
const SPLIT: usize = 1 << 16;

/// Several linears of one input, which is rounded and padded once.
pub(crate) fn linears(rec: &mut CpuRecorder<'_>, x: &[f32], rows: usize, parts: &mut [LinearOut<'_, Cpu>]) {
    let Some(first) = parts.iter().find_map(|part| part.weights.first()) else { return };
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
    for part in parts {
        let stride = part.weights.iter().map(|weight| weight.shape().outputs).sum();
        let out = &mut part.out.as_mut_slice()[..rows * stride];
        let mut offset = 0;
        for weight in part.weights {
            assert_eq!(weight.shape().inputs, inputs, "linears of one input share its width");
            let mut columns = Columns { out, stride, offset };
            one(rec.kernels.linear, rec.contract, packed, weight, rows, &mut rec.scratch.parts, &mut columns);
            offset += weight.shape().outputs;
        }
    }
}

/// Where one weight's outputs go: from `offset` on in rows of `stride`.
struct Columns<'a> {
    out: &'a mut [f32],
    stride: usize,
    offset: usize,
}

fn one(
    kernel: fn(&LinearPart<'_>, &mut [f32]),
    contract: Contract,
    x: &[f32],
    weight: &WeightView,
    rows: usize,
    scratch: &mut HostBuf<f32>,
    columns: &mut Columns<'_>,
) {
    let shape = weight.shape();
    let tile_columns = shape.tile_columns();
    let work = rows * shape.inputs * shape.outputs;
    let threads = if work < SPLIT { 1 } else { rayon::current_num_threads().min(tile_columns) };
    let part = |first: usize, width: usize| LinearPart {
        contract,
        x,
        rows,
        tiles: weight.bytes(),
        shape,
        format: weight.format(),
        first_tile_column: first,
        width,
    };
    let share = tile_columns.div_ceil(threads) * TILE;
    if rows == 1 {
        columns.out[columns.offset..][..shape.outputs]
            .par_chunks_mut(share)
            .enumerate()
            .for_each(|(i, out)| kernel(&part(i * share / TILE, out.len()), out));
        return;
    }
    // A part's columns of all rows lie together in scratch, so that threads write apart; then the
    // rows are put together.
    let scratch = scratch.grown(rows * shape.outputs);
    scratch.par_chunks_mut(rows * share).enumerate().for_each(|(i, block)| {
        kernel(&part(i * share / TILE, block.len() / rows), block);
    });
    let scratch = &*scratch;
    let offset = columns.offset;
    columns.out.par_chunks_exact_mut(columns.stride).enumerate().for_each(|(r, out)| {
        let out = &mut out[offset..][..shape.outputs];
        for (block, out) in scratch.chunks(rows * share).zip(out.chunks_mut(share)) {
            out.copy_from_slice(&block[r * out.len()..][..out.len()]);
        }
    });
}
