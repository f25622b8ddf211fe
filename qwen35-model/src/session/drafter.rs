//! The MTP head as a drafter.

use mtp_spec::{Drafter, Drafts, Target as _, TokenId};
use tt_device::Backend;

use super::Session;
use super::head::HeadPass;
use crate::ModelError;

/// Drafts with the MTP head of the session's model: one token from what is known, further ones from the
/// head's own output.
///
/// The session itself keeps what the head needs, so this holds only scratch, and nothing has to be settled.
#[derive(Clone, Debug, Default)]
pub struct MtpDrafter {
    logits: Vec<f32>,
}

impl<B: Backend> Drafter<Session<B>> for MtpDrafter {
    fn reset(&mut self, _: &mut Session<B>, _: &[TokenId]) -> Result<(), ModelError> {
        Ok(())
    }

    fn propose(
        &mut self,
        session: &mut Session<B>,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), ModelError> {
        if session.position() == 0 {
            return Ok(());
        }
        let Session {
            model,
            work,
            sequence,
            tokens,
            head,
            ..
        } = session;
        let head = head.as_mut().ok_or(ModelError::NoMtpHead)?;
        let pass = HeadPass {
            model,
            work,
            sequence,
            tokens,
        };
        let mut draft = drafts.draw(head.first_draft(pass, anchor.0)?);
        let mut depth = 1;
        while let Some(token) = draft.filter(|_| drafts.room() > 0) {
            self.logits.clear();
            let pass = HeadPass {
                model,
                work,
                sequence,
                tokens,
            };
            head.next_draft(pass, token.0, depth, &mut self.logits)?;
            draft = drafts.draw(&self.logits);
            depth += 1;
        }
        Ok(())
    }

    fn settle(&mut self, _: &mut Session<B>, _: &[TokenId]) -> Result<(), ModelError> {
        Ok(())
    }
}
