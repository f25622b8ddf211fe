//! Hidden rows on their way to the MTP head.

use tt_device::{Backend, Ops};

use crate::ModelError;
use crate::sequence::Sequence;
use crate::trunk::{DraftRows, LogitsWanted, Model, Workspace};

/// Hidden rows of committed tokens that the head has not taken in.
///
/// The head's KV gets a row for each position whose next token is known. Rows wait here until a draft is
/// wanted, or until there is no more room: then one pass takes them in. The head's rows and the waiting
/// ones together are always as many as the sequence has tokens.
#[derive(Debug)]
pub(super) struct HeadQueue<B: Backend> {
    /// `[capacity, hidden]`; the first `waiting` rows count.
    rows: B::Buf<f32>,
    capacity: usize,
    waiting: usize,
    first: FirstDraft<B>,
    /// What the second draft and its followers leave for one another, by turns.
    chain: [B::Buf<f32>; 2],
}

/// The answer of the last pass from known tokens. A round that is dropped asks for it again, when the rows
/// it came from are taken in already.
#[derive(Debug)]
struct FirstDraft<B: Backend> {
    logits: Vec<f32>,
    /// The head's own normed output, which a second draft feeds on.
    hidden: B::Buf<f32>,
}

/// The head's part of a saved prefix: its KV rows stay in place, the last hidden row is a copy.
#[derive(Clone, Debug)]
pub(super) struct SavedHead {
    pub(super) rows: usize,
    pub(super) hidden: Vec<f32>,
}

/// What a pass of the head works on, besides the queue.
#[derive(Debug)]
pub(super) struct HeadPass<'a, B: Backend> {
    pub(super) model: &'a Model<B>,
    pub(super) work: &'a mut Workspace<B>,
    pub(super) sequence: &'a mut Sequence<B>,
    /// The sequence's tokens.
    pub(super) tokens: &'a [u32],
}

impl<B: Backend> HeadQueue<B> {
    /// For passes of at most `rows` rows.
    pub(super) fn new(model: &Model<B>, rows: usize) -> Result<Self, ModelError> {
        let (device, width) = (&**model.device(), model.config().hidden);
        Ok(Self {
            rows: device.alloc(rows * width)?,
            capacity: rows,
            waiting: 0,
            first: FirstDraft {
                logits: Vec::new(),
                hidden: device.alloc(width)?,
            },
            chain: [device.alloc(width)?, device.alloc(width)?],
        })
    }

    /// Forgets everything, for an empty sequence.
    pub(super) fn clear(&mut self) {
        self.waiting = 0;
    }

    /// Queues the first `rows` hidden rows of the last trunk pass, whose tokens the sequence now ends with.
    pub(super) fn push(&mut self, pass: HeadPass<'_, B>, rows: usize) -> Result<(), ModelError> {
        let HeadPass {
            model,
            work,
            sequence,
            tokens,
        } = pass;
        if self.waiting + rows > self.capacity {
            let waiting = self.waiting;
            // Every waiting row is of a token before this pass, so what followed it is known.
            self.take_in(
                HeadPass {
                    model,
                    work,
                    sequence,
                    tokens,
                },
                waiting,
            )?;
        }
        model.device().execute(|rec| {
            rec.copy_rows(
                work.hidden(),
                0,
                model.config().hidden,
                rows,
                &mut self.rows,
                self.waiting,
            );
            Ok(())
        })?;
        self.waiting += rows;
        Ok(())
    }

    /// Logits of the token after `anchor`, the token that follows the sequence.
    pub(super) fn first_draft(
        &mut self,
        pass: HeadPass<'_, B>,
        anchor: u32,
    ) -> Result<&[f32], ModelError> {
        let HeadPass {
            model,
            work,
            sequence,
            tokens,
        } = pass;
        if self.waiting > 0 {
            let next: Vec<u32> = tokens[sequence.mtp_rows + 1..]
                .iter()
                .copied()
                .chain([anchor])
                .collect();
            self.first.logits.clear();
            let rows = DraftRows {
                hidden: &self.rows,
                tokens: &next,
                first: sequence.mtp_rows,
            };
            let FirstDraft { logits, hidden } = &mut self.first;
            model.draft(work, sequence, &rows, LogitsWanted::Last, hidden, logits)?;
            sequence.mtp_rows += next.len();
            self.waiting = 0;
        }
        Ok(&self.first.logits)
    }

    /// Logits of the token after `draft`, which is the `depth`-th draft of this round (1 for the first).
    ///
    /// Feeds on the head's own output; its KV row does not count and the next round writes over it.
    pub(super) fn next_draft(
        &mut self,
        pass: HeadPass<'_, B>,
        draft: u32,
        depth: usize,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let HeadPass {
            model,
            work,
            sequence,
            ..
        } = pass;
        let [even, odd] = &mut self.chain;
        let (input, output) = match depth {
            1 => (&self.first.hidden, even),
            depth if depth % 2 == 0 => (&*even, odd),
            _ => (&*odd, even),
        };
        let rows = DraftRows {
            hidden: input,
            tokens: &[draft],
            first: sequence.mtp_rows + depth - 1,
        };
        model.draft(work, sequence, &rows, LogitsWanted::Last, output, logits)
    }

    /// Takes in all rows but the last, whose next token is not known, and copies that one. `None` when the
    /// last one is taken in already, with a token that a later prompt need not have.
    pub(super) fn save(&mut self, pass: HeadPass<'_, B>) -> Result<Option<SavedHead>, ModelError> {
        let HeadPass {
            model,
            work,
            sequence,
            tokens,
        } = pass;
        let Some(before_last) = self.waiting.checked_sub(1) else {
            return Ok(None);
        };
        self.take_in(
            HeadPass {
                model,
                work,
                sequence,
                tokens,
            },
            before_last,
        )?;
        let mut hidden = vec![0.0; model.config().hidden];
        model.device().read(&self.rows, 0, &mut hidden)?;
        Ok(Some(SavedHead {
            rows: sequence.mtp_rows,
            hidden,
        }))
    }

    /// Goes back to a saved prefix, whose KV rows are still in place.
    pub(super) fn restore(&mut self, device: &B, saved: &SavedHead) -> Result<(), ModelError> {
        device.write(&mut self.rows, 0, &saved.hidden)?;
        self.waiting = 1;
        Ok(())
    }

    /// Runs the head over the first `count` waiting rows; the others move up.
    fn take_in(&mut self, pass: HeadPass<'_, B>, count: usize) -> Result<(), ModelError> {
        if count == 0 {
            return Ok(());
        }
        let HeadPass {
            model,
            work,
            sequence,
            tokens,
        } = pass;
        let next = &tokens[sequence.mtp_rows + 1..][..count];
        let rows = DraftRows {
            hidden: &self.rows,
            tokens: next,
            first: sequence.mtp_rows,
        };
        model.draft(
            work,
            sequence,
            &rows,
            LogitsWanted::None,
            &mut self.first.hidden,
            &mut self.first.logits,
        )?;
        sequence.mtp_rows += count;
        let width = model.config().hidden;
        let mut left = vec![0.0; (self.waiting - count) * width];
        model.device().read(&self.rows, count * width, &mut left)?;
        model.device().write(&mut self.rows, 0, &left)?;
        self.waiting -= count;
        Ok(())
    }
}
