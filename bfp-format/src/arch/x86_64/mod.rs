//! AVX2 and AVX-512.

use super::{Isa, Kernels};

/// The table of `isa`, when this machine has it.
pub(super) fn kernels(isa: Isa) -> Option<&'static Kernels> {
    let _ = isa;
    None
}
