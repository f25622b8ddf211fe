use crate::mask::MaskCursor;
use crate::{
    Acceptance, Chance, Distribution, DraftChoice, Draw, History, Noise, Purpose, Sampler, TokenId,
};

/// Where a drafter puts its drafts: knows the budget, the sampler, and the history, mask and noise that each row would have.
///
/// Drafts follow one another: the second is a guess at what follows the anchor and the first.
#[derive(Debug)]
pub struct Drafts<'a> {
    pub(crate) view: SamplerView<'a>,
    pub(crate) out: &'a mut DraftStore,
    /// The most drafts wanted.
    pub(crate) budget: usize,
    /// Drafts that were thrown away.
    pub(crate) refused: &'a mut u64,
    /// Set when a further draft would follow one that is not there.
    pub(crate) closed: bool,
    /// Absolute position of the first draft.
    pub(crate) round: usize,
}

/// What a row is sampled with.
#[derive(Debug)]
pub(crate) struct SamplerView<'a> {
    pub(crate) sampler: &'a Sampler,
    pub(crate) history: &'a mut History,
    pub(crate) mask: Option<&'a mut MaskCursor>,
    pub(crate) chance: &'a mut dyn Chance,
    pub(crate) acceptance: Acceptance,
    pub(crate) choice: DraftChoice,
}

/// The drafts of a round, in storage that is kept between rounds.
#[derive(Debug, Default)]
pub(crate) struct DraftStore {
    tokens: Vec<TokenId>,
    sources: Vec<Source>,
    /// A row of the whole vocabulary, for rows that are about some of it.
    spread: Vec<f32>,
}

#[derive(Debug, Default)]
struct Source {
    /// Whether the draft was drawn from `distribution`, and the acceptance rule needs it.
    drawn: bool,
    distribution: Distribution,
}

impl DraftStore {
    /// No drafts.
    pub(crate) fn clear(&mut self) {
        self.tokens.clear();
    }

    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// What draft `i` was drawn from, when it was.
    pub(crate) fn source(&mut self, i: usize) -> Option<&mut Distribution> {
        let source = &mut self.sources[i];
        source.drawn.then_some(&mut source.distribution)
    }

    /// The source of the next draft.
    fn next_source(&mut self) -> &mut Source {
        let next = self.tokens.len();
        if self.sources.len() <= next {
            self.sources.resize_with(next + 1, Source::default);
        }
        &mut self.sources[next]
    }
}

impl Drafts<'_> {
    /// How many more drafts are wanted.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.closed {
            0
        } else {
            self.budget - self.out.tokens.len()
        }
    }

    /// The drafts so far.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.out.tokens
    }

    /// Absolute position of the next draft in the sequence.
    #[must_use]
    pub fn position(&self) -> usize {
        self.view.history.position()
    }

    /// Adds a draft chosen outright, and says whether it was taken.
    ///
    /// It is not when there is no room, when the vocabulary does not have it, or when the mask forbids it. No later draft is
    /// taken then, for it would follow one that is not there.
    pub fn push(&mut self, token: TokenId) -> bool {
        if self.room() == 0 {
            *self.refused += 1;
            return false;
        }
        let allowed = match &mut self.view.mask {
            None => true,
            Some(mask) => mask
                .allowed()
                .is_ok_and(|set| set.is_none_or(|set| set.contains(token))),
        };
        if token.index() >= self.view.sampler.vocab_size() || !allowed {
            self.closed = true;
            *self.refused += 1;
            return false;
        }
        self.out.next_source().drawn = false;
        self.add(token);
        true
    }

    /// Draws the next draft from a row of the drafter's logits, through the request's sampler chain with the history, mask and noise that
    /// the row would have; adds it and returns it. A row shorter than the vocabulary is about its first tokens.
    ///
    /// `None` when there is no room, or the row leaves nothing to draw: stop then.
    pub fn draw(&mut self, logits: &[f32]) -> Option<TokenId> {
        if self.room() == 0 {
            return None;
        }
        let token = self.sample(logits);
        match token {
            Some(token) => self.add(token),
            None => self.closed = true,
        }
        token
    }

    /// As [`draw`](Self::draw), for a row about some tokens only: `logits[i]` is that of `ids[i]`, and the others cannot be drawn. Ids outside the vocabulary are ignored.
    pub fn draw_among(&mut self, logits: &[f32], ids: &[TokenId]) -> Option<TokenId> {
        let mut spread = std::mem::take(&mut self.out.spread);
        spread.clear();
        spread.resize(self.view.sampler.vocab_size(), f32::NEG_INFINITY);
        for (&logit, id) in logits.iter().zip(ids) {
            if let Some(place) = spread.get_mut(id.index()) {
                *place = logit;
            }
        }
        let token = self.draw(&spread);
        self.out.spread = spread;
        token
    }

    /// Draws from a row, and leaves the source of the next draft as the acceptance rule needs it.
    fn sample(&mut self, logits: &[f32]) -> Option<TokenId> {
        let SamplerView {
            sampler,
            history,
            mask,
            chance,
            acceptance,
            choice,
        } = &mut self.view;
        let allowed = match mask {
            None => None,
            // The same question comes again when the row is verified, and its failure is reported there.
            Some(mask) => mask.allowed().ok()?,
        };
        let source = self.out.next_source();
        source.drawn = false;
        sampler
            .shape(logits, history, allowed, &mut source.distribution)
            .ok()?;
        let q = &mut source.distribution;
        match (choice, acceptance) {
            (DraftChoice::Argmax, _) => q.most_likely(),
            (DraftChoice::Sampled, Acceptance::Coupled) => {
                q.draw(Noise::at(sampler.config().seed, history.position()))
            }
            (DraftChoice::Sampled, Acceptance::Classic) => {
                let draw = Draw {
                    position: history.position(),
                    round: self.round,
                    purpose: Purpose::Draft,
                };
                let place = chance.pick(q.probabilities(), draw);
                source.drawn = true;
                source.distribution.tokens().nth(place)
            }
        }
    }

    /// Adds a draft whose source is set.
    fn add(&mut self, token: TokenId) {
        self.out.tokens.push(token);
        self.view.history.push(token);
        if let Some(mask) = &mut self.view.mask {
            // A mask that cannot follow the draft ends the drafting, not the output.
            self.closed |= mask.accept(token).is_err();
        }
    }
}

impl Drop for Drafts<'_> {
    /// Takes the drafts out of the history and the mask again, also when the drafter unwinds.
    fn drop(&mut self) {
        let history = &mut self.view.history;
        let output = history.output().len() - self.out.tokens.len();
        history.truncate_output(output);
        if let Some(mask) = &mut self.view.mask {
            mask.rewind(0);
        }
    }
}
