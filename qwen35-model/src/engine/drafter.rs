//! The drafter that a setting names.

use mtp_spec::{Drafter, Drafts, NoDraft, PromptLookup, TokenId};
use tt_device::Backend;

use crate::ModelError;
use crate::session::{MtpDrafter, Session};

/// Who makes drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DrafterKind {
    /// The model's own MTP head.
    #[default]
    Mtp,
    /// Runs of tokens that stood in the context before.
    PromptLookup,
}

#[derive(Debug)]
pub(super) enum AnyDrafter {
    None(NoDraft),
    Mtp(MtpDrafter),
    Lookup(PromptLookup),
}

impl<B: Backend> Drafter<Session<B>> for AnyDrafter {
    fn reset(&mut self, target: &mut Session<B>, held: &[TokenId]) -> Result<(), ModelError> {
        match self {
            Self::None(drafter) => drafter.reset(target, held),
            Self::Mtp(drafter) => drafter.reset(target, held),
            Self::Lookup(drafter) => drafter.reset(target, held),
        }
    }

    fn propose(
        &mut self,
        target: &mut Session<B>,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), ModelError> {
        match self {
            Self::None(drafter) => drafter.propose(target, anchor, drafts),
            Self::Mtp(drafter) => drafter.propose(target, anchor, drafts),
            Self::Lookup(drafter) => drafter.propose(target, anchor, drafts),
        }
    }

    fn settle(&mut self, target: &mut Session<B>, kept: &[TokenId]) -> Result<(), ModelError> {
        match self {
            Self::None(drafter) => drafter.settle(target, kept),
            Self::Mtp(drafter) => drafter.settle(target, kept),
            Self::Lookup(drafter) => drafter.settle(target, kept),
        }
    }
}
