use crate::{Drafts, Target, TokenId};

/// Something that guesses what the target will say next.
///
/// Nothing a drafter does changes the output under [`Acceptance::Coupled`](crate::Acceptance::Coupled); a bad one only costs time.
///
/// Calls come in this order: [`reset`](Self::reset) once a sequence, [`settle`](Self::settle) after each chunk of the prompt, then
/// rounds of [`propose`](Self::propose) (left out when nothing is to be drafted) and `settle`. A round that fails or
/// is dropped ends without `settle`, and `propose` comes again with the same anchor.
pub trait Drafter<T: Target> {
    /// A new sequence begins; the target already holds `held` (empty, or a restored prefix).
    ///
    /// # Errors
    /// Whatever stops the model.
    fn reset(&mut self, target: &mut T, held: &[TokenId]) -> Result<(), T::Error>;

    /// Proposes what may follow `anchor`, the last token of the sequence, which the target has not been fed.
    ///
    /// Each draft goes into `drafts`: [`Drafts::draw`] for a row of logits, [`Drafts::push`] for a token chosen outright.
    /// Its [`Drafts::room`] is the budget; it is at least 1 on entry.
    ///
    /// # Errors
    /// Whatever stops the model. To have no idea is not an error: propose nothing.
    fn propose(
        &mut self,
        target: &mut T,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), T::Error>;

    /// The target has just committed `kept`: a chunk of the prompt, or the confirmed part of the last block
    /// (the anchor, then the accepted drafts). The rows of the target's last pass begin with theirs.
    ///
    /// The token after the last of `kept` is the anchor of the next `propose`, or the first of the next chunk.
    ///
    /// # Errors
    /// Whatever stops the model.
    fn settle(&mut self, target: &mut T, kept: &[TokenId]) -> Result<(), T::Error>;
}

/// Plain decoding: a drafter that never proposes anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDraft;

impl<T: Target> Drafter<T> for NoDraft {
    fn reset(&mut self, _target: &mut T, _held: &[TokenId]) -> Result<(), T::Error> {
        Ok(())
    }

    fn propose(
        &mut self,
        _target: &mut T,
        _anchor: TokenId,
        _drafts: &mut Drafts<'_>,
    ) -> Result<(), T::Error> {
        Ok(())
    }

    fn settle(&mut self, _target: &mut T, _kept: &[TokenId]) -> Result<(), T::Error> {
        Ok(())
    }
}

impl<T: Target, D: Drafter<T> + ?Sized> Drafter<T> for Box<D> {
    fn reset(&mut self, target: &mut T, held: &[TokenId]) -> Result<(), T::Error> {
        (**self).reset(target, held)
    }

    fn propose(
        &mut self,
        target: &mut T,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), T::Error> {
        (**self).propose(target, anchor, drafts)
    }

    fn settle(&mut self, target: &mut T, kept: &[TokenId]) -> Result<(), T::Error> {
        (**self).settle(target, kept)
    }
}
