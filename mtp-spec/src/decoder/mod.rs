mod begin;
mod output;
mod round;
mod sequence;

pub use output::{Emitted, Finish, Step};
pub use round::Round;

use crate::drafts::DraftStore;
use crate::{
    Distribution, Drafter, LogitRows, SpecError, Statistics, Target, TokenId, TokenLogprobs,
};
use sequence::Sequence;

/// Decodes one sequence after another with a target and a drafter.
///
/// Between calls this holds: the *anchor*, the last token emitted, is part of the sequence and not yet in the target. Everything before it is
/// committed in the target, and nothing is tentative. A round feeds `[anchor, drafts..]`, emits the accepted drafts and one token more, commits the anchor
/// and the accepted drafts, and the last token emitted is the new anchor. The first token is drawn from the prompt's last row and needs no pass.
///
/// A call that fails, unwinds, or whose [`Round`] is dropped leaves all of this as it was, and can be made again.
#[derive(Debug)]
pub struct Decoder<T, D> {
    target: T,
    drafter: D,
    sequence: Option<Sequence>,
    buffers: Buffers,
}

/// Storage that is kept between rounds.
#[derive(Debug, Default)]
struct Buffers {
    /// The row behind the last prompt token, then the rows of the block.
    rows: LogitRows,
    prompt_row: LogitRows,
    distribution: Distribution,
    drafts: DraftStore,
    /// The anchor, then the drafts.
    block: Vec<TokenId>,
    emitted: Vec<Emitted>,
    left: Vec<f64>,
}

impl<T: Target, D: Drafter<T>> Decoder<T, D> {
    /// A decoder without a sequence.
    pub fn new(target: T, drafter: D) -> Self {
        Self {
            target,
            drafter,
            sequence: None,
            buffers: Buffers::default(),
        }
    }

    /// A [`round`](Self::round) of which everything is kept. Without tokens, and with the reason, when the output has ended.
    ///
    /// # Errors
    /// As [`round`](Self::round) and [`Round::keep`].
    pub fn step(&mut self) -> Result<Step<'_>, SpecError<T::Error>> {
        let Some(round) = self.round()? else {
            return Ok(Step {
                finish: self.finish(),
                ..Step::default()
            });
        };
        let (rows, drafted) = (round.rows(), round.drafted());
        let all = round.tokens().len();
        round.keep(all)?;
        let tokens = &self.buffers.emitted[..];
        Ok(Step {
            tokens,
            finish: self.finish(),
            rows,
            drafted,
            accepted: tokens.iter().filter(|token| token.drafted).count(),
        })
    }

    /// Changes the most drafts of a round, from the next round on. The output does not change under
    /// [`Acceptance::Coupled`](crate::Acceptance::Coupled). A sequence that began with 0 stays plain, for its drafter saw nothing of it.
    pub fn set_drafts(&mut self, drafts: usize) {
        if let Some(sequence) = &mut self.sequence {
            sequence.drafts = drafts;
        }
    }

    /// Why the output ended; `None` while it has not.
    pub fn finish(&self) -> Option<Finish> {
        self.sequence.as_ref().and_then(|sequence| sequence.finish)
    }

    /// Prompt, then output. The last token of the output is the anchor.
    pub fn tokens(&self) -> &[TokenId] {
        self.sequence
            .as_ref()
            .map_or(&[], |sequence| sequence.history.tokens())
    }

    /// The output so far.
    pub fn output(&self) -> &[TokenId] {
        self.sequence
            .as_ref()
            .map_or(&[], |sequence| sequence.history.output())
    }

    /// Log-probabilities of the prompt from its second token on (or, behind a held prefix, from the second token fed), when they were asked for.
    pub fn prompt_logprobs(&self) -> &[TokenLogprobs] {
        self.sequence
            .as_ref()
            .map_or(&[], |sequence| &sequence.prompt_logprobs)
    }

    /// What drafting brought in this sequence.
    pub fn statistics(&self) -> &Statistics {
        static NONE: Statistics = Statistics::NONE;
        self.sequence
            .as_ref()
            .map_or(&NONE, |sequence| &sequence.statistics)
    }

    /// The target.
    pub fn target(&self) -> &T {
        &self.target
    }

    /// The target: to be reset or restored before a sequence begins, or saved between rounds. Moving it during a sequence breaks the sequence.
    pub fn target_mut(&mut self) -> &mut T {
        &mut self.target
    }

    /// The drafter.
    pub fn drafter(&self) -> &D {
        &self.drafter
    }

    /// The drafter.
    pub fn drafter_mut(&mut self) -> &mut D {
        &mut self.drafter
    }

    /// Exchanges the drafter and returns the old one. The running sequence, if any, ends: the new drafter saw nothing of it.
    pub fn replace_drafter(&mut self, drafter: D) -> D {
        self.sequence = None;
        std::mem::replace(&mut self.drafter, drafter)
    }

    /// Takes the decoder apart.
    pub fn into_parts(self) -> (T, D) {
        (self.target, self.drafter)
    }
}
