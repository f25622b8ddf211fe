//! A linear split over threads: each takes a contiguous run of tile columns.

use rayon::prelude::*;

use crate::Contract;
use crate::Cpu;
use crate::cpu::kernels::{Activations, BLOCK, LinearPart};
use crate::cpu::recorder::CpuRecorder;
use crate::ops::LinearOut;
use crate::weight::{TILE, WeightView};

/// Multiplications below which a second thread costs more than it brings.
const SPLIT: usize = 1 << 16;

/// Several linears of one input, which is rounded and packed once.
pub(crate) fn linears(
    rec: &mut CpuRecorder<'_>,
    x: &[f32],
    rows: usize,
    parts: &mut [LinearOut<'_, Cpu>],
) {
    let Some(first) = parts.iter().find_map(|part| part.weights.first()) else {
        return;
    };
    let inputs = first.shape().inputs;
    let packed = rec
        .scratch
        .activations
        .grown(rows * inputs.next_multiple_of(BLOCK));
    let packed = packed.as_chunks_mut().0;
    pack(
        rec.contract,
        rec.kernels.round,
        &x[..rows * inputs],
        rows,
        packed,
    );
    let packed = Activations { rows, x: packed };
    for part in parts {
        let stride = part
            .weights
            .iter()
            .map(|weight| weight.shape().outputs)
            .sum();
        let mut out: Vec<_> = part.out.as_mut_slice()[..rows * stride]
            .chunks_exact_mut(stride)
            .collect();
        for weight in part.weights {
            assert_eq!(
                weight.shape().inputs,
                inputs,
                "linears of one input share its width"
            );
            let mut columns = Vec::with_capacity(rows);
            for out in &mut out {
                columns.push(
                    out.split_off_mut(..weight.shape().outputs)
                        .expect("a row has room for all outputs"),
                );
            }
            one(rec.kernels.linear, rec.contract, packed, weight, columns);
        }
    }
}

/// `[rows, inputs]` to [`Activations`].
fn pack(
    contract: Contract,
    round: fn(&[f32], &mut [f32]),
    x: &[f32],
    rows: usize,
    packed: &mut [[f32; BLOCK]],
) {
    let inputs = x.len() / rows;
    for (block, packed) in packed.chunks_exact_mut(rows).enumerate() {
        for (x, packed) in x.chunks_exact(inputs).zip(packed) {
            let x = &x[block * BLOCK..];
            let x = &x[..x.len().min(BLOCK)];
            let (packed, padding) = packed.split_at_mut(x.len());
            match contract {
                Contract::Host1 => round(x, packed),
                Contract::HostF32 => packed.copy_from_slice(x),
            }
            padding.fill(0.0);
        }
    }
}

fn one(
    kernel: fn(&LinearPart<'_>, &mut [&mut [f32]]),
    contract: Contract,
    x: Activations<'_>,
    weight: &WeightView,
    mut out: Vec<&mut [f32]>,
) {
    let shape = weight.shape();
    let tile_columns = shape.tile_columns();
    let work = x.rows * shape.inputs * shape.outputs;
    let threads = if work < SPLIT {
        1
    } else {
        rayon::current_num_threads().min(tile_columns)
    };
    let part = |first: usize, width: usize| LinearPart {
        contract,
        x,
        tiles: weight.bytes(),
        shape,
        format: weight.format(),
        first_tile_column: first,
        width,
    };
    if threads == 1 {
        kernel(&part(0, shape.outputs), &mut out);
        return;
    }
    let share = tile_columns.div_ceil(threads) * TILE;
    let mut shares: Vec<Vec<&mut [f32]>> = Vec::with_capacity(threads);
    for out in out {
        for (i, out) in out.chunks_mut(share).enumerate() {
            if shares.len() <= i {
                shares.push(Vec::with_capacity(x.rows));
            }
            shares[i].push(out);
        }
    }
    shares
        .into_par_iter()
        .enumerate()
        .with_max_len(1)
        .for_each(|(i, mut out)| {
            let width = out[0].len();
            kernel(&part(i * share / TILE, width), &mut out);
        });
}
