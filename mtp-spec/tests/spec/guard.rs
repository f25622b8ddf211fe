//! What fails, unwinds or is cancelled leaves the committed state, and the next call gives what it would have given.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::drafters::{Head, Kind};
use crate::markov::{Fault, Gone, Markov, Table};
use crate::masks::{Walked, late};
use mtp_spec::{
    Acceptance, Chance, DecodeOptions, Decoder, Drafter, Drafts, Draw, NoDraft, RowError, Sampler,
    SamplerConfig, SpecError, TokenId,
};

const PROMPT: [TokenId; 3] = [TokenId(2), TokenId(0), TokenId(1)];

fn table() -> Table {
    Table::random(8, 2.0, 4)
}

fn options(drafts: usize) -> DecodeOptions {
    let config = SamplerConfig {
        seed: 77,
        frequency_penalty: 0.4,
        ..SamplerConfig::default()
    };
    let mut options = DecodeOptions::new(Sampler::new(config, 8).unwrap());
    options.drafts = drafts;
    options.max_tokens = 30;
    options
}

fn finished<D: Drafter<Markov>>(decoder: &mut Decoder<Markov, D>) -> Vec<TokenId> {
    while decoder.finish().is_none() {
        decoder.step().unwrap();
    }
    decoder.output().to_vec()
}

fn plain() -> Vec<TokenId> {
    let mut decoder = Decoder::new(Markov::new(table()), NoDraft);
    decoder.start(&PROMPT, options(0)).unwrap();
    finished(&mut decoder)
}

/// Starts with a drafter, makes some steps, and has `disturb` do its worst: the state must be that of before, and the output that of plain decoding.
fn survives<D: Drafter<Markov>>(
    drafter: D,
    change: impl FnOnce(&mut DecodeOptions),
    disturb: impl Fn(&mut Decoder<Markov, D>),
) {
    let mut decoder = Decoder::new(Markov::new(table()), drafter);
    let mut wanted = options(2);
    change(&mut wanted);
    decoder.start(&PROMPT, wanted).unwrap();
    for _ in 0..3 {
        decoder.step().unwrap();
    }
    let before = decoder.target().clone();
    let (tokens, statistics) = (decoder.tokens().to_vec(), decoder.statistics().clone());
    disturb(&mut decoder);
    assert_eq!(decoder.target().state(), before.state());
    assert_eq!(decoder.tokens(), tokens);
    assert_eq!(*decoder.statistics(), statistics);
    assert_eq!(finished(&mut decoder), plain());
}

fn head() -> Head {
    Head::new(table().blurred(0.5, 1), None)
}

#[test]
fn a_failed_pass_leaves_the_committed_state() {
    survives(
        head(),
        |_| (),
        |decoder| {
            decoder.target_mut().fault = Some(Fault::Fails);
            assert!(matches!(decoder.step(), Err(SpecError::Model(Gone))));
        },
    );
}

#[test]
fn a_pass_that_unwinds_leaves_the_committed_state() {
    survives(
        head(),
        |_| (),
        |decoder| {
            decoder.target_mut().fault = Some(Fault::Panics);
            assert!(catch_unwind(AssertUnwindSafe(|| decoder.step().map(|_| ()))).is_err());
        },
    );
}

#[test]
fn a_pass_with_too_few_rows_or_no_numbers_leaves_the_committed_state() {
    survives(
        head(),
        |_| (),
        |decoder| {
            decoder.target_mut().fault = Some(Fault::Short);
            assert!(matches!(
                decoder.step(),
                Err(SpecError::Rows {
                    expected: 3,
                    found: 2
                })
            ));
        },
    );
    let always_right = || Kind::Told([&PROMPT[..], &plain()].concat(), 0).drafter();
    survives(
        always_right(),
        |_| (),
        |decoder| {
            let position = decoder.tokens().len();
            decoder.target_mut().fault = Some(Fault::NotANumber);
            // Two rows are drawn from before the broken one is looked at.
            match decoder.step() {
                Err(SpecError::Row {
                    position: at,
                    source:
                        RowError::NotFinite {
                            token: TokenId(0), ..
                        },
                }) => assert_eq!(at, position + 2),
                other => panic!("{other:?}"),
            }
        },
    );
}

#[test]
fn a_cancelled_round_leaves_the_committed_state() {
    survives(
        head(),
        |_| (),
        |decoder| {
            let round = decoder.round().unwrap().unwrap();
            assert_eq!(round.rows(), 3);
            drop(round);
        },
    );
}

/// Unwinds or fails on demand, wherever a drafter can.
struct Treacherous {
    head: Head,
    panics: bool,
    fails: bool,
}

impl Drafter<Markov> for Treacherous {
    fn reset(&mut self, target: &mut Markov, held: &[TokenId]) -> Result<(), Gone> {
        self.head.reset(target, held)
    }

    fn propose(
        &mut self,
        target: &mut Markov,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), Gone> {
        self.head.propose(target, anchor, drafts)?;
        assert!(!std::mem::take(&mut self.panics), "the drafter unwinds");
        if std::mem::take(&mut self.fails) {
            Err(Gone)
        } else {
            Ok(())
        }
    }

    fn settle(&mut self, target: &mut Markov, kept: &[TokenId]) -> Result<(), Gone> {
        self.head.settle(target, kept)?;
        if std::mem::take(&mut self.fails) {
            Err(Gone)
        } else {
            Ok(())
        }
    }
}

fn treacherous() -> Treacherous {
    Treacherous {
        head: head(),
        panics: false,
        fails: false,
    }
}

#[test]
fn a_drafter_that_fails_or_unwinds_leaves_the_committed_state() {
    survives(
        treacherous(),
        |_| (),
        |decoder| {
            decoder.drafter_mut().panics = true;
            assert!(catch_unwind(AssertUnwindSafe(|| decoder.step().map(|_| ()))).is_err());
            decoder.drafter_mut().fails = true;
            assert!(matches!(decoder.step(), Err(SpecError::Model(Gone))));
        },
    );
}

#[test]
fn a_drafter_that_cannot_settle_is_left_out_and_the_output_goes_on() {
    let mut decoder = Decoder::new(Markov::new(table()), treacherous());
    decoder.start(&PROMPT, options(2)).unwrap();
    decoder.step().unwrap();
    let known = decoder.output().len();
    // Without drafts it is not asked to propose, so it fails when it is asked to settle.
    decoder.set_drafts(0);
    decoder.drafter_mut().fails = true;
    match decoder.step() {
        Err(SpecError::Settle {
            emitted: 1,
            source: Gone,
        }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(decoder.output().len(), known + 1);
    decoder.set_drafts(2);
    decoder.target_mut().blocks.clear();
    assert_eq!(finished(&mut decoder), plain());
    assert!(
        decoder.target().blocks.iter().all(|&width| width == 1),
        "no drafts any more"
    );
    // The next sequence drafts again.
    let (_, drafter) = decoder.into_parts();
    let mut decoder = Decoder::new(Markov::new(table()), drafter);
    decoder.start(&PROMPT, options(2)).unwrap();
    assert_eq!(finished(&mut decoder), plain());
    assert!(decoder.statistics().drafted > 0);
}

#[test]
fn a_mask_that_fails_or_unwinds_leaves_the_committed_state() {
    let run = |mask: Walked| {
        let mut decoder = Decoder::new(Markov::new(table()), head());
        let mut wanted = options(2);
        wanted.mask = Some(Box::new(mask));
        decoder.start(&PROMPT, wanted).unwrap();
        decoder
    };
    let whole = finished(&mut run(Walked::new(late)));
    for at in 1..12 {
        let mut panics = Walked::new(late);
        panics.panics_at = at;
        let mut decoder = run(panics);
        let mut fails = Walked::new(late);
        fails.fails_at = at;
        let mut failing = run(fails);
        loop {
            let before = decoder.target().clone();
            match catch_unwind(AssertUnwindSafe(|| decoder.step().map(|_| ()))) {
                Ok(step) => step.unwrap(),
                Err(_) => {
                    assert_eq!(decoder.target().state(), before.state());
                    break;
                }
            }
        }
        let failure = loop {
            let before = failing.target().clone();
            if let Err(failure) = failing.step().map(|_| ()) {
                assert_eq!(failing.target().state(), before.state());
                break failure;
            }
        };
        // What came out before is the beginning of the undisturbed output.
        assert_eq!(decoder.output(), &whole[..decoder.output().len()]);
        assert_eq!(failing.output(), &whole[..failing.output().len()]);
        assert!(failing.output().len() <= at);
        assert!(
            matches!(failure, SpecError::Mask { position, .. } if position == PROMPT.len() + at)
        );
    }
}

/// Unwinds when a token is drawn, the first time.
struct Unlucky(bool);

impl Chance for Unlucky {
    fn happens(&mut self, _: f64, _: Draw) -> bool {
        false
    }

    fn pick(&mut self, weights: &[f64], draw: Draw) -> usize {
        let token = draw.purpose == mtp_spec::Purpose::Token && draw.position > PROMPT.len() + 3;
        assert!(
            !(token && std::mem::take(&mut self.0)),
            "the sampler unwinds"
        );
        weights.iter().position(|&weight| weight > 0.0).unwrap()
    }
}

#[test]
fn a_sampler_that_unwinds_leaves_the_committed_state() {
    let run = |unlucky| {
        let mut decoder = Decoder::new(Markov::new(table()), head());
        let mut wanted = options(2);
        wanted.acceptance = Acceptance::Classic;
        wanted.chance = Some(Box::new(Unlucky(unlucky)));
        decoder.start(&PROMPT, wanted).unwrap();
        decoder
    };
    let whole = finished(&mut run(false));
    let mut decoder = run(true);
    let mut unwound = 0;
    while decoder.finish().is_none() {
        let before = decoder.target().clone();
        if catch_unwind(AssertUnwindSafe(|| decoder.step().map(|_| ()).unwrap())).is_err() {
            unwound += 1;
            assert_eq!(decoder.target().state(), before.state());
        }
    }
    assert_eq!(unwound, 1);
    assert_eq!(decoder.output(), whole);
}

#[test]
fn a_prompt_that_fails_ends_the_sequence() {
    let mut decoder = Decoder::new(Markov::new(table()), head());
    decoder.begin(&PROMPT, options(1)).unwrap();
    decoder.target_mut().fault = Some(Fault::Fails);
    assert!(matches!(decoder.prefill(2), Err(SpecError::Model(Gone))));
    assert!(matches!(decoder.prefill(2), Err(SpecError::NoSequence)));
    assert!(matches!(decoder.step(), Err(SpecError::NoSequence)));
    // And the next one is whole.
    decoder.start(&PROMPT, options(1)).unwrap();
    assert_eq!(finished(&mut decoder), plain());
}
