//! Operations that touch each row, or each element, once.

use half::bf16;
use rayon::prelude::*;

use crate::ops::HeadSlice;
use crate::reference::rope::{angles, rotate};
use crate::weight::{WeightFormat, WeightView};

/// Elements below which a second thread costs more than it brings.
const SPLIT: usize = 1 << 15;

/// Rows of an embedding table. A row number past the table's end reads as its last row: the model
/// checks ids before, and a device must not fault.
pub(crate) fn embed(table: &WeightView, ids: &[u32], out: &mut [f32]) {
    let (rows, width) = (table.shape().inputs, table.shape().outputs);
    let bytes = table.bytes();
    for (id, out) in ids.iter().zip(out.chunks_exact_mut(width)) {
        let row = (*id as usize).min(rows - 1);
        match table.format() {
            WeightFormat::Bf16 => {
                for (o, b) in out.iter_mut().zip(bytes[row * width * 2..].chunks_exact(2)) {
                    *o = bf16::from_le_bytes([b[0], b[1]]).to_f32();
                }
            }
            WeightFormat::F32 => {
                for (o, b) in out.iter_mut().zip(bytes[row * width * 4..].chunks_exact(4)) {
                    *o = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
            WeightFormat::Block(_) => unreachable!("WeightView::rows refuses block formats"),
        }
    }
}

pub(crate) fn take_heads(x: &[f32], slice: HeadSlice, rows: usize, out: &mut [f32]) {
    let width = slice.heads * slice.head_dim;
    for (x, out) in x
        .chunks_exact(slice.row)
        .take(rows)
        .zip(out.chunks_exact_mut(width))
    {
        for (h, out) in out.chunks_exact_mut(slice.head_dim).enumerate() {
            out.copy_from_slice(&x[slice.offset + h * slice.stride..][..slice.head_dim]);
        }
    }
}

pub(crate) fn concat(a: &[f32], b: &[f32], width: usize, out: &mut [f32]) {
    let rows = a.chunks_exact(width).zip(b.chunks_exact(width));
    for ((a, b), out) in rows.zip(out.chunks_exact_mut(2 * width)) {
        out[..width].copy_from_slice(a);
        out[width..].copy_from_slice(b);
    }
}

pub(crate) fn rope(x: &mut [f32], frequencies: &[f32], first: u32, width: usize, head_dim: usize) {
    let mut cosines = vec![0.0; frequencies.len()];
    let mut sines = vec![0.0; frequencies.len()];
    for (position, row) in (first..).zip(x.chunks_exact_mut(width)) {
        angles(position, frequencies, &mut cosines, &mut sines);
        for head in row.chunks_exact_mut(head_dim) {
            rotate(head, &cosines, &sines);
        }
    }
}

/// Runs an in-place kernel over shares of long slices.
pub(crate) fn split1(x: &mut [f32], y: &[f32], kernel: fn(&mut [f32], &[f32])) {
    if x.len() < SPLIT {
        kernel(x, y);
    } else {
        x.par_chunks_mut(SPLIT)
            .zip(y.par_chunks(SPLIT))
            .for_each(|(x, y)| kernel(x, y));
    }
}

/// Runs a kernel of two inputs over shares of long slices.
pub(crate) fn split2(
    a: &[f32],
    b: &[f32],
    out: &mut [f32],
    kernel: fn(&[f32], &[f32], &mut [f32]),
) {
    if out.len() < SPLIT {
        kernel(a, b, out);
    } else {
        out.par_chunks_mut(SPLIT)
            .zip(a.par_chunks(SPLIT).zip(b.par_chunks(SPLIT)))
            .for_each(|(out, (a, b))| kernel(a, b, out));
    }
}
