//! One sequence on a model, as `mtp-spec` decodes it.

mod drafter;
mod head;
mod prefixes;

use std::sync::Arc;

use mtp_spec::{LogitRows, PromptLogits, Target, TokenId};
use tt_device::Backend;

use crate::ModelError;
use crate::sequence::{RecurrentState, Sequence};
use crate::trunk::{LogitsWanted, Model, Workspace};
use head::{HeadPass, HeadQueue};
use prefixes::Prefixes;

pub use drafter::MtpDrafter;
pub use prefixes::PrefixLimits;

/// Sizes of a [`Session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Longest sequence in tokens, prompt and output.
    pub context: usize,
    /// Tokens of one prefill pass.
    pub prefill_rows: usize,
    /// Most drafts of a round.
    pub drafts: usize,
    /// What may be kept of earlier prompts.
    pub prefixes: PrefixLimits,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            context: 8192,
            prefill_rows: 256,
            drafts: 1,
            prefixes: PrefixLimits::default(),
        }
    }
}

/// A sequence with everything a pass needs: the [`Target`] of speculative decoding.
///
/// Where the model has an MTP head, the final-normed rows of committed tokens queue up for it, so that
/// drafting can begin at any step; [`MtpDrafter`] is the drafter that uses them.
#[derive(Debug)]
pub struct Session<B: Backend> {
    model: Arc<Model<B>>,
    work: Workspace<B>,
    sequence: Sequence<B>,
    /// Tokens that the KV rows hold, from position 0; those past the sequence's position are leftovers that
    /// a restored prefix may still own.
    tokens: Vec<u32>,
    /// Rows of the block that is tentative.
    tentative: Vec<u32>,
    head: Option<HeadQueue<B>>,
    prefixes: Prefixes,
    logits: Vec<f32>,
}

impl<B: Backend> Session<B> {
    /// An empty session.
    ///
    /// # Errors
    /// [`ModelError::Device`] when there is no memory for the context.
    pub fn new(model: Arc<Model<B>>, options: SessionOptions) -> Result<Self, ModelError> {
        let rows = options.prefill_rows.max(options.drafts + 1);
        let lanes = options.drafts + 2;
        let head = if model.has_mtp() {
            Some(HeadQueue::new(&model, rows)?)
        } else {
            None
        };
        Ok(Self {
            work: Workspace::new(&model, rows)?,
            sequence: model.sequence(options.context, lanes)?,
            tokens: Vec::new(),
            tentative: Vec::new(),
            head,
            prefixes: Prefixes::new(options.prefixes),
            logits: Vec::new(),
            model,
        })
    }

    /// The model.
    #[must_use]
    pub const fn model(&self) -> &Arc<Model<B>> {
        &self.model
    }

    /// The state that counts.
    #[must_use]
    pub const fn sequence(&self) -> &Sequence<B> {
        &self.sequence
    }

    /// Most drafts of a round.
    #[must_use]
    pub const fn drafts(&self) -> usize {
        self.sequence.verify_rows() - 1
    }

    /// Begins anew, keeping of the state whatever is a proper prefix of `prompt`: the longest saved one that
    /// `reuse` allows. Returns its length in tokens.
    ///
    /// # Errors
    /// [`ModelError::Device`].
    pub fn begin(&mut self, prompt: &[u32], reuse: bool) -> Result<usize, ModelError> {
        self.rollback();
        let held = if reuse {
            self.restore_prefix(prompt)?
        } else {
            None
        };
        match held {
            Some(length) => Ok(length),
            None => {
                self.clear()?;
                Ok(0)
            }
        }
    }

    /// Back to the empty sequence. Saved prefixes stay.
    ///
    /// # Errors
    /// [`ModelError::Device`].
    pub fn clear(&mut self) -> Result<(), ModelError> {
        self.tentative.clear();
        self.sequence
            .clear(self.model.device(), self.model.config().delta)?;
        if let Some(head) = &mut self.head {
            head.clear();
        }
        Ok(())
    }

    /// Saves the state at the current position, so that a later prompt with these tokens in front can begin
    /// there.
    ///
    /// # Errors
    /// [`ModelError::Device`], [`ModelError::Interrupted`].
    pub fn save_prefix(&mut self) -> Result<(), ModelError> {
        let position = self.sequence.position();
        if position == 0 || !self.prefixes.wants(&self.tokens[..position]) {
            return Ok(());
        }
        let state = self.recurrent_state()?;
        let Self {
            model,
            work,
            sequence,
            tokens,
            head,
            ..
        } = self;
        let head = match head {
            None => None,
            Some(head) => match head.save(HeadPass {
                model,
                work,
                sequence,
                tokens,
            })? {
                Some(saved) => Some(saved),
                None => return Ok(()),
            },
        };
        self.prefixes.save(&self.tokens[..position], state, head);
        Ok(())
    }

    /// The recurrent state at the current position.
    ///
    /// # Errors
    /// [`ModelError::Device`], [`ModelError::Interrupted`].
    pub fn recurrent_state(&self) -> Result<RecurrentState, ModelError> {
        self.sequence
            .recurrent_state(self.model.device(), self.model.config().delta)
    }

    fn restore_prefix(&mut self, prompt: &[u32]) -> Result<Option<usize>, ModelError> {
        let device = &**self.model.device();
        let Some(saved) = self.prefixes.longest(prompt, &self.tokens) else {
            return Ok(None);
        };
        let mtp_rows = saved.head.as_ref().map_or(0, |head| head.rows);
        self.sequence
            .restore(device, self.model.config().delta, &saved.state, mtp_rows)?;
        if let (Some(head), Some(saved)) = (&mut self.head, &saved.head) {
            head.restore(device, saved)?;
        }
        Ok(Some(saved.state.position))
    }

    /// One pass over prompt tokens, at most as many as the workspace has rows.
    fn prefill_pass(&mut self, tokens: &[u32], wanted: LogitsWanted) -> Result<(), ModelError> {
        let position = self.sequence.position();
        // From here on the rows behind this position hold other tokens.
        self.tokens.truncate(position);
        self.model.prefill(
            &mut self.work,
            &mut self.sequence,
            tokens,
            wanted,
            &mut self.logits,
        )?;
        self.tokens.extend_from_slice(tokens);
        self.queue_rows(tokens.len())
    }

    fn queue_rows(&mut self, rows: usize) -> Result<(), ModelError> {
        let Self {
            model,
            work,
            sequence,
            tokens,
            head,
            ..
        } = self;
        match head {
            Some(head) => head.push(
                HeadPass {
                    model,
                    work,
                    sequence,
                    tokens,
                },
                rows,
            ),
            None => Ok(()),
        }
    }
}

impl<B: Backend> Target for Session<B> {
    type Error = ModelError;

    fn vocab_size(&self) -> usize {
        self.model.config().vocab
    }

    fn position(&self) -> usize {
        self.sequence.position()
    }

    fn capacity(&self) -> usize {
        self.sequence.context()
    }

    fn prefill(
        &mut self,
        chunk: &[TokenId],
        wanted: PromptLogits,
        out: &mut LogitRows,
    ) -> Result<(), ModelError> {
        let chunk: Vec<u32> = chunk.iter().map(|token| token.0).collect();
        let passes = chunk.chunks(self.work.rows());
        let last = passes.len().saturating_sub(1);
        self.logits.clear();
        for (i, tokens) in passes.enumerate() {
            let wanted = match wanted {
                PromptLogits::Every => LogitsWanted::All,
                PromptLogits::Last if i == last => LogitsWanted::Last,
                _ => LogitsWanted::None,
            };
            self.prefill_pass(tokens, wanted)?;
        }
        let rows = self.logits.len() / self.vocab_size();
        out.append_rows(rows).copy_from_slice(&self.logits);
        Ok(())
    }

    fn verify(&mut self, block: &[TokenId], out: &mut LogitRows) -> Result<(), ModelError> {
        let position = self.sequence.position();
        self.tokens.truncate(position);
        self.tentative.clear();
        self.tentative.extend(block.iter().map(|token| token.0));
        self.logits.clear();
        self.model.verify(
            &mut self.work,
            &mut self.sequence,
            &self.tentative,
            &mut self.logits,
        )?;
        out.append_rows(block.len()).copy_from_slice(&self.logits);
        Ok(())
    }

    fn commit(&mut self, keep: usize) {
        let kept = keep.min(self.tentative.len());
        self.tokens.extend_from_slice(&self.tentative[..kept]);
        self.tentative.clear();
        // The host cannot fail here; a card that is lost says so again at the next pass, which this marks.
        let committed = self
            .model
            .keep(&mut self.sequence, kept)
            .and_then(|()| self.queue_rows(kept));
        if let Err(error) = committed {
            tracing::error!(%error, "the device failed while a block was committed");
            self.sequence.interrupt();
        }
    }

    fn rollback(&mut self) {
        // Lanes of a block that is not committed are never read, and KV rows past the position do not count.
        self.tentative.clear();
    }
}
