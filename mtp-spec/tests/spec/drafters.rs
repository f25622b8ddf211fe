//! Drafters, good and hostile.

use crate::markov::{Gone, Markov, Numbers, Table};
use mtp_spec::{Drafter, Drafts, NoDraft, PromptLookup, Target, TokenId};

/// The sort of drafter that a test wants.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// None.
    Plain,
    /// Draws from its own table, as an MTP head does.
    Head(Table),
    /// The same through a row about some tokens only, listed backwards.
    Subset(Table, Vec<TokenId>),
    /// Copies from the context.
    Lookup,
    /// Says what the sequence will be, each token moved by this many: 0 is always right, anything else always wrong.
    Told(Vec<TokenId>, u32),
    /// Random tokens, a third of them outside the vocabulary, and more of them than there is room for.
    Noise(u64),
    /// Rows that are NaN, infinite or all impossible, of the wrong width.
    BrokenRows(u64),
}

impl Kind {
    pub(crate) fn drafter(&self) -> Box<dyn Drafter<Markov>> {
        match self.clone() {
            Self::Plain => Box::new(NoDraft),
            Self::Head(table) => Box::new(Head::new(table, None)),
            Self::Subset(table, ids) => Box::new(Head::new(table, Some(ids))),
            Self::Lookup => Box::new(PromptLookup::new(1, 3)),
            Self::Told(tokens, moved) => Box::new(Told { tokens, moved }),
            Self::Noise(seed) => Box::new(Noise(Numbers(seed))),
            Self::BrokenRows(seed) => Box::new(BrokenRows(Numbers(seed))),
        }
    }
}

/// A draft model that is fed what is committed, and checks that it is all of it, in order, once.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    table: Table,
    ids: Option<Vec<TokenId>>,
    context: Vec<TokenId>,
}

impl Head {
    pub(crate) fn new(table: Table, ids: Option<Vec<TokenId>>) -> Self {
        Self {
            table,
            ids,
            context: Vec::new(),
        }
    }
}

impl Drafter<Markov> for Head {
    fn reset(&mut self, target: &mut Markov, held: &[TokenId]) -> Result<(), Gone> {
        assert_eq!(target.state().1, held);
        self.context = held.to_vec();
        Ok(())
    }

    fn propose(
        &mut self,
        target: &mut Markov,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), Gone> {
        assert_eq!(target.state().1, self.context);
        assert!(drafts.room() > 0 && drafts.tokens().is_empty());
        assert_eq!(drafts.position(), self.context.len() + 1);
        let mut known = self.context.clone();
        known.push(anchor);
        while drafts.room() > 0 {
            let row = self.table.row(&known);
            let drawn = match &self.ids {
                None => drafts.draw(row),
                Some(ids) => {
                    let logits: Vec<f32> = ids.iter().map(|id| row[id.index()]).collect();
                    drafts.draw_among(&logits, ids)
                }
            };
            let Some(token) = drawn else { break };
            known.push(token);
            assert_eq!(&known[self.context.len() + 1..], drafts.tokens());
        }
        Ok(())
    }

    fn settle(&mut self, target: &mut Markov, kept: &[TokenId]) -> Result<(), Gone> {
        self.context.extend_from_slice(kept);
        assert_eq!(target.state().1, self.context);
        Ok(())
    }
}

#[derive(Debug)]
struct Told {
    tokens: Vec<TokenId>,
    moved: u32,
}

impl Drafter<Markov> for Told {
    fn reset(&mut self, _: &mut Markov, _: &[TokenId]) -> Result<(), Gone> {
        Ok(())
    }

    fn propose(
        &mut self,
        target: &mut Markov,
        _: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), Gone> {
        let vocab = u32::try_from(target.vocab_size()).unwrap();
        let rest = self.tokens.get(drafts.position()..).unwrap_or(&[]);
        for token in rest {
            if drafts.room() == 0 || !drafts.push(TokenId((token.0 + self.moved) % vocab)) {
                break;
            }
        }
        Ok(())
    }

    fn settle(&mut self, _: &mut Markov, _: &[TokenId]) -> Result<(), Gone> {
        Ok(())
    }
}

#[derive(Debug)]
struct Noise(Numbers);

impl Drafter<Markov> for Noise {
    fn reset(&mut self, _: &mut Markov, _: &[TokenId]) -> Result<(), Gone> {
        Ok(())
    }

    fn propose(
        &mut self,
        target: &mut Markov,
        _: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), Gone> {
        for _ in 0..self.0.below(9) {
            let token = self.0.below(target.vocab_size() * 3 / 2);
            drafts.push(TokenId(u32::try_from(token).unwrap()));
        }
        if self.0.below(2) == 0 {
            drafts.push(TokenId(u32::MAX));
        }
        Ok(())
    }

    fn settle(&mut self, _: &mut Markov, _: &[TokenId]) -> Result<(), Gone> {
        Ok(())
    }
}

#[derive(Debug)]
struct BrokenRows(Numbers);

impl Drafter<Markov> for BrokenRows {
    fn reset(&mut self, _: &mut Markov, _: &[TokenId]) -> Result<(), Gone> {
        Ok(())
    }

    fn propose(
        &mut self,
        target: &mut Markov,
        _: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), Gone> {
        for _ in 0..4 {
            let width = self.0.below(target.vocab_size() * 2);
            let mut row = vec![0.0; width];
            let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][self.0.below(3)];
            if self.0.below(2) == 0 {
                row.fill(bad);
            } else if let Some(logit) = row.last_mut() {
                *logit = bad;
            }
            match self.0.below(3) {
                0 => drafts.draw_among(&row, &[TokenId(u32::MAX), TokenId(1)]),
                _ => drafts.draw(&row),
            };
        }
        Ok(())
    }

    fn settle(&mut self, _: &mut Markov, _: &[TokenId]) -> Result<(), Gone> {
        Ok(())
    }
}
