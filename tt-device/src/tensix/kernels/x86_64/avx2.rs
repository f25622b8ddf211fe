//! The portable kernel, compiled for AVX2: 8 lanes of 32 bits, shifted each by its own distance.

use super::super::dispatch::{Table, table};
use super::super::{ActivationRow, Destination, WeightParts, portable};
use crate::weight::TILE;

static TABLE: Table = table!(accumulate);

/// The table, where the CPU has AVX2.
pub(super) fn table() -> Option<&'static Table> {
    is_x86_feature_detected!("avx2").then_some(&TABLE)
}

fn accumulate<const PHASES: usize, const F32: bool>(
    tile: &[u16; TILE * TILE],
    parts: &mut WeightParts,
    rows: &[ActivationRow],
    destinations: &mut [Destination],
) {
    // SAFETY: only `TABLE` names this function, and `table` hands it out where AVX2 was detected.
    unsafe { with_avx2::<PHASES, F32>(tile, parts, rows, destinations) }
}

#[target_feature(enable = "avx2")]
fn with_avx2<const PHASES: usize, const F32: bool>(
    tile: &[u16; TILE * TILE],
    parts: &mut WeightParts,
    rows: &[ActivationRow],
    destinations: &mut [Destination],
) {
    portable::accumulate::<PHASES, F32>(tile, parts, rows, destinations);
}
