//! Passes over a whole row of logits. A row of Qwen3.5 has 248,320 of them, so nothing here sorts a row.

use std::cmp::Ordering;

use super::RowError;
use crate::TokenId;

/// Logits looked at together: a block's maximum is found in vector registers, and only few blocks are looked into.
const BLOCK: usize = 256;

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) token: TokenId,
    pub(crate) logit: f32,
}

impl Candidate {
    /// Most likely first, lowest id first on ties. Logits are never NaN here; -0 and 0 are the same.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        other
            .logit
            .partial_cmp(&self.logit)
            .unwrap_or(Ordering::Equal)
            .then(self.token.cmp(&other.token))
    }
}

/// The largest logit of a block, and whether all are numbers below infinity.
fn peak(block: &[f32]) -> (f32, bool) {
    const LANES: usize = 16;
    let mut largest = [f32::NEG_INFINITY; LANES];
    let mut finite = [true; LANES];
    let (whole, rest) = block.as_chunks::<LANES>();
    for logits in whole {
        for lane in 0..LANES {
            let logit = logits[lane];
            largest[lane] = if logit > largest[lane] {
                logit
            } else {
                largest[lane]
            };
            // False for NaN too.
            finite[lane] &= logit <= f32::MAX;
        }
    }
    for (lane, &logit) in rest.iter().enumerate() {
        largest[lane] = if logit > largest[lane] {
            logit
        } else {
            largest[lane]
        };
        finite[lane] &= logit <= f32::MAX;
    }
    let largest = largest
        .into_iter()
        .fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
    (largest, !finite.contains(&false))
}

/// The most likely token, lowest id on ties: one pass, and a second look into one block.
///
/// # Errors
/// A logit that is NaN or plus infinity; no logit above minus infinity.
pub(crate) fn argmax(row: &[f32]) -> Result<Candidate, RowError> {
    let mut best = f32::NEG_INFINITY;
    let mut best_block = 0;
    for (i, block) in row.chunks(BLOCK).enumerate() {
        let (largest, finite) = peak(block);
        if !finite {
            return Err(not_finite(row));
        }
        if largest > best {
            best = largest;
            best_block = i;
        }
    }
    if best == f32::NEG_INFINITY {
        return Err(RowError::Nothing);
    }
    let start = best_block * BLOCK;
    let within = row[start..]
        .iter()
        .position(|&logit| logit == best)
        .unwrap_or(0);
    Ok(Candidate {
        token: TokenId::at(start + within),
        logit: best,
    })
}

/// The `count` most likely tokens (all above minus infinity when they are fewer) into `out`, which is cleared, most likely first.
///
/// The `count`-th largest block maximum is a lower bound of the `count`-th largest logit, so only logits from there on are
/// collected and sorted.
pub(crate) fn largest(row: &[f32], count: usize, peaks: &mut Vec<f32>, out: &mut Vec<Candidate>) {
    out.clear();
    if count == 0 {
        return;
    }
    // Small enough blocks that their maxima bound the result well, with room for `count` of them.
    let block = (row.len() / (4 * count)).clamp(16, BLOCK);
    peaks.clear();
    peaks.extend(row.chunks(block).map(|block| peak(block).0));
    let mut floor = f32::NEG_INFINITY;
    if peaks.len() > count {
        let (_, &mut nth, _) = peaks.select_nth_unstable_by(count - 1, |a, b| {
            b.partial_cmp(a).unwrap_or(Ordering::Equal)
        });
        floor = nth;
    }
    collect(row, floor, out, |_| true);
    if out.len() > count {
        out.select_nth_unstable_by(count - 1, Candidate::order);
        out.truncate(count);
    }
    out.sort_unstable_by(Candidate::order);
}

/// The tokens above minus infinity that `keep` wants into `out`, which is cleared, by ascending id. None that it wants is below `floor`: a hint by
/// which most blocks are passed over.
pub(crate) fn collect(
    row: &[f32],
    floor: f32,
    out: &mut Vec<Candidate>,
    keep: impl Fn(&Candidate) -> bool,
) {
    out.clear();
    for (i, block) in row.chunks(BLOCK).enumerate() {
        if floor > f32::NEG_INFINITY && peak(block).0 < floor {
            continue;
        }
        let start = i * BLOCK;
        let possible = block
            .iter()
            .enumerate()
            .filter(|&(_, &logit)| logit >= floor && logit > f32::NEG_INFINITY);
        let candidates = possible.map(|(offset, &logit)| Candidate {
            token: TokenId::at(start + offset),
            logit,
        });
        out.extend(candidates.filter(&keep));
    }
}

/// The first logit of a row that is NaN or plus infinity.
fn not_finite(row: &[f32]) -> RowError {
    row.iter()
        .position(|&logit| logit.is_nan() || logit > f32::MAX)
        .map_or(RowError::Nothing, |index| RowError::NotFinite {
            token: TokenId::at(index),
            logit: row[index],
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(row: &[f32]) -> Vec<Candidate> {
        let mut all_of_it = Vec::new();
        collect(row, f32::NEG_INFINITY, &mut all_of_it, |_| true);
        all_of_it.sort_by(Candidate::order);
        all_of_it
    }

    /// Rows with many ties and some minus infinities.
    fn rows() -> impl Strategy<Value = Vec<f32>> {
        let logit = prop_oneof![1 => Just(f32::NEG_INFINITY), 6 => (-20_i8..20).prop_map(|x| f32::from(x) * 0.5), 3 => -30.0_f32..30.0];
        prop::collection::vec(logit, 1..3000)
    }

    proptest! {
        #[test]
        fn selection_equals_a_sort(row in rows(), count in 1_usize..200) {
            let judge = sorted(&row);
            let (mut peaks, mut out) = (Vec::new(), Vec::new());
            largest(&row, count, &mut peaks, &mut out);
            prop_assert_eq!(&out[..], &judge[..count.min(judge.len())]);
            match argmax(&row) {
                Ok(best) => prop_assert_eq!(best, judge[0]),
                Err(refused) => prop_assert!(judge.is_empty() && refused == RowError::Nothing),
            }
        }
    }

    #[test]
    fn a_logit_that_is_no_number_is_named() {
        for bad in [f32::NAN, f32::INFINITY] {
            for at in [0, 15, 16, 255, 256, 599] {
                let mut row = vec![0.5; 600];
                row[at] = bad;
                let Err(RowError::NotFinite { token, logit }) = argmax(&row) else {
                    panic!("accepted {bad} at {at}");
                };
                assert_eq!((token.index(), logit.to_bits()), (at, bad.to_bits()));
            }
        }
    }
}
