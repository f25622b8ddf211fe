//! An engine over a device of this process.

use std::sync::Arc;
use std::time::Instant;

use mtp_spec::{
    Adaptive, AdaptiveConfig, DecodeOptions, Decoder, Emitted, Finish, LogprobOptions, NoDraft,
    PromptLookup, Sampler, Statistics, Step, Target as _, TokenLogprobs,
};
use tt_device::Backend;

use super::drafter::AnyDrafter;
use super::{DrafterKind, Engine, EngineAbout, EngineError, Generation, PrefillProgress, Started};
use crate::ModelError;
use crate::session::{MtpDrafter, Session, SessionOptions};
use crate::trunk::Model;

/// When to draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drafting {
    /// Never.
    Off,
    /// In every round.
    #[default]
    On,
    /// While it is measured to save time; what is emitted does not depend on it.
    Auto,
}

/// Settings of a [`LocalEngine`].
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineOptions {
    /// Sizes.
    pub session: SessionOptions,
    /// When to draft.
    pub drafting: Drafting,
    /// Who drafts.
    pub drafter: DrafterKind,
}

/// One model on one device, one sequence at a time.
#[derive(Debug)]
pub struct LocalEngine<B: Backend> {
    about: EngineAbout,
    decoder: Decoder<Session<B>, AnyDrafter>,
    options: EngineOptions,
    run: Option<Run>,
}

/// The generation in progress.
#[derive(Debug)]
struct Run {
    total: usize,
    cache: bool,
    /// Positions to stop prefill at and save, descending.
    checkpoints: Vec<usize>,
    adaptive: Option<Adaptive>,
}

impl<B: Backend> LocalEngine<B> {
    /// An engine over `model`. `about` is completed with what the model and the options say.
    ///
    /// # Errors
    /// [`ModelError::Device`] when there is no memory for the context.
    pub fn new(
        model: Arc<Model<B>>,
        about: EngineAbout,
        options: EngineOptions,
    ) -> Result<Self, ModelError> {
        let drafter = match (options.drafting, options.drafter) {
            (Drafting::Off, _) => AnyDrafter::None(NoDraft),
            (_, DrafterKind::PromptLookup) => AnyDrafter::Lookup(PromptLookup::default()),
            (_, DrafterKind::Mtp) if model.has_mtp() => AnyDrafter::Mtp(MtpDrafter::default()),
            (_, DrafterKind::Mtp) => AnyDrafter::None(NoDraft),
        };
        let about = EngineAbout {
            vocab_size: model.config().vocab,
            context: options.session.context,
            contract: model.device().contract().id().to_owned(),
            device: model.device().describe(),
            mtp: !matches!(drafter, AnyDrafter::None(_)),
            ..about
        };
        let decoder = Decoder::new(Session::new(model, options.session)?, drafter);
        Ok(Self {
            about,
            decoder,
            options,
            run: None,
        })
    }

    /// The session, for looking at its state.
    #[must_use]
    pub fn session(&self) -> &Session<B> {
        self.decoder.target()
    }
}

impl<B: Backend> Engine for LocalEngine<B> {
    fn about(&self) -> &EngineAbout {
        &self.about
    }

    fn start(&mut self, generation: Generation) -> Result<Started, EngineError> {
        self.run = None;
        let sampler = Sampler::new(generation.sampler, self.about.vocab_size)?;
        let prompt = generation.prompt;
        let ids: Vec<u32> = prompt.iter().map(|token| token.0).collect();
        // Rows of a cached prefix have no logits to score.
        let reuse = generation.cache_prompt && generation.prompt_logprobs.is_none();
        let cached = self.decoder.target_mut().begin(&ids, reuse)?;
        let drafts = if generation.speculative && self.about.mtp {
            self.decoder.target().drafts()
        } else {
            0
        };
        let mut options = DecodeOptions::new(sampler);
        options.max_tokens = generation.max_tokens;
        options.drafts = drafts;
        options.logprobs = generation.top_logprobs.map(|top| LogprobOptions {
            top,
            ..LogprobOptions::default()
        });
        options.prompt_logprobs = generation.prompt_logprobs;
        options.mask = generation.mask;
        self.decoder.begin(&prompt, options)?;
        let mut checkpoints = generation.checkpoints;
        checkpoints.retain(|at| *at > cached && *at < prompt.len());
        checkpoints.sort_unstable_by(|a, b| b.cmp(a));
        let adaptive = (self.options.drafting == Drafting::Auto && drafts > 0).then(|| {
            Adaptive::new(AdaptiveConfig {
                drafts,
                ..AdaptiveConfig::default()
            })
        });
        self.run = Some(Run {
            total: prompt.len(),
            cache: generation.cache_prompt,
            checkpoints,
            adaptive,
        });
        Ok(Started {
            prompt_tokens: prompt.len(),
            cached_tokens: cached,
        })
    }

    fn prefill(&mut self) -> Result<PrefillProgress, EngineError> {
        let Some(run) = &mut self.run else {
            return Err(mtp_spec::SpecError::NoSequence.into());
        };
        let position = self.decoder.target().position();
        let rows = self.options.session.prefill_rows.max(1);
        let checkpoint = run.checkpoints.last().copied();
        let limit = checkpoint.map_or(rows, |at| rows.min(at - position));
        let left = self.decoder.prefill(limit)?;
        let done = run.total - left;
        if checkpoint == Some(done) {
            run.checkpoints.pop();
        }
        if run.cache && (left == 0 || checkpoint == Some(done)) {
            self.decoder.target_mut().save_prefix()?;
        }
        Ok(PrefillProgress {
            done,
            total: run.total,
        })
    }

    fn step(
        &mut self,
        keep: &mut dyn FnMut(&[Emitted]) -> usize,
    ) -> Result<Option<Finish>, EngineError> {
        let adaptive = self.run.as_mut().and_then(|run| run.adaptive.as_mut());
        let drafts = adaptive.as_ref().map(|adaptive| adaptive.drafts());
        if let Some(drafts) = drafts {
            self.decoder.set_drafts(drafts);
        }
        let began = Instant::now();
        let Some(round) = self.decoder.round()? else {
            return Ok(self.decoder.finish());
        };
        let took = began.elapsed();
        let tokens = round.tokens();
        if let Some(adaptive) = adaptive {
            let step = Step {
                tokens,
                rows: round.rows(),
                drafted: round.drafted(),
                ..Step::default()
            };
            adaptive.record(&step, took);
        }
        let kept = keep(tokens);
        round.keep(kept)?;
        Ok(self.decoder.finish())
    }

    fn prompt_logprobs(&self) -> &[TokenLogprobs] {
        self.decoder.prompt_logprobs()
    }

    fn statistics(&self) -> &Statistics {
        self.decoder.statistics()
    }

    fn finish(&mut self) {
        let Some(run) = self.run.take() else { return };
        // A prompt that was not read to its end has no state worth keeping.
        let read = self.decoder.target().position() >= run.total;
        if run.cache
            && read
            && let Err(error) = self.decoder.target_mut().save_prefix()
        {
            tracing::warn!(%error, "the state at the end of a turn was not saved");
        }
    }
}
