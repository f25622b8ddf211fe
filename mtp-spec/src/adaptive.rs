use std::time::Duration;

use crate::Step;

/// Decides whether drafting pays, from what steps took.
///
/// Reads no clock: the caller measures and tells. Before each step it passes [`drafts`](Self::drafts) to
/// [`Decoder::set_drafts`](crate::Decoder::set_drafts), after it calls [`record`](Self::record). The choice never changes the output of
/// [`Acceptance::Coupled`](crate::Acceptance::Coupled).
///
/// It drafts for a trial, takes a few plain steps to compare, and then does what costs less time per token. A loss pauses drafting,
/// longer each time in a row, until the next trial; a win is looked at again from time to time.
#[derive(Clone, Debug)]
pub struct Adaptive {
    config: AdaptiveConfig,
    phase: Phase,
    /// Steps left in the phase.
    left: u32,
    /// Length of the next pause.
    pause: u32,
    drafting: Rate,
    plain: Rate,
}

/// Lengths of the phases of [`Adaptive`], in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveConfig {
    /// Drafts of a round while drafting.
    pub drafts: usize,
    /// Rounds with drafts before they are judged.
    pub trial: u32,
    /// Plain steps to compare with.
    pub probe: u32,
    /// Rounds with drafts after a win, before the next comparison.
    pub recheck: u32,
    /// Plain steps after the first loss; twice as many after each further one.
    pub pause: u32,
    /// The longest pause.
    pub longest_pause: u32,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self {
            drafts: 1,
            trial: 16,
            probe: 4,
            recheck: 512,
            pause: 64,
            longest_pause: 1024,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Drafts, to be judged at the end.
    Trial,
    /// Plain, to compare with.
    Probe,
    /// Drafts, because they won.
    Drafting,
    /// Plain, because drafts lost.
    Paused,
}

impl Adaptive {
    /// Begins with a trial. Phases of no steps count as one step.
    #[must_use]
    pub fn new(config: AdaptiveConfig) -> Self {
        Self {
            config,
            phase: Phase::Trial,
            left: config.trial.max(1),
            pause: config.pause.max(1),
            drafting: Rate::default(),
            plain: Rate::default(),
        }
    }

    /// Drafts for the next round.
    #[must_use]
    pub fn drafts(&self) -> usize {
        match self.phase {
            Phase::Trial | Phase::Drafting => self.config.drafts,
            Phase::Probe | Phase::Paused => 0,
        }
    }

    /// Seconds per token with drafts, as far as measured.
    #[must_use]
    pub fn drafting_cost(&self) -> Option<f64> {
        self.drafting.seconds_per_token()
    }

    /// Seconds per token without drafts, as far as measured.
    #[must_use]
    pub fn plain_cost(&self) -> Option<f64> {
        self.plain.seconds_per_token()
    }

    /// Tells what a step did and how long it took. A step that needed no pass of the target tells nothing.
    pub fn record(&mut self, step: &Step<'_>, took: Duration) {
        if step.rows == 0 || step.tokens.is_empty() {
            return;
        }
        let rate = if self.drafts() > 0 {
            &mut self.drafting
        } else {
            &mut self.plain
        };
        rate.add(took, step.tokens.len());
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return;
        }
        let config = self.config;
        (self.phase, self.left) = match self.phase {
            Phase::Trial | Phase::Drafting => {
                // Compare with plain steps of now, not of a shorter context.
                self.plain = Rate::default();
                (Phase::Probe, config.probe)
            }
            Phase::Probe if self.drafting_pays() => {
                self.pause = config.pause.max(1);
                (Phase::Drafting, config.recheck)
            }
            Phase::Probe => {
                let pause = self.pause;
                self.pause = pause.saturating_mul(2).min(config.longest_pause.max(1));
                (Phase::Paused, pause)
            }
            Phase::Paused => {
                self.drafting = Rate::default();
                (Phase::Trial, config.trial)
            }
        };
        self.left = self.left.max(1);
    }

    fn drafting_pays(&self) -> bool {
        match (
            self.drafting.seconds_per_token(),
            self.plain.seconds_per_token(),
        ) {
            (Some(drafting), Some(plain)) => drafting <= plain,
            _ => true,
        }
    }
}

/// Seconds and tokens, in which a step of long ago counts less: 1/e after 32 steps.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    seconds: f64,
    tokens: f64,
}

impl Rate {
    const FADE: f64 = 1.0 - 1.0 / 32.0;

    fn add(&mut self, took: Duration, tokens: usize) {
        self.seconds = self.seconds * Self::FADE + took.as_secs_f64();
        self.tokens = self.tokens * Self::FADE + tokens as f64;
    }

    fn seconds_per_token(self) -> Option<f64> {
        (self.tokens > 0.0).then(|| self.seconds / self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Emitted, TokenId};

    /// Runs a policy against a world in which a plain step takes 1 and a round `round` milliseconds, and a draft is accepted in `accepted` of 10 rounds.
    /// Returns which of the steps drafted.
    fn world(policy: &mut Adaptive, steps: usize, round: u64, accepted: usize) -> Vec<bool> {
        let token = Emitted {
            token: TokenId(0),
            position: 0,
            drafted: false,
            logprobs: None,
        };
        let tokens = [token.clone(), token];
        (0..steps)
            .map(|i| {
                let drafts = policy.drafts();
                let hit = drafts > 0 && i % 10 < accepted;
                let step = Step {
                    tokens: &tokens[..1 + usize::from(hit)],
                    rows: 1 + drafts,
                    drafted: drafts,
                    accepted: usize::from(hit),
                    finish: None,
                };
                let millis = if drafts > 0 { round } else { 1000 };
                policy.record(&step, Duration::from_millis(millis));
                drafts > 0
            })
            .collect()
    }

    fn drafted(steps: &[bool]) -> usize {
        steps.iter().filter(|&&drafted| drafted).count()
    }

    #[test]
    fn drafts_that_pay_are_kept() {
        let mut policy = Adaptive::new(AdaptiveConfig::default());
        let steps = world(&mut policy, 2000, 1150, 5);
        // All but the probes: 4 plain steps after the trial and after every 512 rounds.
        assert_eq!(drafted(&steps), 2000 - 4 * 4);
    }

    #[test]
    fn drafts_that_cost_more_than_they_bring_are_paused_longer_and_longer() {
        let mut policy = Adaptive::new(AdaptiveConfig::default());
        let steps = world(&mut policy, 2000, 1150, 1);
        assert!(steps[..16].iter().all(|&drafted| drafted));
        // Trials of 16 with probes of 4 between pauses of 64, 128, 256, 512 and 1024.
        assert_eq!(drafted(&steps), 5 * 16);
        assert!(policy.drafting_cost().unwrap() > policy.plain_cost().unwrap());
    }

    #[test]
    fn drafting_comes_back_when_the_text_changes() {
        let mut policy = Adaptive::new(AdaptiveConfig::default());
        let bad = world(&mut policy, 100, 1500, 0);
        assert_eq!(drafted(&bad), 16 + 16);
        // The pause that follows lasts 128 steps; one trial must do then, whatever the one before had cost.
        let good = world(&mut policy, 600, 1500, 6);
        assert_eq!(drafted(&good[..132]), 0);
        assert_eq!(drafted(&good[132..]), 600 - 132 - 4);
    }

    #[test]
    fn a_step_without_a_pass_is_not_counted() {
        let mut policy = Adaptive::new(AdaptiveConfig::default());
        policy.record(&Step::default(), Duration::from_secs(9));
        assert_eq!(policy.drafting_cost(), None);
        let never = AdaptiveConfig {
            trial: 0,
            probe: 0,
            pause: 0,
            longest_pause: 0,
            recheck: 0,
            drafts: 1,
        };
        let steps = world(&mut Adaptive::new(never), 100, 3000, 0);
        assert!(
            drafted(&steps) > 20 && drafted(&steps) < 80,
            "{}",
            drafted(&steps)
        );
    }
}
