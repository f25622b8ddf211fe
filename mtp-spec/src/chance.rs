use std::fmt;

use crate::noise::stream_bits;

/// What a random number is for. Each has its own stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// To draw a draft from the drafter's distribution.
    Draft,
    /// To accept a draft or not.
    Accept,
    /// To draw a token from the target's distribution, or from what is left of it after a reject.
    Token,
}

/// Names one use of randomness by the classic rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Draw {
    /// Absolute position of the token in question.
    pub position: usize,
    /// Absolute position of the first token that the round can emit. A position is drafted again in a later round with other
    /// randomness, so that a drafter which remembers its refused drafts cannot bias the output.
    pub round: usize,
    /// What it is for.
    pub purpose: Purpose,
}

/// The randomness of [`Acceptance::Classic`](crate::Acceptance::Classic), behind a trait so that a proof can walk all branches with their probabilities.
pub trait Chance: Send {
    /// Whether an event of this probability (0 to 1) happens.
    fn happens(&mut self, probability: f64, draw: Draw) -> bool;

    /// An index into `weights`, each with probability proportional to its weight. The weights are 0 or more, finite, and not all 0;
    /// the index must be of one above 0.
    fn pick(&mut self, weights: &[f64], draw: Draw) -> usize;
}

impl fmt::Debug for dyn Chance + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chance")
    }
}

/// Uniform numbers that are a function of (seed, [`Draw`]) alone, by the counter-based generator of [`Noise`](crate::Noise).
#[derive(Clone, Copy, Debug)]
pub struct Seeded {
    seed: u64,
}

impl Seeded {
    /// The streams of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    fn uniform(&self, draw: Draw) -> f64 {
        let purpose = match draw.purpose {
            Purpose::Draft => 1,
            Purpose::Accept => 2,
            Purpose::Token => 3,
        };
        // The position leads to a stream, the round and the purpose to a number in it.
        let bits = stream_bits(
            !self.seed,
            draw.position as u64,
            (draw.round as u64) << 2 | purpose,
        );
        (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
}

impl Chance for Seeded {
    fn happens(&mut self, probability: f64, draw: Draw) -> bool {
        self.uniform(draw) < probability
    }

    fn pick(&mut self, weights: &[f64], draw: Draw) -> usize {
        let total: f64 = weights.iter().sum();
        let goal = self.uniform(draw) * total;
        let mut reached = 0.0;
        let mut last = 0;
        for (i, &weight) in weights.iter().enumerate() {
            if weight > 0.0 {
                reached += weight;
                last = i;
                if goal < reached {
                    break;
                }
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(purpose: Purpose) -> impl Iterator<Item = Draw> {
        (0..20_000).map(move |position| Draw {
            position,
            round: position,
            purpose,
        })
    }

    #[test]
    fn picks_follow_the_weights() {
        let mut chance = Seeded::new(7);
        let mut counts = [0_u32; 4];
        for draw in draws(Purpose::Token) {
            counts[chance.pick(&[1.0, 0.0, 3.0, 4.0], draw)] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, share) in [(counts[0], 0.125), (counts[2], 0.375), (counts[3], 0.5)] {
            // Five standard deviations of 20,000 draws are at most 0.018.
            assert!(
                (f64::from(count) / 20_000.0 - share).abs() < 0.018,
                "{counts:?}"
            );
        }
    }

    #[test]
    fn certain_events_are_certain() {
        let mut chance = Seeded::new(1);
        for draw in draws(Purpose::Accept) {
            assert!(chance.happens(1.0, draw));
            assert!(!chance.happens(0.0, draw));
        }
    }

    #[test]
    fn a_number_depends_on_the_position_the_round_and_the_purpose() {
        let chance = Seeded::new(3);
        let draw = Draw {
            position: 5,
            round: 4,
            purpose: Purpose::Token,
        };
        let others = [
            Draw {
                position: 6,
                ..draw
            },
            Draw { round: 5, ..draw },
            Draw {
                purpose: Purpose::Draft,
                ..draw
            },
        ];
        for other in others {
            assert_ne!(
                chance.uniform(draw).to_bits(),
                chance.uniform(other).to_bits()
            );
        }
        assert_ne!(
            chance.uniform(draw).to_bits(),
            Seeded::new(4).uniform(draw).to_bits()
        );
    }
}
