//! What a request asks for, kept to the token: the faults of other engines, each as a sentence that holds here.

use crate::drafters::{Head, Kind};
use crate::markov::{Markov, Table};
use mtp_spec::{
    Acceptance, DecodeOptions, Decoder, Emitted, Finish, LogprobOptions, LogprobSource, NoDraft,
    PromptLookup, Sampler, SamplerConfig, SpecError, Target, TokenId, TokenLogprobs,
};

const VOCAB: usize = 10;
const PROMPT: [TokenId; 4] = [TokenId(1), TokenId(2), TokenId(3), TokenId(4)];

fn table() -> Table {
    Table::random(VOCAB, 2.5, 12)
}

fn options(config: &SamplerConfig, drafts: usize, max_tokens: usize) -> DecodeOptions {
    let mut options = DecodeOptions::new(Sampler::new(config.clone(), VOCAB).unwrap());
    options.drafts = drafts;
    options.max_tokens = max_tokens;
    options
}

fn decode(kind: &Kind, options: DecodeOptions) -> (Vec<Emitted>, Finish, Markov) {
    let mut decoder = Decoder::new(Markov::new(table()), kind.drafter());
    decoder.start(&PROMPT, options).unwrap();
    let mut emitted = Vec::new();
    while decoder.finish().is_none() {
        emitted.extend_from_slice(decoder.step().unwrap().tokens);
    }
    let finish = decoder.finish().unwrap();
    (emitted, finish, decoder.into_parts().0)
}

fn tokens(emitted: &[Emitted]) -> Vec<TokenId> {
    emitted.iter().map(|token| token.token).collect()
}

/// The plain output, and a drafter that is always right.
fn foreseen(config: &SamplerConfig, max_tokens: usize) -> (Vec<TokenId>, Kind) {
    let plain = tokens(&decode(&Kind::Plain, options(config, 0, max_tokens)).0);
    let sequence = [&PROMPT[..], &plain].concat();
    (plain, Kind::Told(sequence, 0))
}

#[test]
fn max_tokens_is_exact_and_nothing_is_drafted_beyond_it() {
    let config = SamplerConfig::greedy();
    let (plain, right) = foreseen(&config, 20);
    for max_tokens in 0..20 {
        for drafts in [0, 1, 4] {
            let (emitted, finish, target) = decode(&right, options(&config, drafts, max_tokens));
            assert_eq!(tokens(&emitted), plain[..max_tokens]);
            assert_eq!(finish, Finish::MaxTokens);
            // The last token needs no pass, and no row was computed for a token that cannot be emitted.
            assert_eq!(
                target.position(),
                PROMPT.len() + max_tokens.saturating_sub(1)
            );
            assert_eq!(
                target.blocks.iter().sum::<usize>(),
                max_tokens.saturating_sub(1)
            );
        }
    }
}

#[test]
fn a_stop_token_inside_an_accepted_run_ends_it_and_nothing_behind_it_leaks() {
    let free = SamplerConfig {
        seed: 4,
        ..SamplerConfig::default()
    };
    let (plain, right) = foreseen(&free, 40);
    let mut inside = 0;
    for stop in 0..u32::try_from(VOCAB).unwrap() {
        let Some(at) = plain.iter().position(|token| token.0 == stop) else {
            continue;
        };
        let config = SamplerConfig {
            stop_tokens: vec![TokenId(stop)],
            ..free.clone()
        };
        for drafts in [0, 3] {
            // With room for one token more, with no room to spare, and with much.
            for max_tokens in [at + 1, at + 2, 40] {
                let (emitted, finish, target) =
                    decode(&right, options(&config, drafts, max_tokens));
                assert_eq!(tokens(&emitted), plain[..=at]);
                assert_eq!(finish, Finish::Stop(TokenId(stop)), "stop wins over length");
                // Neither the stop token nor anything behind it is in the state.
                let (position, held, _) = target.state();
                assert_eq!(position, PROMPT.len() + at);
                assert_eq!(held, [&PROMPT[..], &plain[..at]].concat());
                inside += usize::from(emitted[at].drafted);
            }
        }
    }
    assert!(inside > 3, "some of the stops were drafted");
}

#[test]
fn min_tokens_keeps_the_output_from_ending() {
    let config = SamplerConfig {
        stop_tokens: (0..9).map(TokenId).collect(),
        min_tokens: 6,
        ..SamplerConfig::default()
    };
    for kind in [Kind::Plain, Kind::Head(table())] {
        let (emitted, finish, _) = decode(&kind, options(&config, 3, 50));
        assert!(emitted[..6].iter().all(|token| token.token == TokenId(9)));
        assert!(matches!(finish, Finish::Stop(_)));
        assert!(emitted.len() > 6);
    }
}

#[test]
fn a_run_cut_at_a_stop_string_leaves_a_sequence_that_goes_on() {
    let config = SamplerConfig {
        temperature: 0.8,
        seed: 9,
        ..SamplerConfig::default()
    };
    let (plain, right) = foreseen(&config, 30);
    let mut decoder = Decoder::new(Markov::new(table()), right.drafter());
    decoder.start(&PROMPT, options(&config, 4, 30)).unwrap();
    decoder.step().unwrap();
    let round = decoder.round().unwrap().unwrap();
    assert_eq!(round.tokens().len(), 5);
    assert_eq!(round.finish(), None);
    round.keep(2).unwrap();
    assert_eq!(decoder.output(), &plain[..3]);
    assert_eq!(decoder.target().position(), PROMPT.len() + 2);
    assert_eq!(decoder.statistics().accepted, 2);
    assert_eq!(decoder.statistics().drafted, 4);
    while decoder.finish().is_none() {
        decoder.step().unwrap();
    }
    assert_eq!(decoder.output(), plain);
    let Some(round) = decoder.round().unwrap() else {
        return;
    };
    panic!("{:?} after the end", round.tokens());
}

#[test]
fn a_capacity_is_used_to_the_last_token_and_not_exceeded() {
    let config = SamplerConfig::greedy();
    let (plain, right) = foreseen(&config, 30);
    for capacity in PROMPT.len()..16 {
        for drafts in [0, 1, 5] {
            let mut target = Markov::new(table());
            target.capacity = capacity;
            let mut decoder = Decoder::new(target, right.drafter());
            decoder
                .start(&PROMPT, options(&config, drafts, 30))
                .unwrap();
            while decoder.finish().is_none() {
                decoder.step().unwrap();
            }
            assert_eq!(decoder.finish(), Some(Finish::Capacity));
            assert_eq!(decoder.target().position(), capacity);
            assert_eq!(decoder.output(), &plain[..capacity - PROMPT.len() + 1]);
        }
    }
}

#[test]
fn every_emitted_token_has_its_own_log_probability_in_order() {
    let config = SamplerConfig {
        temperature: 0.6,
        top_k: 4,
        presence_penalty: 1.0,
        logit_bias: vec![(TokenId(3), 1.0)],
        seed: 2,
        ..SamplerConfig::default()
    };
    let (_, right) = foreseen(&config, 25);
    for source in [LogprobSource::Model, LogprobSource::Sampler] {
        let with = |drafts| {
            let mut options = options(&config, drafts, 25);
            options.logprobs = Some(LogprobOptions { top: 3, source });
            options
        };
        let (plain, _, _) = decode(&Kind::Plain, with(0));
        let (drafted, _, _) = decode(&right, with(3));
        assert!(drafted.iter().filter(|token| token.drafted).count() > 15);
        for (i, (a, b)) in plain.iter().zip(&drafted).enumerate() {
            assert_eq!(
                (a.token, &a.logprobs, a.position),
                (b.token, &b.logprobs, b.position)
            );
            assert_eq!(a.position, PROMPT.len() + i);
            let before = [&PROMPT[..], &tokens(&plain[..i])].concat();
            let row = table().row(&before).to_vec();
            let found = a.logprobs.as_ref().unwrap();
            match source {
                LogprobSource::Model => {
                    let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
                    let expected = f64::from(row[a.token.index()]) - total.ln();
                    assert!((f64::from(found.logprob) - expected).abs() < 1e-5);
                    assert!(found.logprob < 0.0, "no certainty here");
                    assert_eq!(found.top.len(), 3);
                }
                _ => {
                    let expected =
                        crate::naive::distribution(&config, &row, &PROMPT, &before[4..], |_| true)
                            .unwrap();
                    assert!(
                        (f64::from(found.logprob) - expected[a.token.index()].ln()).abs() < 1e-5
                    );
                }
            }
            for (token, logprob) in &found.top {
                assert!(*token != a.token || logprob.to_bits() == found.logprob.to_bits());
            }
        }
    }
}

#[test]
fn a_biased_token_never_or_always_appears_at_every_place_of_a_block() {
    let free = SamplerConfig::default();
    let (plain, _) = foreseen(&free, 40);
    let favourite = plain[0];
    let with = |bias| SamplerConfig {
        logit_bias: vec![(favourite, bias)],
        ..free.clone()
    };
    for kind in [Kind::Head(table()), Kind::Told(vec![favourite; 60], 0)] {
        let (emitted, _, _) = decode(&kind, options(&with(-100.0), 3, 40));
        assert!(!tokens(&emitted).contains(&favourite));
        let (emitted, _, _) = decode(&kind, options(&with(100.0), 3, 40));
        assert_eq!(tokens(&emitted), [favourite; 40]);
        assert!(emitted.iter().filter(|token| token.drafted).count() > 20);
    }
}

#[test]
fn a_frequency_penalty_works_inside_a_block() {
    let with = |penalty| SamplerConfig {
        frequency_penalty: penalty,
        ..SamplerConfig::greedy()
    };
    let most = |penalty| {
        let config = with(penalty);
        let (plain, right) = foreseen(&config, 40);
        let (emitted, _, _) = decode(&right, options(&config, 4, 40));
        assert_eq!(tokens(&emitted), plain);
        (0..10)
            .map(|token| plain.iter().filter(|other| other.0 == token).count())
            .max()
            .unwrap()
    };
    // With reward for repeating one token takes over; with a penalty the ten share forty places.
    assert!(most(-2.0) > 30);
    assert!(most(2.0) < 8);
}

#[test]
fn tokens_from_the_limit_of_the_vocabulary_on_are_padding() {
    let config = SamplerConfig {
        vocab_limit: Some(4),
        temperature: 5.0,
        ..SamplerConfig::default()
    };
    let (emitted, _, _) = decode(&Kind::Noise(3), options(&config, 3, 60));
    assert_eq!(emitted.len(), 60);
    assert!(emitted.iter().all(|token| token.token.0 < 4));
}

#[test]
fn the_prompt_is_scored_in_any_chunks() {
    let config = SamplerConfig::greedy();
    let scored = |chunk| {
        let mut decoder = Decoder::new(Markov::new(table()), NoDraft);
        let mut options = options(&config, 0, 0);
        options.prompt_logprobs = Some(2);
        decoder.begin(&PROMPT, options).unwrap();
        while decoder.prefill(chunk).unwrap() > 0 {}
        assert_eq!(decoder.step().unwrap().finish, Some(Finish::MaxTokens));
        decoder.prompt_logprobs().to_vec()
    };
    let expected: Vec<TokenLogprobs> = (1..4)
        .map(|i| TokenLogprobs::of_row(table().row(&PROMPT[..i]), PROMPT[i], 2).unwrap())
        .collect();
    for chunk in 1..6 {
        assert_eq!(scored(chunk), expected);
    }
}

#[test]
fn a_held_prefix_gives_what_a_cold_run_gives() {
    let config = SamplerConfig {
        repetition_penalty: 1.2,
        ..SamplerConfig::default()
    };
    let cold = tokens(&decode(&Kind::Plain, options(&config, 0, 15)).0);
    let mut decoder = Decoder::new(Markov::new(table()), Head::new(table(), None));
    decoder.start(&PROMPT[..2], options(&config, 2, 1)).unwrap();
    // The first sequence leaves its prompt in the target; the second one is longer.
    assert_eq!(decoder.step().unwrap().rows, 0);
    decoder.start(&PROMPT, options(&config, 2, 15)).unwrap();
    while decoder.finish().is_none() {
        decoder.step().unwrap();
    }
    assert_eq!(decoder.output(), cold);
}

#[test]
fn a_bad_prompt_is_refused_with_the_fact() {
    let config = SamplerConfig::default();
    let mut target = Markov::new(table());
    target.capacity = 5;
    let mut decoder = Decoder::new(target, NoDraft);
    assert!(matches!(decoder.step(), Err(SpecError::NoSequence)));
    assert!(matches!(decoder.prefill(1), Err(SpecError::NoSequence)));
    let mut begin = |prompt: &[u32], options: DecodeOptions| {
        let prompt: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
        let refused = decoder.begin(&prompt, options);
        assert!(matches!(
            decoder.step(),
            Err(SpecError::NoSequence | SpecError::Unfed { .. })
        ));
        refused
    };
    let fine = || options(&config, 1, 5);
    assert!(matches!(
        begin(&[], fine()),
        Err(SpecError::NothingToFeed { prompt: 0, held: 0 })
    ));
    assert!(matches!(
        begin(&[0; 6], fine()),
        Err(SpecError::PromptTooLong {
            prompt: 6,
            capacity: 5
        })
    ));
    let refused = begin(&[3, 10, 11], fine()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "prompt token 1: 10 is not in a vocabulary of 10"
    );
    let other = DecodeOptions::new(Sampler::new(config.clone(), 11).unwrap());
    assert!(matches!(
        begin(&[1], other),
        Err(SpecError::Vocabulary {
            sampler: 11,
            target: 10
        })
    ));
    begin(&[1, 2], fine()).unwrap();
    assert!(matches!(
        decoder.step(),
        Err(SpecError::Unfed { remaining: 2 })
    ));
}

#[test]
fn a_seed_gives_the_same_output_under_the_classic_rule_too() {
    let config = |seed| SamplerConfig {
        seed,
        ..SamplerConfig::default()
    };
    let run = |seed| {
        let mut options = options(&config(seed), 2, 40);
        options.acceptance = Acceptance::Classic;
        tokens(&decode(&Kind::Head(table().blurred(1.0, 3)), options).0)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn statistics_tell_drafts_by_place() {
    let config = SamplerConfig::greedy();
    let (_, right) = foreseen(&config, 9);
    let mut decoder = Decoder::new(Markov::new(table()), right.drafter());
    decoder.start(&PROMPT, options(&config, 3, 9)).unwrap();
    assert_eq!(decoder.step().unwrap().rows, 0);
    let step = decoder.step().unwrap();
    assert_eq!(
        (step.rows, step.drafted, step.accepted, step.tokens.len()),
        (4, 3, 3, 4)
    );
    assert_eq!(
        step.tokens
            .iter()
            .map(|token| token.drafted)
            .collect::<Vec<_>>(),
        [true, true, true, false]
    );
    decoder.step().unwrap();
    let statistics = decoder.statistics();
    assert_eq!(
        (statistics.rounds, statistics.emitted, statistics.refused),
        (2, 8, 0)
    );
    assert_eq!(statistics.tokens_per_round(), Some(4.0));
    assert_eq!(statistics.acceptance(), Some(1.0));
    assert_eq!(decoder.finish(), Some(Finish::MaxTokens));
}

#[test]
fn a_lookup_copies_on_into_its_own_copy() {
    let sampler = Sampler::new(SamplerConfig::greedy(), 3).unwrap();
    let mut options = DecodeOptions::new(sampler);
    options.drafts = 8;
    options.max_tokens = 10;
    let mut decoder = Decoder::new(Markov::new(Table::cycle(3)), PromptLookup::default());
    // The anchor will be 0: "2 0" stands at the beginning, and only four tokens behind it are known.
    decoder.start(&[2, 0, 1, 2].map(TokenId), options).unwrap();
    decoder.step().unwrap();
    let step = decoder.step().unwrap();
    assert_eq!((step.drafted, step.accepted), (8, 8));
    assert_eq!(
        decoder.output(),
        [0, 1, 2, 0, 1, 2, 0, 1, 2, 0].map(TokenId)
    );
}
