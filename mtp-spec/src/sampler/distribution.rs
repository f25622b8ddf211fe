use super::select::{Candidate, argmax, collect, largest};
use super::{RowError, SamplerConfig};
use crate::math::{exp, ln};
use crate::noise::{gumbel_bound, gumbel_of};
use crate::{Noise, TokenId};

/// The tokens that can be drawn and their probabilities: what the sampler chain makes of a row.
///
/// Only the logits are kept until probabilities are asked for: to draw by [`Noise`] needs none.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// By ascending id.
    candidates: Vec<Candidate>,
    /// The largest logit of the row.
    peak: f32,
    /// Probabilities are proportional to exp((logit - peak) * sharpness).
    sharpness: f64,
    /// Of each candidate; empty until asked for.
    probabilities: Vec<f64>,
    row: Vec<f32>,
    peaks: Vec<f32>,
    sums: Vec<[f64; 4]>,
}

impl Distribution {
    /// A distribution over nothing, to be filled by [`Sampler::shape`](super::Sampler::shape).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many tokens can be drawn.
    #[must_use]
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Whether it was never filled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// The tokens that can be drawn, by ascending id.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = TokenId> {
        self.candidates.iter().map(|candidate| candidate.token)
    }

    /// The probability of each of [`tokens`](Self::tokens), in their order. Their sum is 1 but for rounding.
    pub fn probabilities(&mut self) -> &[f64] {
        if self.probabilities.len() != self.candidates.len() {
            self.probabilities.clear();
            let weights = self
                .candidates
                .iter()
                .map(|candidate| exp(exponent(candidate.logit, self.peak, self.sharpness)));
            self.probabilities.extend(weights);
            let total: f64 = self.probabilities.iter().sum();
            for probability in &mut self.probabilities {
                *probability /= total;
            }
        }
        &self.probabilities
    }

    /// The probability of `token`; 0 when it cannot be drawn.
    pub fn probability(&mut self, token: TokenId) -> f64 {
        self.place(token)
            .map_or(0.0, |place| self.probabilities()[place])
    }

    /// The most likely token, lowest id on ties. `None` when there is nothing to draw.
    #[must_use]
    pub fn most_likely(&self) -> Option<TokenId> {
        self.candidates
            .iter()
            .min_by(|a, b| a.order(b))
            .map(|best| best.token)
    }

    /// Draws by Gumbel-max: the token with the largest log-probability plus noise, lowest id on ties. `None` when there is nothing to draw.
    ///
    /// Over all seeds, a token is drawn with its probability.
    #[must_use]
    pub fn draw(&self, noise: Noise) -> Option<TokenId> {
        if let [only] = self.candidates[..] {
            return Some(only.token);
        }
        let mut best = f64::NEG_INFINITY;
        let mut drawn = None;
        for candidate in &self.candidates {
            let log_weight = exponent(candidate.logit, self.peak, self.sharpness);
            let bits = noise.bits(candidate.token);
            // Most tokens cannot win whatever their noise is exactly: no logarithm for those.
            if log_weight + gumbel_bound(bits) < best {
                continue;
            }
            let perturbed = log_weight + gumbel_of(bits);
            if perturbed > best || drawn.is_none() {
                best = perturbed;
                drawn = Some(candidate.token);
            }
        }
        drawn
    }

    /// The tokens with their probabilities, once [`probabilities`](Self::probabilities) were asked for.
    pub(crate) fn weighed(&self) -> impl Iterator<Item = (TokenId, f64)> {
        self.tokens().zip(self.probabilities.iter().copied())
    }

    /// Natural logarithm of the probability of `token`; minus infinity when it cannot be drawn.
    pub(crate) fn log_probability(&mut self, token: TokenId) -> f64 {
        ln(self.probability(token))
    }

    /// The `count` most likely tokens, most likely first.
    pub(crate) fn top(&self, count: usize) -> Vec<TokenId> {
        let mut sorted = self.candidates.clone();
        sorted.sort_unstable_by(Candidate::order);
        sorted
            .into_iter()
            .take(count)
            .map(|candidate| candidate.token)
            .collect()
    }

    /// Where `token` stands among the candidates.
    fn place(&self, token: TokenId) -> Option<usize> {
        self.candidates
            .binary_search_by_key(&token, |candidate| candidate.token)
            .ok()
    }

    /// Steps 4 to 7 of the chain, from a row that went through 1 to 3.
    pub(super) fn fill(&mut self, row: &[f32], config: &SamplerConfig) -> Result<(), RowError> {
        self.candidates.clear();
        self.probabilities.clear();
        let best = argmax(row)?;
        self.peak = best.logit;
        self.sharpness = 1.0 / f64::from(config.temperature);
        if config.temperature == 0.0 {
            self.sharpness = 1.0;
            self.candidates.push(best);
            return Ok(());
        }
        let lowest = ln(f64::from(config.min_p));
        let some = config.top_k > 0 && config.top_k < row.len();
        if some {
            largest(row, config.top_k, &mut self.peaks, &mut self.candidates);
        }
        if config.top_p < 1.0 {
            let wanted = f64::from(config.top_p);
            if some {
                let weights = self
                    .candidates
                    .iter()
                    .map(|candidate| exp(exponent(candidate.logit, self.peak, self.sharpness)));
                let mass = weights.sum::<f64>();
                self.cut(wanted * mass);
            } else {
                self.nucleus(row, wanted);
            }
        } else if !some {
            // What lies far below `min_p` need not be collected.
            let floor = self.floor(0.125 - lowest);
            collect(row, floor, &mut self.candidates, |_| true);
        }
        if config.min_p > 0.0 {
            let (peak, sharpness) = (self.peak, self.sharpness);
            self.candidates
                .retain(|candidate| exponent(candidate.logit, peak, sharpness) >= lowest);
        }
        self.candidates
            .sort_unstable_by_key(|candidate| candidate.token);
        Ok(())
    }

    /// `top_p` of a whole row: the fewest most likely tokens whose weights reach that share of all weights.
    ///
    /// Nothing is sorted but the tokens around the cut: weights are summed by ranges of likelihood, and only the range in which the goal is reached
    /// is looked into. The sums run over the ranges from the most likely down, each in four strided parts by ascending id.
    fn nucleus(&mut self, row: &[f32], top_p: f64) {
        let (peak, sharpness) = (self.peak, self.sharpness);
        // Tokens in a row often share a range: four sums for each keep one addition from waiting for the other.
        let partial = &mut self.sums;
        partial.clear();
        partial.resize(RANGES, [0.0; 4]);
        for logits in row.chunks(WEIGHED_TOGETHER) {
            let mut weights = [0.0; WEIGHED_TOGETHER];
            for (weight, &logit) in weights.iter_mut().zip(logits) {
                *weight = exp(exponent(logit, peak, sharpness));
            }
            for (i, (weight, &logit)) in weights.iter().zip(logits).enumerate() {
                partial[range(exponent(logit, peak, sharpness))][i % 4] += weight;
            }
        }
        let sums = partial.iter().map(|[a, b, c, d]| (a + b) + (c + d));
        let goal = top_p * sums.clone().sum::<f64>();
        let mut reached = 0.0;
        let Some(around) = sums.clone().position(|sum| {
            let within = reached + sum >= goal;
            reached += if within { 0.0 } else { sum };
            within
        }) else {
            // The goal is all there is, but for rounding.
            return collect(row, f32::NEG_INFINITY, &mut self.candidates, |_| true);
        };
        // One range further down for the rounding. The last range is open.
        let depth = if around + 1 < RANGES {
            (around + 2) as f64 / 8.0
        } else {
            f64::INFINITY
        };
        let floor = self.floor(depth);
        collect(row, floor, &mut self.candidates, |candidate| {
            range(exponent(candidate.logit, peak, sharpness)) == around
        });
        self.candidates.sort_unstable_by(Candidate::order);
        self.cut(goal - reached);
        if let Some(&last) = self.candidates.last() {
            collect(row, last.logit, &mut self.candidates, |candidate| {
                candidate.order(&last).is_le()
            });
        }
    }

    /// Keeps the first candidates, at least one, until their weights reach `goal`; all when they do not. They are sorted by likelihood.
    fn cut(&mut self, goal: f64) {
        let mut reached = 0.0;
        let last = self.candidates.iter().position(|candidate| {
            reached += exp(exponent(candidate.logit, self.peak, self.sharpness));
            reached >= goal
        });
        self.candidates
            .truncate(last.map_or(usize::MAX, |last| last + 1));
    }

    /// A logit below that of every token whose exponent is above `-depth` by more than a rounding. (Rounding is monotone, and those logits are f32 already.)
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the rounding is accounted for"
    )]
    fn floor(&self, depth: f64) -> f32 {
        (f64::from(self.peak) - depth / self.sharpness) as f32
    }

    /// Lends the scratch row.
    pub(super) fn take_row(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.row)
    }

    /// Takes the scratch row back.
    pub(super) fn return_row(&mut self, row: Vec<f32>) {
        self.row = row;
    }
}

/// Ranges of likelihood by which [`Distribution::nucleus`] sums: eighths of a natural logarithm, the last one open.
const RANGES: usize = 512;
/// Weights computed in one loop, which the compiler vectorises.
const WEIGHED_TOGETHER: usize = 64;

/// The range of likelihood that an exponent lies in. A larger exponent never lies in a later range.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an exponent is 0 or less, and the cast saturates"
)]
fn range(exponent: f64) -> usize {
    ((exponent * -8.0) as usize).min(RANGES - 1)
}

/// The natural logarithm of a weight: 0 at the peak, less elsewhere.
#[inline]
fn exponent(logit: f32, peak: f32, sharpness: f64) -> f64 {
    (f64::from(logit) - f64::from(peak)) * sharpness
}

/// The sum of exp((logit - peak) * sharpness) over a row: eight strided f64 sums, then a tree.
pub(crate) fn mass(row: &[f32], peak: f32, sharpness: f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0_f64; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for logits in whole {
        for lane in 0..LANES {
            sums[lane] += exp(exponent(logits[lane], peak, sharpness));
        }
    }
    for (lane, &logit) in rest.iter().enumerate() {
        sums[lane] += exp(exponent(logit, peak, sharpness));
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}
