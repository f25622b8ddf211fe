//! Which kernel runs.

use std::sync::OnceLock;

use super::{ActivationRow, Destination, Tile, WeightParts, portable};
use crate::Isa;
use crate::tensix::{Accumulate, Fidelity, MatrixUnit};

/// Adds one block of 32 k to all destinations, a row each.
type Run = fn(&WeightParts, &[ActivationRow], &mut [Destination]);

/// The functions of one instruction set.
pub(super) struct Table {
    /// [`WeightParts::split`].
    pub(super) split: fn(&mut WeightParts, Tile<'_>),
    /// One for each fidelity and accumulator.
    pub(super) run: [[Run; 2]; 4],
}

/// All instances of `$run::<PHASES, F32>`.
macro_rules! instances {
    ($run:path) => {{
        use $run as run;
        [
            [run::<1, true>, run::<1, false>],
            [run::<2, true>, run::<2, false>],
            [run::<3, true>, run::<3, false>],
            [run::<4, true>, run::<4, false>],
        ]
    }};
}
pub(super) use instances;

static PORTABLE: Table = Table {
    split: |parts, tile| parts.split(tile),
    run: instances!(portable::accumulate),
};

/// An instruction set's form of the arithmetic. All give the same bits.
#[derive(Clone, Copy)]
pub struct Kernel {
    name: &'static str,
    isa: Isa,
    table: &'static Table,
}

impl Kernel {
    const PORTABLE: Self = Self {
        name: "portable",
        isa: Isa::Scalar,
        table: &PORTABLE,
    };

    /// The kernels that this machine can run, the slowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut kernels = vec![Self::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        kernels.extend(super::x86_64::tables().map(|(name, isa, table)| Self { name, isa, table }));
        kernels
    }

    /// The fastest of [`Kernel::available`].
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Self::PORTABLE))
    }

    /// The fastest of [`Kernel::available`] that needs no more than `isa`.
    #[must_use]
    pub fn within(isa: Isa) -> Self {
        Self::available()
            .into_iter()
            .rfind(|kernel| kernel.isa <= isa)
            .unwrap_or(Self::PORTABLE)
    }

    /// `portable`, `avx2`, `avx512`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Takes a tile of weights apart.
    pub(in crate::tensix) fn split(self, parts: &mut WeightParts, tile: Tile<'_>) {
        (self.table.split)(parts, tile);
    }

    /// Adds one block of 32 k to all `destinations`, a row each.
    pub(in crate::tensix) fn accumulate(
        self,
        unit: MatrixUnit,
        parts: &WeightParts,
        rows: &[ActivationRow],
        destinations: &mut [Destination],
    ) {
        let fidelity = match unit.fidelity {
            Fidelity::LoFi => 0,
            Fidelity::HiFi2 => 1,
            Fidelity::HiFi3 => 2,
            Fidelity::HiFi4 => 3,
        };
        let accumulate = match unit.accumulate {
            Accumulate::F32 => 0,
            Accumulate::Bf16 => 1,
        };
        self.table.run[fidelity][accumulate](parts, rows, destinations);
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}
