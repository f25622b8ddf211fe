//! The kernels of x86-64, each behind the check that makes its call sound.

mod avx2;
mod avx512;

use super::dispatch::Table;

/// Name and table of each kernel that this CPU has the instructions for, the slowest first.
pub(super) fn tables() -> impl Iterator<Item = (&'static str, &'static Table)> {
    [("avx2", avx2::table()), ("avx512", avx512::table())]
        .into_iter()
        .filter_map(|(name, table)| Some((name, table?)))
}
