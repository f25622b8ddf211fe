//! The matmul as callers use it: threads over tiles of outputs, a kernel in each.

use rayon::prelude::*;

use super::activations::Activations;
use super::kernels::{Destination, Kernel, WeightParts};
use super::weights::Weights;
use super::{Accumulate, ActivationFormat, Fidelity};
use crate::weight::{MatrixShape, TILE};

/// Rows that share one unpacking of the weights; bounds the memory for activations taken apart.
const ROWS: usize = 64;

/// A matrix unit as a kernel's author has set it.
///
/// All its results are a function of the operands and of these two settings alone: threads,
/// instruction set, and which other rows and columns there are change no bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixUnit {
    /// Which phases run.
    pub fidelity: Fidelity,
    /// The type of the destination.
    pub accumulate: Accumulate,
}

/// The three lengths of `out[m, n] = activations[m, k] x weights[k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulShape {
    /// Rows of activations and results.
    pub m: usize,
    /// Inputs: the length of the sums.
    pub k: usize,
    /// Outputs of a row.
    pub n: usize,
}

/// Where the results of one weight go in rows that several weights share.
///
/// Row `r` is `out[r * stride..][offset..]`, as many columns as the weight has outputs.
#[derive(Debug)]
pub struct Columns<'a> {
    /// Whole rows of `stride`.
    pub out: &'a mut [f32],
    /// Length of a row.
    pub stride: usize,
    /// The first column.
    pub offset: usize,
}

impl<'a> Columns<'a> {
    /// Rows that one weight has for itself.
    pub(super) fn whole(out: &'a mut [f32], outputs: usize) -> Self {
        Self {
            out,
            stride: outputs,
            offset: 0,
        }
    }

    /// Each row's part of `outputs` columns.
    pub(super) fn rows(&mut self, outputs: usize) -> impl Iterator<Item = &mut [f32]> {
        let offset = self.offset;
        self.out
            .chunks_mut(self.stride.max(1))
            .map(move |row| &mut row[offset..offset + outputs])
    }
}

impl MatmulShape {
    pub(super) fn check(self, activations: usize, weights: usize, out: usize) {
        let Self { m, k, n } = self;
        assert_eq!(
            m.checked_mul(k),
            Some(activations),
            "activations are m x k values"
        );
        assert_eq!(k.checked_mul(n), Some(weights), "weights are k x n values");
        assert_eq!(m.checked_mul(n), Some(out), "results are m x n values");
    }
}

impl MatrixUnit {
    /// `out = activations x weights`, all row-major: [`super::definition::matmul`], fast.
    ///
    /// Operands are read as bf16 (the low 16 bits are dropped). `out` is what the destination
    /// registers hold; [`super::packing::round_to_bf16`] makes of it what the packer writes as bf16.
    ///
    /// # Panics
    /// When a slice is not as long as `shape` says.
    pub fn matmul(self, activations: &[f32], weights: &[f32], shape: MatmulShape, out: &mut [f32]) {
        self.matmul_with(Kernel::best(), activations, weights, shape, out);
    }

    /// [`MatrixUnit::matmul`] with a chosen kernel, for comparisons.
    ///
    /// # Panics
    /// When a slice is not as long as `shape` says.
    pub fn matmul_with(
        self,
        kernel: Kernel,
        activations: &[f32],
        weights: &[f32],
        shape: MatmulShape,
        out: &mut [f32],
    ) {
        shape.check(activations.len(), weights.len(), out.len());
        let weights = Weights::from_values(
            weights,
            MatrixShape {
                inputs: shape.k,
                outputs: shape.n,
            },
        );
        self.rows(
            kernel,
            None,
            activations,
            &weights,
            Columns::whole(out, shape.n),
        );
    }

    /// `out[rows, n] = activations[rows, k] x weights`, with weights made ready before.
    ///
    /// As [`MatrixUnit::matmul`]; the number of rows is that of `activations`.
    ///
    /// # Panics
    /// When the slices do not hold the same whole number of rows.
    pub fn linear(self, activations: &[f32], weights: &Weights, out: &mut [f32]) {
        self.linear_with(Kernel::best(), activations, weights, out);
    }

    /// [`MatrixUnit::linear`] with a chosen kernel, for comparisons.
    ///
    /// # Panics
    /// When the slices do not hold the same whole number of rows.
    pub fn linear_with(
        self,
        kernel: Kernel,
        activations: &[f32],
        weights: &Weights,
        out: &mut [f32],
    ) {
        self.rows(
            kernel,
            None,
            activations,
            weights,
            Columns::whole(out, weights.shape().outputs),
        );
    }

    /// The work behind all of them; with a format, activations are packed first.
    pub(super) fn rows(
        self,
        kernel: Kernel,
        format: Option<ActivationFormat>,
        activations: &[f32],
        weights: &Weights,
        mut columns: Columns<'_>,
    ) {
        let MatrixShape { inputs, outputs } = weights.shape();
        let Columns {
            ref out,
            stride,
            offset,
        } = columns;
        if stride == 0 {
            return;
        }
        let rows = out.len() / stride;
        assert!(
            rows * stride == out.len() && rows * inputs == activations.len(),
            "activations are rows x {inputs} and results rows x {stride} values, found {} and {}",
            activations.len(),
            out.len(),
        );
        assert!(
            offset + outputs <= stride,
            "columns {offset}.. of {outputs} do not fit rows of {stride}"
        );
        if inputs == 0 {
            columns.rows(outputs).for_each(|row| row.fill(0.0));
            return;
        }
        let tile_columns = weights.shape().tile_columns();
        let mut parts = columns.rows(outputs);
        for activations in activations.chunks(ROWS * inputs) {
            let count = activations.len() / inputs;
            let activations = Activations::new(activations, count, inputs, format);
            let mut destinations = vec![Destination::ZERO; tile_columns * count];
            destinations
                .par_chunks_mut(count)
                .enumerate()
                .for_each(|(column, destinations)| {
                    self.column(kernel, &activations, weights, column, destinations);
                });
            for (row, out) in parts.by_ref().take(count).enumerate() {
                for (column, out) in out.chunks_mut(TILE).enumerate() {
                    for (out, bits) in out.iter_mut().zip(destinations[column * count + row].bits) {
                        *out = f32::from_bits(bits);
                    }
                }
            }
        }
    }

    /// One tile column of outputs, all rows: k ascending.
    fn column(
        self,
        kernel: Kernel,
        activations: &Activations,
        weights: &Weights,
        column: usize,
        destinations: &mut [Destination],
    ) {
        let mut parts = WeightParts::ZERO;
        for block in 0..weights.shape().tile_rows() {
            kernel.split(&mut parts, weights.tile(block, column));
            kernel.accumulate(self, &parts, activations.block(block), destinations);
        }
    }
}
