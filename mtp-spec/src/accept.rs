//! The two ways of deciding a draft.

use crate::{Chance, Distribution, Draw, Noise, Purpose, TokenId};

/// A token of the output, and whether it is the draft that stood in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) token: TokenId,
    pub(crate) accepted: bool,
}

/// A draft as the classic rule needs it.
#[derive(Debug)]
pub(crate) struct Drafted<'a> {
    pub(crate) token: TokenId,
    /// What it was drawn from; `None` when it was chosen outright, which is a distribution with all its mass on the token.
    pub(crate) from: Option<&'a mut Distribution>,
}

/// The coupled rule: the target's own draw, whatever the draft is.
pub(crate) fn coupled(p: &Distribution, draft: Option<TokenId>, noise: Noise) -> Option<Verdict> {
    let token = p.draw(noise)?;
    Some(Verdict {
        token,
        accepted: draft == Some(token),
    })
}

/// The classic rule: the draft with probability min(1, p/q), else a draw from what p has more than q; without a draft, a
/// draw from p. `left` is scratch.
pub(crate) fn classic(
    p: &mut Distribution,
    draft: Option<Drafted<'_>>,
    chance: &mut dyn Chance,
    draw: impl Fn(Purpose) -> Draw,
    left: &mut Vec<f64>,
) -> Option<Verdict> {
    if let Some(mut draft) = draft {
        if chance.happens(accept_probability(p, &mut draft), draw(Purpose::Accept)) {
            return Some(Verdict {
                token: draft.token,
                accepted: true,
            });
        }
        residual(p, &mut draft, left);
    } else {
        left.clear();
        left.extend_from_slice(p.probabilities());
    }
    let place = chance.pick(left, draw(Purpose::Token));
    let token = p.tokens().nth(place)?;
    Some(Verdict {
        token,
        accepted: false,
    })
}

/// min(1, p(d) / q(d)).
fn accept_probability(p: &mut Distribution, draft: &mut Drafted<'_>) -> f64 {
    let wanted = p.probability(draft.token);
    let offered = draft
        .from
        .as_mut()
        .map_or(1.0, |q| q.probability(draft.token));
    if wanted >= offered {
        1.0
    } else {
        wanted / offered
    }
}

/// max(p - q, 0), not normalised, for each of the tokens of p.
///
/// A reject means that q has more of some token than p, so p has more of another. Should rounding leave nothing all the same, p and q are equal
/// to the last bits, and p stands in.
fn residual(p: &mut Distribution, draft: &mut Drafted<'_>, left: &mut Vec<f64>) {
    left.clear();
    left.extend_from_slice(p.probabilities());
    match &mut draft.from {
        None => {
            if let Some(place) = p.tokens().position(|token| token == draft.token) {
                left[place] = 0.0;
            }
        }
        Some(q) => {
            q.probabilities();
            let mut offered = q.weighed();
            let mut next = offered.next();
            for (token, left) in p.tokens().zip(left.iter_mut()) {
                while next.is_some_and(|(other, _)| other < token) {
                    next = offered.next();
                }
                if let Some((other, probability)) = next
                    && other == token
                {
                    *left = (*left - probability).max(0.0);
                }
            }
        }
    }
    if !left.iter().any(|&weight| weight > 0.0) {
        left.copy_from_slice(p.probabilities());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{History, Sampler, SamplerConfig};

    #[expect(clippy::cast_possible_truncation, reason = "logits are f32")]
    fn distribution(probabilities: &[f64]) -> Distribution {
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln() as f32).collect();
        let sampler = Sampler::new(SamplerConfig::default(), logits.len()).unwrap();
        let mut out = Distribution::new();
        sampler
            .shape(&logits, &History::default(), None, &mut out)
            .unwrap();
        out
    }

    fn normalised(left: &[f64]) -> Vec<f64> {
        let total: f64 = left.iter().sum();
        left.iter().map(|weight| weight / total).collect()
    }

    fn numbers(value: &serde_json::Value) -> Vec<f64> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|x| x.as_f64().unwrap())
            .collect()
    }

    fn close(found: &[f64], expected: &[f64], bound: f64) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < bound, "{found:?} is not {expected:?}");
        }
    }

    /// The stored cases give p and q; here they go through f32 logits, whose rounding moves a probability by up to 1e-6.
    #[test]
    fn the_stored_cases_are_met() {
        let stored = include_str!("../../testdata/spec/spec-accept-rules.json");
        let stored: serde_json::Value = serde_json::from_str(stored).unwrap();
        let cases = stored["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 6);
        for case in cases {
            let (mut p, mut q) = (
                distribution(&numbers(&case["p"])),
                distribution(&numbers(&case["q"])),
            );
            let mut left = Vec::new();
            for (rule, from) in [("onehot", false), ("sampled", true)] {
                let rule = &case[rule];
                let mut draft = Drafted {
                    token: TokenId(u32::try_from(rule["draft"].as_u64().unwrap()).unwrap()),
                    from: from.then_some(&mut q),
                };
                let accept = accept_probability(&mut p, &mut draft);
                close(
                    &[accept],
                    &[rule["accept_probability"].as_f64().unwrap()],
                    3e-6,
                );
                residual(&mut p, &mut draft, &mut left);
                close(
                    &normalised(&left),
                    &numbers(&rule["on_reject_distribution"]),
                    3e-6,
                );
            }
            // What a sampled draft is accepted with, over all drafts: the overlap of p and q.
            let expected: f64 = (0..8)
                .map(|token| {
                    let token = TokenId(token);
                    let offered = q.probability(token);
                    offered
                        * accept_probability(
                            &mut p,
                            &mut Drafted {
                                token,
                                from: Some(&mut q),
                            },
                        )
                })
                .sum();
            close(
                &[expected],
                &[case["sampled"]["expected_acceptance"].as_f64().unwrap()],
                3e-6,
            );
        }
    }

    #[test]
    fn equal_distributions_leave_p_itself() {
        let (mut p, mut q) = (distribution(&[0.25, 0.75]), distribution(&[0.25, 0.75]));
        let mut left = Vec::new();
        let mut draft = Drafted {
            token: TokenId(1),
            from: Some(&mut q),
        };
        assert_eq!(accept_probability(&mut p, &mut draft), 1.0);
        residual(&mut p, &mut draft, &mut left);
        assert_eq!(left, p.probabilities());
    }
}
