//! Activations taken apart once, for all the outputs that read them.

use rayon::prelude::*;

use super::kernels::ActivationRow;
use super::packing::ActivationFormat;
use super::weights::upper_half;
use crate::weight::TILE;

/// `[blocks of 32 k][rows]`, so that the rows of one block lie together.
#[derive(Debug)]
pub(super) struct Activations {
    rows: usize,
    blocks: Vec<ActivationRow>,
}

impl Activations {
    /// From `values`, `[rows, k]` row-major, k padded with zeros to a block. With a format, each row
    /// is packed first; without, the values are read as bf16.
    pub(super) fn new(
        values: &[f32],
        rows: usize,
        k: usize,
        format: Option<ActivationFormat>,
    ) -> Self {
        let mut halves = vec![0; rows * k];
        if k > 0 {
            halves
                .par_chunks_mut(k)
                .zip(values.par_chunks(k))
                .for_each(|(halves, values)| {
                    let mut packed = vec![0.0; k];
                    let values = match format {
                        Some(format) => {
                            format.pack_row(values, &mut packed);
                            &packed
                        }
                        None => values,
                    };
                    for (half, value) in halves.iter_mut().zip(values) {
                        *half = upper_half(*value);
                    }
                });
        }
        let mut blocks = vec![ActivationRow::ZERO; rows * k.div_ceil(TILE)];
        if rows > 0 {
            blocks
                .par_chunks_mut(rows)
                .enumerate()
                .for_each(|(block, blocks)| {
                    for (out, row) in blocks.iter_mut().zip(halves.chunks(k)) {
                        for (at, half) in row[block * TILE..].iter().take(TILE).enumerate() {
                            out.set(at, *half);
                        }
                    }
                });
        }
        Self { rows, blocks }
    }

    /// Block `block` of all rows.
    pub(super) fn block(&self, block: usize) -> &[ActivationRow] {
        &self.blocks[block * self.rows..][..self.rows]
    }
}
