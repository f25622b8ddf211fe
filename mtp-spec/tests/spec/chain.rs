//! The sampler chain against the naive one, and the laws that hold whatever the numbers are.

use crate::naive;
use mtp_spec::{Distribution, History, Noise, RowError, Sampler, SamplerConfig, TokenId, TokenSet};
use proptest::prelude::*;

/// A row, what stands before it, and what is asked.
#[derive(Clone, Debug)]
struct Case {
    logits: Vec<f32>,
    prompt: Vec<TokenId>,
    output: Vec<TokenId>,
    allowed: Option<Vec<bool>>,
    config: SamplerConfig,
}

fn token(index: usize) -> TokenId {
    TokenId(u32::try_from(index).unwrap())
}

/// Rows in which ties are common.
fn logits(vocab: usize) -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        1 => Just(f32::NEG_INFINITY),
        5 => (-24_i8..24).prop_map(|x| f32::from(x) * 0.25),
        5 => -12.0_f32..12.0,
    ];
    prop::collection::vec(logit, vocab)
}

fn configs(vocab: usize) -> impl Strategy<Value = SamplerConfig> {
    let tokens = |count| prop::collection::vec((0..vocab).prop_map(token), 0..count);
    let filters = (
        prop_oneof![Just(0.0_f32), Just(1.0), 0.05_f32..3.0],
        prop_oneof![Just(0), 1..2 * vocab],
        prop_oneof![Just(1.0_f32), 0.0_f32..1.0],
        prop_oneof![Just(0.0_f32), 0.0_f32..=1.0],
    );
    let penalties = (
        prop_oneof![Just(1.0_f32), 0.5_f32..2.0],
        -2.0_f32..2.0,
        -2.0_f32..2.0,
        any::<bool>(),
    );
    let bans = (
        tokens(4),
        tokens(3),
        0..6_usize,
        prop::option::of(1..2 * vocab),
    );
    let bias = prop::collection::btree_map(
        (0..vocab).prop_map(token),
        prop_oneof![Just(-100.0_f32), -8.0_f32..8.0],
        0..4,
    );
    (filters, penalties, bans, bias).prop_map(
        |((temperature, top_k, top_p, min_p), penalties, bans, bias)| {
            let (repetition_penalty, presence, frequency, penalised) = penalties;
            let (banned, stop_tokens, min_tokens, limit) = bans;
            SamplerConfig {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty,
                presence_penalty: if penalised { presence } else { 0.0 },
                frequency_penalty: if penalised { frequency } else { 0.0 },
                logit_bias: bias.into_iter().collect(),
                banned,
                vocab_limit: limit.map(|limit| token(limit).0),
                stop_tokens,
                min_tokens,
                seed: 0,
            }
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    prop_oneof![2..12_usize, 200..700_usize].prop_flat_map(|vocab| {
        let tokens = || prop::collection::vec((0..vocab).prop_map(token), 0..8);
        let allowed = prop::option::of(prop::collection::vec(prop::bool::weighted(0.8), vocab));
        (logits(vocab), tokens(), tokens(), allowed, configs(vocab)).prop_map(
            |(logits, prompt, output, allowed, config)| Case {
                logits,
                prompt,
                output,
                allowed,
                config,
            },
        )
    })
}

impl Case {
    fn shape(&self) -> Result<Distribution, RowError> {
        let sampler = Sampler::new(self.config.clone(), self.logits.len()).unwrap();
        let mut history = History::new(&sampler, &self.prompt);
        for &token in &self.output {
            history.push(token);
        }
        let allowed = self.allowed.as_ref().map(|allowed| {
            let mut set = TokenSet::empty(allowed.len());
            for index in (0..allowed.len()).filter(|&index| allowed[index]) {
                set.insert(token(index));
            }
            set
        });
        let mut out = Distribution::new();
        sampler.shape(&self.logits, &history, allowed.as_ref(), &mut out)?;
        Ok(out)
    }

    fn with(&self, change: impl FnOnce(&mut SamplerConfig)) -> Self {
        let mut case = self.clone();
        change(&mut case.config);
        case
    }

    fn support(&self) -> Vec<TokenId> {
        self.shape()
            .map_or(Vec::new(), |distribution| distribution.tokens().collect())
    }

    fn is_allowed(&self, token: TokenId) -> bool {
        self.allowed
            .as_ref()
            .is_none_or(|allowed| allowed[token.index()])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_chain_is_the_naive_chain(case in cases()) {
        let judge = naive::distribution(&case.config, &case.logits, &case.prompt, &case.output, |token| case.is_allowed(token));
        let Some(judge) = judge else {
            prop_assert_eq!(case.shape().unwrap_err(), RowError::Nothing);
            return Ok(());
        };
        let mut found = case.shape().unwrap();
        // A cut that falls between two sums which differ in the last bit may go either way: then the supports differ by a token of the edge.
        let differ = (0..judge.len()).filter(|&i| (judge[i] > 0.0) != (found.probability(token(i)) > 0.0)).count();
        prop_assert!(differ == 0 || on_the_edge(&case, differ), "{} tokens differ", differ);
        if differ == 0 {
            for (i, &p) in judge.iter().enumerate() {
                let q = found.probability(token(i));
                prop_assert!((p - q).abs() < 1e-12, "token {}: {} is not {}", i, q, p);
            }
        }
    }

    #[test]
    fn probabilities_sum_to_one_over_ascending_tokens(case in cases()) {
        if let Ok(mut distribution) = case.shape() {
            let tokens: Vec<TokenId> = distribution.tokens().collect();
            prop_assert!(!tokens.is_empty());
            prop_assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
            let total: f64 = distribution.probabilities().iter().sum();
            prop_assert!((total - 1.0).abs() < 1e-12, "{}", total);
            prop_assert!(distribution.probabilities().iter().all(|&p| (0.0..=1.0 + 1e-15).contains(&p)));
        }
    }

    #[test]
    fn what_is_forbidden_is_never_drawn(case in cases(), seed in any::<u64>()) {
        if let Ok(distribution) = case.shape() {
            let drawn = distribution.draw(Noise::at(seed, 9)).unwrap();
            let config = &case.config;
            prop_assert!(distribution.tokens().any(|token| token == drawn));
            for token in distribution.tokens() {
                prop_assert!(case.is_allowed(token));
                prop_assert!(!config.banned.contains(&token));
                prop_assert!(!config.logit_bias.contains(&(token, -100.0)));
                prop_assert!(config.vocab_limit.is_none_or(|limit| token.0 < limit));
                prop_assert!(case.output.len() >= config.min_tokens || !config.stop_tokens.contains(&token));
                prop_assert!(case.logits[token.index()] > f32::NEG_INFINITY);
            }
        }
    }

    #[test]
    fn a_tighter_filter_keeps_a_subset(case in cases(), tighter in 0.0_f32..1.0) {
        let support = case.support();
        let keeps_within = |change: &dyn Fn(&mut SamplerConfig)| {
            let tight = case.with(change).support();
            (!tight.is_empty() || support.is_empty()) && tight.iter().all(|token| support.contains(token))
        };
        prop_assert!(keeps_within(&|c| c.top_p *= tighter));
        prop_assert!(keeps_within(&|c| c.min_p += (1.0 - c.min_p) * tighter));
        // Fewer candidates leave each a larger share, so the nucleus of what top_k leaves may only shrink.
        let fewer = if case.config.top_k == 0 { 3 } else { case.config.top_k.div_ceil(2) };
        prop_assert!(keeps_within(&|c| c.top_k = fewer));
        prop_assert!(keeps_within(&|c| c.temperature = 0.0));
        if case.config.top_k > 0 {
            prop_assert!(support.len() <= case.config.top_k);
        }
    }

    #[test]
    fn a_draw_is_the_largest_perturbed_logit(case in cases(), seed in any::<u64>()) {
        if let Ok(mut distribution) = case.shape() {
            let noise = Noise::at(seed, 3);
            let tokens: Vec<TokenId> = distribution.tokens().collect();
            let perturbed: Vec<f64> = tokens.iter().map(|&t| distribution.probability(t).ln() + noise.gumbel(t)).collect();
            let drawn = distribution.draw(noise).unwrap();
            let best = perturbed.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let place = tokens.iter().position(|&token| token == drawn).unwrap();
            prop_assert!(perturbed[place] > best - 1e-12);
        }
    }

    #[test]
    fn greedy_takes_the_most_likely_token_of_every_temperature(case in cases()) {
        let greedy = case.with(|c| c.temperature = 0.0);
        let warm = case.with(|c| if c.temperature == 0.0 { c.temperature = 1.3 });
        if let (Ok(greedy), Ok(warm)) = (greedy.shape(), warm.shape()) {
            prop_assert_eq!(greedy.len(), 1);
            prop_assert_eq!(greedy.most_likely(), warm.most_likely());
            prop_assert_eq!(greedy.draw(Noise::at(1, 1)), warm.most_likely());
        }
    }
}

/// Whether moving `top_p` or `min_p` by a hair also changes the support, so that rounding may have.
fn on_the_edge(case: &Case, differ: usize) -> bool {
    let hair = f32::EPSILON;
    let moved = |change: &dyn Fn(&mut SamplerConfig)| case.with(change).support().len();
    let support = case.support().len();
    let near = [
        moved(&|c| c.top_p = (c.top_p * (1.0 - hair)).max(0.0)),
        moved(&|c| c.top_p = (c.top_p * (1.0 + hair)).min(1.0)),
        moved(&|c| c.min_p = (c.min_p * (1.0 - hair)).max(0.0)),
        moved(&|c| c.min_p = (c.min_p * (1.0 + hair)).min(1.0)),
    ];
    near.iter().any(|&len| len.abs_diff(support) >= differ)
}

fn shaped(logits: &[f32], config: SamplerConfig) -> Vec<u32> {
    let case = Case {
        logits: logits.to_vec(),
        prompt: Vec::new(),
        output: Vec::new(),
        allowed: None,
        config,
    };
    case.support().into_iter().map(|token| token.0).collect()
}

#[test]
fn ties_go_to_the_lowest_id() {
    let row = [1.0, 2.0, 2.0, 2.0, 0.0];
    let config = SamplerConfig::default;
    assert_eq!(shaped(&row, SamplerConfig::greedy()), [1]);
    assert_eq!(
        shaped(
            &row,
            SamplerConfig {
                top_k: 2,
                ..config()
            }
        ),
        [1, 2]
    );
    assert_eq!(
        shaped(
            &row,
            SamplerConfig {
                top_p: 0.5,
                ..config()
            }
        ),
        [1, 2]
    );
    assert_eq!(
        shaped(
            &row,
            SamplerConfig {
                top_p: 0.0,
                ..config()
            }
        ),
        [1]
    );
    assert_eq!(
        shaped(
            &row,
            SamplerConfig {
                min_p: 1.0,
                ..config()
            }
        ),
        [1, 2, 3]
    );
    assert_eq!(shaped(&[0.0, -0.0], SamplerConfig::greedy()), [0]);
    // A nucleus that is reached exactly is reached.
    let half = SamplerConfig {
        top_p: 0.5,
        ..config()
    };
    assert_eq!(shaped(&[1.0, 1.0], half), [0]);
}

#[test]
fn extreme_temperatures_are_harmless() {
    let row = [3.0, 2.0, f32::NEG_INFINITY, f32::MIN, 3.0];
    for temperature in [f32::from_bits(1), 1e-30, 1e30, f32::MAX] {
        let config = SamplerConfig {
            temperature,
            top_p: 0.999,
            ..SamplerConfig::default()
        };
        let kept = shaped(&row, config);
        assert!(
            kept.contains(&0) && kept.contains(&4) && !kept.contains(&2),
            "{temperature}: {kept:?}"
        );
    }
}

#[test]
fn a_row_shorter_than_the_vocabulary_is_about_its_first_tokens() {
    let config = SamplerConfig {
        logit_bias: vec![(TokenId(5), 50.0)],
        ..SamplerConfig::default()
    };
    let sampler = Sampler::new(config, 6).unwrap();
    let mut out = Distribution::new();
    sampler
        .shape(&[0.0, 1.0], &History::default(), None, &mut out)
        .unwrap();
    assert_eq!(out.tokens().collect::<Vec<_>>(), [TokenId(0), TokenId(1)]);
    assert_eq!(
        sampler.shape(&[], &History::default(), None, &mut out),
        Err(RowError::Nothing)
    );
    assert!(out.is_empty());
    assert_eq!(out.draw(Noise::at(0, 0)), None);
}

/// A row as wide as Qwen3.5's, sampled with all filters and with none, against the naive chain.
#[test]
fn a_whole_vocabulary_is_sampled_as_the_naive_chain_does() {
    let vocab = 248_320;
    let mut numbers = crate::markov::Numbers(42);
    let logits: Vec<f32> = (0..vocab)
        .map(|_| (numbers.next() >> 40) as f32 / (1 << 20) as f32)
        .collect();
    let config = |temperature, top_k, top_p, min_p| SamplerConfig {
        temperature,
        top_k,
        top_p,
        min_p,
        ..SamplerConfig::default()
    };
    for config in [
        config(1.0, 0, 1.0, 0.0),
        config(0.6, 20, 0.95, 0.0),
        config(0.7, 0, 0.9, 0.0),
        config(1.0, 0, 0.3, 0.1),
        config(1.0, 0, 1.0, 0.2),
        config(0.0, 0, 1.0, 0.0),
    ] {
        let judge = naive::distribution(&config, &logits, &[], &[], |_| true).unwrap();
        let sampler = Sampler::new(config.clone(), vocab).unwrap();
        let mut found = Distribution::new();
        sampler
            .shape(&logits, &History::default(), None, &mut found)
            .unwrap();
        assert_eq!(
            found.len(),
            judge.iter().filter(|&&p| p > 0.0).count(),
            "{config:?}"
        );
        for seed in 0..10 {
            let noise = Noise::at(seed, 0);
            let possible = (0..vocab).filter(|&i| judge[i] > 0.0);
            let perturbed = possible.map(|i| (i, judge[i].ln() + noise.gumbel(token(i))));
            let (best, _) = perturbed.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            assert_eq!(found.draw(noise), Some(token(best)), "{config:?}");
        }
    }
}
