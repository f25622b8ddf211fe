//! One pass of tokens through the trunk.

use tt_device::{Backend, Keep, Ops};

use super::delta::DeltaLanes;
use super::workspace::Workspace;
use super::{Mixer, Model};
use crate::ModelError;
use crate::sequence::{LayerState, Sequence};

/// Which rows of a pass the output head runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitsWanted {
    /// None.
    None,
    /// The last.
    Last,
    /// All, in order.
    All,
}

impl LogitsWanted {
    /// First row and number of rows wanted, of `rows`.
    pub(super) const fn range(self, rows: usize) -> (usize, usize) {
        match self {
            Self::None => (0, 0),
            Self::Last => (rows - 1, 1),
            Self::All => (0, rows),
        }
    }
}

impl<B: Backend> Model<B> {
    /// Feeds prompt tokens and keeps them: the sequence advances by all of them. Appends the rows of
    /// logits (each `vocab` wide) that are wanted to `logits`.
    ///
    /// # Errors
    /// Before anything is touched: [`ModelError::EmptyPrompt`], [`ModelError::PassRows`],
    /// [`ModelError::ContextFull`], [`ModelError::TokenRange`], [`ModelError::Interrupted`]. Later:
    /// [`ModelError::Device`] and [`ModelError::NotFinite`], after which the sequence is interrupted.
    pub fn prefill(
        &self,
        work: &mut Workspace<B>,
        sequence: &mut Sequence<B>,
        tokens: &[u32],
        wanted: LogitsWanted,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        self.check(work, sequence, tokens)?;
        sequence.begin_in_place();
        self.run(work, sequence, tokens, Keep::Last, wanted, logits)?;
        sequence.end_in_place(tokens.len());
        Ok(())
    }

    /// [`Model::prefill`] that also returns the residual stream, `[tokens, hidden]`, after the embedding and
    /// after each layer: for comparing two runs layer by layer.
    ///
    /// # Errors
    /// As [`Model::prefill`].
    pub fn trace(
        &self,
        work: &mut Workspace<B>,
        sequence: &mut Sequence<B>,
        tokens: &[u32],
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        self.check(work, sequence, tokens)?;
        sequence.begin_in_place();
        let rows = tokens.len();
        self.place(work, sequence, tokens)?;
        let mut stream = Vec::with_capacity(self.layers.len() + 1);
        for step in 0..=self.layers.len() {
            self.device.execute(|rec| {
                match step.checked_sub(1) {
                    None => rec.embed(&self.embed, &work.ids, rows, &mut work.x),
                    Some(layer) => self.layer(rec, work, sequence, layer, rows, Keep::Last),
                }
                Ok(())
            })?;
            let mut x = vec![0.0; rows * self.config.hidden];
            self.device.read(&work.x, 0, &mut x)?;
            stream.push(x);
        }
        self.device.execute(|rec| {
            rec.rms_norm(
                &work.x,
                &self.norm,
                self.config.norm_eps,
                rows,
                &mut work.hidden,
            );
            Ok(())
        })?;
        sequence.end_in_place(rows);
        Ok(stream)
    }

    /// Feeds tokens tentatively and appends a row of logits for each; the sequence stays where it was until
    /// [`Model::keep`].
    ///
    /// # Errors
    /// As [`Model::prefill`], but no error changes the sequence. [`ModelError::PassRows`] also when there are
    /// more tokens than [`Sequence::verify_rows`].
    pub fn verify(
        &self,
        work: &mut Workspace<B>,
        sequence: &mut Sequence<B>,
        tokens: &[u32],
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        self.check(work, sequence, tokens)?;
        if tokens.len() > sequence.verify_rows() {
            return Err(ModelError::PassRows {
                rows: tokens.len(),
                capacity: sequence.verify_rows(),
            });
        }
        self.run(
            work,
            sequence,
            tokens,
            Keep::Each,
            LogitsWanted::All,
            logits,
        )
    }

    /// Keeps the first `rows` tokens of the last verify pass.
    ///
    /// # Errors
    /// [`ModelError::Device`].
    pub fn keep(&self, sequence: &mut Sequence<B>, rows: usize) -> Result<(), ModelError> {
        sequence.keep(&self.device, rows)
    }

    /// The final-normed hidden rows of the last pass, `[rows, hidden]`.
    ///
    /// # Errors
    /// [`ModelError::Device`].
    pub fn hidden(&self, work: &Workspace<B>, rows: usize) -> Result<Vec<f32>, ModelError> {
        let mut out = vec![0.0; rows * self.config.hidden];
        self.device.read(&work.hidden, 0, &mut out)?;
        Ok(out)
    }

    fn check(
        &self,
        work: &Workspace<B>,
        sequence: &Sequence<B>,
        tokens: &[u32],
    ) -> Result<(), ModelError> {
        let (position, context) = (sequence.position(), sequence.context());
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        if sequence.is_interrupted() {
            return Err(ModelError::Interrupted);
        }
        if tokens.len() > work.rows {
            return Err(ModelError::PassRows {
                rows: tokens.len(),
                capacity: work.rows,
            });
        }
        if position + tokens.len() > context {
            return Err(ModelError::ContextFull {
                position,
                tokens: tokens.len(),
                context,
            });
        }
        check_tokens(tokens, self.config.vocab)
    }

    fn run(
        &self,
        work: &mut Workspace<B>,
        sequence: &mut Sequence<B>,
        tokens: &[u32],
        keep: Keep,
        wanted: LogitsWanted,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let rows = tokens.len();
        let position = sequence.position();
        let (first, count) = wanted.range(rows);
        work.reserve_logits(&self.device, count, self.config.vocab)?;
        self.place(work, sequence, tokens)?;
        self.device.execute(|rec| {
            rec.embed(&self.embed, &work.ids, rows, &mut work.x);
            for layer in 0..self.layers.len() {
                self.layer(rec, work, sequence, layer, rows, keep);
            }
            rec.rms_norm(
                &work.x,
                &self.norm,
                self.config.norm_eps,
                rows,
                &mut work.hidden,
            );
            if count > 0 {
                rec.copy_rows(
                    &work.hidden,
                    first,
                    self.config.hidden,
                    count,
                    &mut work.head_in,
                    0,
                );
                rec.linear(&work.head_in, &[&self.head], count, &mut work.logits.buf);
            }
            Ok(())
        })?;
        self.read_logits(work, count, position + first, logits)
    }

    /// Puts what changes from pass to pass into device memory.
    fn place(
        &self,
        work: &mut Workspace<B>,
        sequence: &Sequence<B>,
        tokens: &[u32],
    ) -> Result<(), ModelError> {
        self.device.write(&mut work.ids, 0, tokens)?;
        #[expect(clippy::cast_possible_truncation, reason = "below the context length")]
        self.device
            .write(&mut work.position, 0, &[sequence.position() as u32])?;
        Ok(())
    }

    /// One layer over the residual stream in `work.x`, in place.
    fn layer(
        &self,
        rec: &mut B::Rec<'_>,
        work: &mut Workspace<B>,
        sequence: &mut Sequence<B>,
        index: usize,
        rows: usize,
        keep: Keep,
    ) {
        let layer = &self.layers[index];
        let lanes = sequence.lanes();
        rec.rms_norm(
            &work.x,
            &layer.input_norm,
            self.config.norm_eps,
            rows,
            &mut work.normed,
        );
        match (&layer.mixer, &mut sequence.layers[index]) {
            (Mixer::Delta(mixer), LayerState::Delta { recurrent, window }) => {
                let state = DeltaLanes {
                    recurrent,
                    window,
                    lane: &sequence.lane,
                    lanes,
                    keep,
                };
                mixer.run(rec, &self.config, state, work, rows);
            }
            (Mixer::Attention(mixer), LayerState::Attention { kv }) => {
                mixer.run(rec, &self.config, &self.frequencies, kv, work, rows);
            }
            _ => unreachable!("a sequence is made from the layers of its model"),
        }
        rec.rms_norm(
            &work.x,
            &layer.post_norm,
            self.config.norm_eps,
            rows,
            &mut work.normed,
        );
        layer.mlp.run(rec, &self.config, work, rows);
    }

    /// Appends the first `count` rows of the logits buffer, the first of which is that of `position`.
    pub(super) fn read_logits(
        &self,
        work: &Workspace<B>,
        count: usize,
        position: usize,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let start = logits.len();
        logits.resize(start + count * self.config.vocab, 0.0);
        self.device
            .read(&work.logits.buf, 0, &mut logits[start..])?;
        for (i, row) in logits[start..].chunks_exact(self.config.vocab).enumerate() {
            if !row.iter().all(|x| x.is_finite()) {
                return Err(ModelError::NotFinite {
                    position: position + i,
                });
            }
        }
        Ok(())
    }
}

pub(super) fn check_tokens(tokens: &[u32], vocab: usize) -> Result<(), ModelError> {
    match tokens
        .iter()
        .enumerate()
        .find(|(_, id)| **id as usize >= vocab)
    {
        Some((index, id)) => Err(ModelError::TokenRange {
            id: *id,
            index,
            vocab,
        }),
        None => Ok(()),
    }
}
