use super::sequence::Sequence;
use super::{Buffers, Decoder, Emitted, Finish};
use crate::accept::{Drafted, Verdict, classic, coupled};
use crate::drafts::SamplerView;
use crate::{
    Acceptance, Drafter, Drafts, Draw, LogprobSource, Noise, RowError, SpecError, Target,
    TokenLogprobs,
};

/// A round that is drawn and not yet decided: [`keep`](Self::keep) it, or part of it. Dropped, it leaves the decoder, the target and the mask as
/// they were before; this is also what becomes of a round in which the target fails or the sampler panics.
#[derive(Debug)]
#[must_use = "a round that is dropped is taken back"]
pub struct Round<'a, T: Target, D: Drafter<T>> {
    decoder: &'a mut Decoder<T, D>,
    /// Tokens of output before the round.
    settled: usize,
    decided: bool,
}

impl<T: Target, D: Drafter<T>> Decoder<T, D> {
    /// Drafts, verifies and draws one round. `None` when the output has ended.
    ///
    /// # Errors
    /// A prompt that is missing or not fed; a failure of the model, of the drafter or of the mask; a row without a distribution. The decoder then stands where it stood.
    pub fn round(&mut self) -> Result<Option<Round<'_, T, D>>, SpecError<T::Error>> {
        let sequence = self.sequence.as_ref().ok_or(SpecError::NoSequence)?;
        let remaining = sequence.prompt_len() - sequence.fed;
        if remaining > 0 {
            return Err(SpecError::Unfed { remaining });
        }
        if sequence.finish.is_some() {
            return Ok(None);
        }
        let settled = sequence.history.output().len();
        self.buffers.emitted.clear();
        self.buffers.block.clear();
        self.buffers.drafts.clear();
        self.propose()?;
        let mut round = Round {
            decoder: self,
            settled,
            decided: false,
        };
        round.verify()?;
        round.draw()?;
        Ok(Some(round))
    }

    /// Fills the block: the anchor, and what the drafter makes of it. Before the first token there is no anchor, and nothing to fill.
    fn propose(&mut self) -> Result<(), SpecError<T::Error>> {
        let Some(sequence) = &mut self.sequence else {
            return Err(SpecError::NoSequence);
        };
        let Some(&anchor) = sequence.history.output().last() else {
            return Ok(());
        };
        // A round emits one token more than it accepts drafts, and feeds one more than it drafts.
        let wanted = sequence.max_tokens - sequence.history.output().len() - 1;
        let fits = self
            .target
            .capacity()
            .saturating_sub(self.target.position() + 1);
        let budget = sequence.drafts.min(wanted).min(fits);
        if budget > 0 && sequence.drafter_follows {
            let mut drafts = Drafts {
                budget,
                refused: &mut sequence.statistics.refused,
                closed: false,
                round: sequence.history.position(),
                out: &mut self.buffers.drafts,
                view: SamplerView {
                    sampler: &sequence.sampler,
                    history: &mut sequence.history,
                    mask: sequence.mask.as_mut(),
                    chance: &mut *sequence.chance,
                    acceptance: sequence.acceptance,
                    choice: sequence.draft_choice,
                },
            };
            self.drafter
                .propose(&mut self.target, anchor, &mut drafts)
                .map_err(SpecError::Model)?;
        }
        self.buffers.block.push(anchor);
        self.buffers
            .block
            .extend_from_slice(self.buffers.drafts.tokens());
        Ok(())
    }
}

impl<T: Target, D: Drafter<T>> Round<'_, T, D> {
    /// What was drawn, in order: the accepted drafts and one token more, or less when a stop token came first. Never empty.
    #[must_use]
    pub fn tokens(&self) -> &[Emitted] {
        &self.decoder.buffers.emitted
    }

    /// Why the output ends when everything is kept.
    #[must_use]
    pub fn finish(&self) -> Option<Finish> {
        self.finish_after(self.tokens().len())
    }

    /// Rows that the target computed: 0 when the token was drawn from the prompt's last row.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.decoder.buffers.block.len()
    }

    /// Drafts that the target verified.
    #[must_use]
    pub fn drafted(&self) -> usize {
        self.decoder.buffers.drafts.tokens().len()
    }

    /// Emits the first `tokens` of [`tokens`](Self::tokens) (all when there are fewer) and takes the others back, so that an accepted run can be cut where a stop
    /// string ends and the sequence still goes on from there. 0 takes back everything, as a drop does.
    ///
    /// # Errors
    /// The drafter failed on the tokens kept: they are committed and part of the output all the same.
    pub fn keep(mut self, tokens: usize) -> Result<(), SpecError<T::Error>> {
        let kept = tokens.min(self.tokens().len());
        if kept == 0 {
            return Ok(());
        }
        let finish = self.finish_after(kept);
        let settled = self.settled;
        self.decided = true;
        let Decoder {
            target,
            drafter,
            sequence,
            buffers,
        } = &mut *self.decoder;
        let Some(sequence) = sequence else {
            return Ok(());
        };
        if !buffers.block.is_empty() {
            target.commit(kept);
        }
        sequence.rewind(settled, settled + kept);
        if let Some(mask) = &mut sequence.mask {
            mask.settle();
        }
        sequence.finish = finish;
        buffers.emitted.truncate(kept);
        if buffers.block.is_empty() {
            return Ok(());
        }
        let accepted = buffers.emitted.iter().filter(|token| token.drafted).count();
        sequence
            .statistics
            .record(buffers.drafts.tokens().len(), accepted, kept);
        if sequence.drafter_follows
            && let Err(source) = drafter.settle(target, &buffers.block[..kept])
        {
            sequence.drafter_follows = false;
            return Err(SpecError::Settle {
                emitted: kept,
                source,
            });
        }
        Ok(())
    }

    /// Why the output ends when the first `kept` tokens are kept.
    fn finish_after(&self, kept: usize) -> Option<Finish> {
        let sequence = self.decoder.sequence.as_ref()?;
        let last = self.tokens().get(kept.checked_sub(1)?)?.token;
        let target = &self.decoder.target;
        let fed = if self.decoder.buffers.block.is_empty() {
            0
        } else {
            kept
        };
        if sequence.sampler.stops(last) {
            Some(Finish::Stop(last))
        } else if self.settled + kept >= sequence.max_tokens {
            Some(Finish::MaxTokens)
        } else if target.position() + fed >= target.capacity() {
            Some(Finish::Capacity)
        } else {
            None
        }
    }

    /// Has the target compute the rows of the block.
    fn verify(&mut self) -> Result<(), SpecError<T::Error>> {
        let Decoder {
            target, buffers, ..
        } = &mut *self.decoder;
        if buffers.block.is_empty() {
            return Ok(());
        }
        buffers.rows.clear();
        target
            .verify(&buffers.block, &mut buffers.rows)
            .map_err(SpecError::Model)?;
        if buffers.rows.rows() != buffers.block.len()
            || buffers.rows.vocab_size() != target.vocab_size()
        {
            return Err(SpecError::Rows {
                expected: buffers.block.len(),
                found: buffers.rows.rows(),
            });
        }
        Ok(())
    }

    /// Draws from row after row for as long as the drafts hold.
    fn draw(&mut self) -> Result<(), SpecError<T::Error>> {
        let Decoder {
            sequence, buffers, ..
        } = &mut *self.decoder;
        let Some(sequence) = sequence else {
            return Err(SpecError::NoSequence);
        };
        let round = sequence.history.position();
        for place in 0..=buffers.drafts.tokens().len() {
            let verdict = draw_row(sequence, buffers, round, place)?;
            if !verdict.accepted || sequence.sampler.stops(verdict.token) {
                break;
            }
        }
        Ok(())
    }
}

/// Draws the token behind row `place` of the block and adds it to what is emitted.
fn draw_row<E: std::error::Error>(
    sequence: &mut Sequence,
    buffers: &mut Buffers,
    round: usize,
    place: usize,
) -> Result<Verdict, SpecError<E>> {
    let position = sequence.history.position();
    let failed = |source: RowError| SpecError::Row { position, source };
    let row = if buffers.block.is_empty() {
        buffers.prompt_row.row(0)
    } else {
        buffers.rows.row(place)
    };
    let allowed = match &mut sequence.mask {
        None => None,
        Some(mask) => mask
            .allowed()
            .map_err(|source| SpecError::Mask { position, source })?,
    };
    let p = &mut buffers.distribution;
    sequence
        .sampler
        .shape(row, &sequence.history, allowed, p)
        .map_err(failed)?;
    let draft = buffers.drafts.tokens().get(place).copied();
    let verdict = match sequence.acceptance {
        Acceptance::Coupled => coupled(
            p,
            draft,
            Noise::at(sequence.sampler.config().seed, position),
        ),
        Acceptance::Classic => {
            let draft = draft.map(|token| Drafted {
                token,
                from: buffers.drafts.source(place),
            });
            let draw = |purpose| Draw {
                position,
                round,
                purpose,
            };
            classic(p, draft, &mut *sequence.chance, draw, &mut buffers.left)
        }
    }
    .ok_or_else(|| failed(RowError::Nothing))?;
    let logprobs = match sequence.logprobs {
        None => None,
        Some(wanted) => Some(match wanted.source {
            LogprobSource::Model => {
                TokenLogprobs::of_row(row, verdict.token, wanted.top).map_err(failed)?
            }
            LogprobSource::Sampler => TokenLogprobs::of_distribution(p, verdict.token, wanted.top),
        }),
    };
    if let Some(mask) = &mut sequence.mask {
        mask.accept(verdict.token)
            .map_err(|source| SpecError::Mask { position, source })?;
    }
    sequence.history.push(verdict.token);
    buffers.emitted.push(Emitted {
        token: verdict.token,
        position,
        drafted: verdict.accepted,
        logprobs,
    });
    Ok(verdict)
}

impl<T: Target, D: Drafter<T>> Drop for Round<'_, T, D> {
    fn drop(&mut self) {
        if self.decided {
            return;
        }
        self.decoder.target.rollback();
        if let Some(sequence) = &mut self.decoder.sequence {
            sequence.rewind(self.settled, self.settled);
        }
        self.decoder.buffers.emitted.clear();
    }
}
