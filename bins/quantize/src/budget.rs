//! Precisions for a given number of bytes.

use std::collections::BTreeMap;

use qwen35_model::tensors::TensorRole;

use crate::plan::{Plan, PlanError, PlannedTensor};
use crate::precision::Precision;

/// What promoting a tensor from BFP4 to BFP8 gains, by name; more is better, in any unit. From calibration.
pub type Gains = BTreeMap<String, f64>;

/// Most demotions tried to use up what is left of a budget.
const SWAPS: usize = 3;

/// Changes the precisions of `plan` so that its bytes come as near to `budget` as they can without going
/// over: all linears that no override fixed start in BFP4, and are promoted to BFP8 in the order of their
/// gain per byte.
///
/// Without `gains` the order is by role: output head, MLP down, attention, delta net, and at last MLP gate
/// and up, the first and last layers before the middle ones. When what is left is less than the next
/// promotion takes, a few of the least valued promotions are taken back where that fills the budget better.
///
/// # Errors
/// [`PlanError::Budget`] when even BFP4 does not fit.
pub fn fit(plan: &mut Plan, budget: u64, gains: Option<&Gains>) -> Result<(), PlanError> {
    let mut candidates = Vec::new();
    for (index, tensor) in plan
        .tensors
        .iter_mut()
        .enumerate()
        .filter(|(_, t)| t.role.is_linear() && !t.fixed)
    {
        tensor.store_as(Precision::Bfp4, "budget".to_owned())?;
        let extra = tensor.file_bytes_as(Precision::Bfp8)? - tensor.file_bytes;
        candidates.push(Candidate {
            index,
            extra,
            rank: 0.0,
        });
    }
    let smallest = plan.package_bytes();
    let Some(mut left) = budget.checked_sub(smallest) else {
        return Err(PlanError::Budget { budget, smallest });
    };
    let layers = layers(&plan.tensors);
    for candidate in &mut candidates {
        let tensor = &plan.tensors[candidate.index];
        candidate.rank = match gains {
            #[expect(clippy::cast_precision_loss, reason = "a ranking")]
            Some(gains) => gains.get(&tensor.name).copied().unwrap_or(0.0) / candidate.extra as f64,
            None => rank_by_role(tensor, layers),
        };
    }
    candidates.sort_by(|a, b| b.rank.total_cmp(&a.rank).then(a.index.cmp(&b.index)));
    let mut promoted = vec![false; candidates.len()];
    for (candidate, promoted) in candidates.iter().zip(&mut promoted) {
        if candidate.extra <= left {
            left -= candidate.extra;
            *promoted = true;
        }
    }
    swap_in(&candidates, &mut promoted, left);
    let reason = if gains.is_some() {
        "budget, by calibrated gain"
    } else {
        "budget, by role"
    };
    for (candidate, promoted) in candidates.iter().zip(promoted) {
        let precision = if promoted {
            Precision::Bfp8
        } else {
            Precision::Bfp4
        };
        plan.tensors[candidate.index].store_as(precision, reason.to_owned())?;
    }
    Ok(())
}

struct Candidate {
    index: usize,
    /// Bytes that BFP8 takes more than BFP4.
    extra: u64,
    rank: f64,
}

/// Promotes the best candidate that was left out, and takes back up to [`SWAPS`] of the promoted ones, if
/// together that leaves less of the budget unused.
fn swap_in(candidates: &[Candidate], promoted: &mut [bool], left: u64) {
    let Some(next) = promoted.iter().position(|promoted| !promoted) else {
        return;
    };
    let Some(need) = candidates[next].extra.checked_sub(left) else {
        return;
    };
    // Least valued first; one of each size is enough to choose from, as often as it may be taken.
    let mut offers: Vec<usize> = Vec::new();
    for i in (0..candidates.len()).rev().filter(|i| promoted[*i]) {
        let same = offers
            .iter()
            .filter(|o| candidates[**o].extra == candidates[i].extra)
            .count();
        if same < SWAPS && candidates[i].extra < candidates[next].extra {
            offers.push(i);
        }
    }
    // What is unused afterwards is what is taken back beyond the need; it must beat what is unused now.
    let mut best: Option<(u64, Vec<usize>)> = None;
    let mut consider = |chosen: &[usize]| {
        let back: u64 = chosen.iter().map(|i| candidates[*i].extra).sum();
        if let Some(unused) = back.checked_sub(need)
            && unused < best.as_ref().map_or(left, |(unused, _)| *unused)
        {
            best = Some((unused, chosen.to_vec()));
        }
    };
    for (i, a) in offers.iter().enumerate() {
        consider(&[*a]);
        for (j, b) in offers.iter().enumerate().skip(i + 1) {
            consider(&[*a, *b]);
            for c in &offers[j + 1..] {
                consider(&[*a, *b, *c]);
            }
        }
    }
    if let Some((_, chosen)) = best {
        promoted[next] = true;
        for i in chosen {
            promoted[i] = false;
        }
    }
}

/// Higher is promoted earlier.
fn rank_by_role(tensor: &PlannedTensor, layers: usize) -> f64 {
    let class = match tensor.role {
        TensorRole::Head => 5.0,
        TensorRole::Narrow => 4.0,
        TensorRole::Attention => 3.0,
        TensorRole::DeltaFused | TensorRole::Delta => 2.0,
        _ => 1.0,
    };
    #[expect(clippy::cast_precision_loss, reason = "a few layers")]
    let distance = layer(&tensor.name).map_or(0.0, |layer| {
        let (layer, last) = (layer as f64, layers.saturating_sub(1).max(1) as f64);
        // 1 at either end, 0 in the middle.
        (2.0 * layer / last - 1.0).abs()
    });
    class + 0.5 * distance
}

fn layers(tensors: &[PlannedTensor]) -> usize {
    tensors
        .iter()
        .filter_map(|tensor| layer(&tensor.name))
        .max()
        .map_or(0, |last| last + 1)
}

fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("layers.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}
