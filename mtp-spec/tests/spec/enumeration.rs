//! The classic rule by enumeration: every draft, every acceptance, every draw, with their exact probabilities, summed up to the distribution
//! of the output, against plain sampling computed by other code.

use std::collections::BTreeMap;

use crate::drafters::Kind;
use crate::markov::{Markov, Table};
use crate::masks::{Grammar, Walked, free, late, zigzag};
use crate::naive;
use crate::walk::Path;
use mtp_spec::{Acceptance, DecodeOptions, Decoder, DraftChoice, Sampler, SamplerConfig, TokenId};

type Outputs = BTreeMap<Vec<TokenId>, f64>;

/// All paths of the decoder taken together.
#[derive(Debug, Default)]
struct Walk {
    outputs: Outputs,
    paths: usize,
    /// The most drafts verified in a round.
    most_drafts: usize,
    /// Drafts accepted, over all paths.
    accepted: u64,
    /// The mean number of drafts accepted.
    mean_accepted: f64,
}

struct Case {
    config: SamplerConfig,
    grammar: Grammar,
    prompt: Vec<TokenId>,
    max_tokens: usize,
    target: Table,
    drafter: Table,
}

impl Case {
    fn new(vocab: usize, seed: u64) -> Self {
        let target = Table::random(vocab, 3.0, seed);
        Self {
            config: SamplerConfig::default(),
            grammar: free,
            prompt: vec![TokenId(1), TokenId(0)],
            max_tokens: 0,
            drafter: target.blurred(2.0, seed + 1000),
            target,
        }
    }

    /// Plain sampling by the naive chain: the probability of every output.
    fn plain(&self) -> Outputs {
        let mut outputs = Outputs::new();
        self.extend(&mut Vec::new(), 1.0, &mut outputs);
        outputs
    }

    fn extend(&self, output: &mut Vec<TokenId>, probability: f64, outputs: &mut Outputs) {
        let stopped = output
            .last()
            .is_some_and(|last| self.config.stop_tokens.contains(last));
        if output.len() == self.max_tokens || stopped {
            outputs.insert(output.clone(), probability);
            return;
        }
        let row = self
            .target
            .row(&[&self.prompt[..], output].concat())
            .to_vec();
        let allowed = |token| (self.grammar)(output, token);
        let distribution =
            naive::distribution(&self.config, &row, &self.prompt, output, allowed).unwrap();
        for (index, p) in distribution
            .into_iter()
            .enumerate()
            .filter(|&(_, p)| p > 0.0)
        {
            output.push(TokenId(u32::try_from(index).unwrap()));
            self.extend(output, probability * p, outputs);
            output.pop();
        }
    }

    /// Speculative sampling: all paths of the decoder.
    fn speculative(&self, drafts: usize, choice: DraftChoice, kind: &Kind) -> Walk {
        let mut walk = Walk::default();
        let path = Path::default();
        let sampler = Sampler::new(self.config.clone(), self.target.vocab).unwrap();
        loop {
            let mut options = DecodeOptions::new(sampler.clone());
            options.max_tokens = self.max_tokens;
            options.drafts = drafts;
            options.acceptance = Acceptance::Classic;
            options.draft_choice = choice;
            options.mask = Some(Box::new(Walked::new(self.grammar)));
            options.chance = Some(Box::new(path.clone()));
            let mut decoder = Decoder::new(Markov::new(self.target.clone()), kind.drafter());
            decoder.start(&self.prompt, options).unwrap();
            while decoder.finish().is_none() {
                decoder.step().unwrap();
            }
            *walk.outputs.entry(decoder.output().to_vec()).or_default() += path.probability();
            walk.paths += 1;
            walk.most_drafts = walk.most_drafts.max(decoder.statistics().by_place.len());
            walk.accepted += decoder.statistics().accepted;
            walk.mean_accepted += path.probability() * decoder.statistics().accepted as f64;
            if !path.advance() {
                return walk;
            }
        }
    }

    fn check(&self, name: &str, drafts: usize) {
        let plain = self.plain();
        let total: f64 = plain.values().sum();
        assert!((total - 1.0).abs() < 1e-12, "{name}: {total}");
        for choice in [DraftChoice::Argmax, DraftChoice::Sampled] {
            let walk = self.speculative(drafts, choice, &Kind::Head(self.drafter.clone()));
            assert_eq!(
                walk.most_drafts, drafts,
                "{name}: that many drafts are verified"
            );
            assert!(walk.accepted > 0, "{name}");
            same(
                &plain,
                &walk.outputs,
                &format!("{name}, {drafts} drafts, {choice:?}, {} paths", walk.paths),
            );
        }
    }
}

fn same(plain: &Outputs, found: &Outputs, name: &str) {
    for output in plain.keys().chain(found.keys()) {
        let probability = |outputs: &Outputs| outputs.get(output).copied().unwrap_or(0.0);
        let (expected, got) = (probability(plain), probability(found));
        assert!(
            (expected - got).abs() < 1e-12,
            "{name}: {output:?} has {got}, not {expected}"
        );
    }
}

/// What a setting changes in the plain one.
type Change = fn(&mut Case);

/// The settings that each get a proof.
fn settings() -> Vec<(&'static str, Change)> {
    vec![
        ("plain", |_| ()),
        ("greedy", |case| case.config.temperature = 0.0),
        ("bias", |case| {
            case.config.logit_bias = vec![(TokenId(0), 1.5), (TokenId(2), -100.0)];
        }),
        ("penalties", |case| {
            case.config.repetition_penalty = 1.3;
            case.config.presence_penalty = 0.4;
            case.config.frequency_penalty = -0.7;
        }),
        ("mask", |case| case.grammar = late),
        ("filters", |case| {
            case.config.top_k = 3;
            case.config.top_p = 0.9;
            case.config.min_p = 0.05;
        }),
        ("stop", |case| {
            case.config.stop_tokens = vec![TokenId(1)];
            case.config.min_tokens = 2;
        }),
        ("all", |case| {
            case.config.temperature = 1.4;
            case.config.logit_bias = vec![(TokenId(1), -0.5)];
            case.config.repetition_penalty = 0.8;
            case.config.frequency_penalty = 0.5;
            case.config.top_p = 0.95;
            case.config.stop_tokens = vec![TokenId(2)];
            case.grammar = late;
        }),
    ]
}

#[test]
fn the_output_of_the_classic_rule_has_the_plain_distribution_with_1_to_3_drafts() {
    for (name, change) in settings() {
        for drafts in [1, 2, 3] {
            let mut case = Case::new(4, 7);
            // The first token needs no round; then one round can hold all the drafts.
            case.max_tokens = drafts + 2;
            change(&mut case);
            case.check(name, drafts);
        }
    }
}

/// Three tokens, for four drafts branch half a million times even so.
#[test]
fn the_output_of_the_classic_rule_has_the_plain_distribution_with_4_drafts() {
    for (name, change) in settings() {
        let mut case = Case::new(3, 11);
        case.max_tokens = 6;
        change(&mut case);
        case.check(name, 4);
    }
}

#[test]
fn a_grammar_that_forbids_drafts_does_not_bend_the_distribution() {
    let mut case = Case::new(6, 3);
    case.grammar = zigzag;
    case.max_tokens = 4;
    let plain = case.plain();
    for kind in [
        Kind::Told(vec![TokenId(4); 12], 0),
        Kind::Noise(5),
        Kind::Lookup,
        Kind::Head(case.drafter.clone()),
    ] {
        let walk = case.speculative(2, DraftChoice::Sampled, &kind);
        same(
            &plain,
            &walk.outputs,
            &format!("{kind:?}, {} paths", walk.paths),
        );
    }
}

#[test]
fn a_draft_row_about_some_tokens_only_does_not_bend_the_distribution() {
    let mut case = Case::new(4, 23);
    case.max_tokens = 3;
    let kind = Kind::Subset(case.drafter.clone(), vec![TokenId(3), TokenId(1)]);
    for choice in [DraftChoice::Argmax, DraftChoice::Sampled] {
        let walk = case.speculative(2, choice, &kind);
        assert!(walk.accepted > 0);
        same(&case.plain(), &walk.outputs, "subset");
    }
}

/// The stored numeric cases, through the whole decoder: p and q as logits.
#[test]
#[expect(clippy::cast_possible_truncation, reason = "logits are f32")]
fn the_stored_cases_hold_in_the_decoder() {
    let stored = include_str!("../../../testdata/spec/spec-accept-rules.json");
    let stored: serde_json::Value = serde_json::from_str(stored).unwrap();
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|x| x.as_f64().unwrap())
            .collect()
    };
    let table = |p: &[f64]| Table::constant(&p.iter().map(|p| p.ln() as f32).collect::<Vec<_>>());
    for case in stored["cases"].as_array().unwrap() {
        let (p, q) = (numbers(&case["p"]), numbers(&case["q"]));
        let draft = TokenId(u32::try_from(case["onehot"]["draft"].as_u64().unwrap()).unwrap());
        let mut whole = Case::new(8, 0);
        whole.target = table(&p);
        whole.drafter = table(&q);
        whole.max_tokens = 3;
        let plain = whole.plain();
        for (choice, kind, accepted) in [
            (
                DraftChoice::Sampled,
                Kind::Head(whole.drafter.clone()),
                &case["sampled"]["expected_acceptance"],
            ),
            (
                DraftChoice::Argmax,
                Kind::Told(vec![draft; 9], 0),
                &case["onehot"]["accept_probability"],
            ),
        ] {
            let walk = whole.speculative(1, choice, &kind);
            // Three tokens, of which the second is drafted once. The f32 logits move a probability by up to 1e-6.
            let accepted = accepted.as_f64().unwrap();
            assert!((walk.mean_accepted - accepted).abs() < 3e-6, "{walk:?}");
            assert_eq!(walk.most_drafts, 1);
            same(
                &plain,
                &walk.outputs,
                "tokens are drawn from p, drafted or not",
            );
        }
    }
}
