//! The kernels of x86-64, each behind the check that makes its call sound.

mod avx2;
mod avx512;

use super::dispatch::Table;
use crate::Isa;

/// Name, instruction set and table of each kernel that this CPU can run, the slowest first.
pub(super) fn tables() -> impl Iterator<Item = (&'static str, Isa, &'static Table)> {
    [
        ("avx2", Isa::Avx2, avx2::table()),
        ("avx512", Isa::Avx512, avx512::table()),
    ]
    .into_iter()
    .filter_map(|(name, isa, table)| Some((name, isa, table?)))
}
