//! A linear of a whole model run under `tensix/1`.

use std::fmt;

use super::packing::round_to_bf16;
use super::{ActivationFormat, Columns, Kernel, MatrixUnit, Weights};

/// The identifier of the contract.
pub const CONTRACT: &str = "tensix/1";

/// What a linear's results are packed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResultFormat {
    /// bf16, by [`round_to_bf16`].
    Bf16,
    /// f32: the destination as it is.
    F32,
}

impl ResultFormat {
    /// Both formats.
    pub const ALL: [Self; 2] = [Self::Bf16, Self::F32];

    /// The name that settings and proofs carry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
        }
    }
}

/// All that fixes the bits of a linear under `tensix/1`.
///
/// The linear packs its f32 activations by the device's rule, multiplies, and packs the results.
/// Everything between two linears is not part of this contract and keeps `host/1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearSettings {
    /// Fidelity and accumulator.
    pub unit: MatrixUnit,
    /// What activations are stored as.
    pub activations: ActivationFormat,
    /// What results are stored as.
    pub results: ResultFormat,
}

impl LinearSettings {
    /// `out[rows, n] = pack(activations[rows, k]) x weights`, packed.
    ///
    /// Uses the threads of the current rayon pool. Rows are independent.
    ///
    /// # Panics
    /// When the slices do not hold the same whole number of rows.
    pub fn linear(self, activations: &[f32], weights: &Weights, out: &mut [f32]) {
        self.linear_columns(
            Kernel::best(),
            activations,
            weights,
            Columns::whole(out, weights.shape().outputs),
        );
    }

    /// [`LinearSettings::linear`] with a chosen kernel, into some columns of wider rows.
    ///
    /// # Panics
    /// When activations and columns do not have the same whole number of rows, or the weight's outputs do
    /// not fit the columns.
    pub fn linear_columns(
        self,
        kernel: Kernel,
        activations: &[f32],
        weights: &Weights,
        columns: Columns<'_>,
    ) {
        let Columns {
            out,
            stride,
            offset,
        } = columns;
        self.unit.rows(
            kernel,
            Some(self.activations),
            activations,
            weights,
            Columns {
                out,
                stride,
                offset,
            },
        );
        if self.results == ResultFormat::Bf16 {
            for row in (Columns {
                out,
                stride,
                offset,
            })
            .rows(weights.shape().outputs)
            {
                row.iter_mut().for_each(|out| *out = round_to_bf16(*out));
            }
        }
    }
}

/// `tensix/1 hifi2 accumulate=f32 activations=bfp8 results=bf16`: for logs and proofs.
impl fmt::Display for LinearSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MatrixUnit {
            fidelity,
            accumulate,
        } = self.unit;
        let Self {
            activations,
            results,
            ..
        } = self;
        write!(
            f,
            "{CONTRACT} {fidelity} accumulate={accumulate} activations={activations} results={results}"
        )
    }
}
