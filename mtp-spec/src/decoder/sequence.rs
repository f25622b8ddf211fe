use super::Finish;
use crate::mask::MaskCursor;
use crate::{
    Acceptance, Chance, DecodeOptions, DraftChoice, History, LogprobOptions, Sampler, Seeded,
    Statistics, TokenLogprobs,
};

/// Everything that belongs to one sequence, apart from the target's state.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) sampler: Sampler,
    pub(super) max_tokens: usize,
    pub(super) drafts: usize,
    pub(super) acceptance: Acceptance,
    pub(super) draft_choice: DraftChoice,
    pub(super) logprobs: Option<LogprobOptions>,
    pub(super) prompt_top: Option<usize>,
    pub(super) mask: Option<MaskCursor>,
    pub(super) chance: Box<dyn Chance>,
    pub(super) history: History,
    /// Prompt tokens that the target holds.
    pub(super) fed: usize,
    pub(super) finish: Option<Finish>,
    /// Whether the drafter has seen every committed token.
    pub(super) drafter_follows: bool,
    pub(super) prompt_logprobs: Vec<TokenLogprobs>,
    pub(super) statistics: Statistics,
}

impl Sequence {
    pub(super) fn new(options: DecodeOptions, history: History, held: usize) -> Self {
        let vocab_size = options.sampler.vocab_size();
        let seed = options.sampler.config().seed;
        Self {
            max_tokens: options.max_tokens,
            drafts: options.drafts,
            acceptance: options.acceptance,
            draft_choice: options.draft_choice,
            logprobs: options.logprobs,
            prompt_top: options.prompt_logprobs,
            mask: options.mask.map(|mask| MaskCursor::new(mask, vocab_size)),
            chance: options
                .chance
                .unwrap_or_else(|| Box::new(Seeded::new(seed))),
            history,
            fed: held,
            finish: None,
            drafter_follows: options.drafts > 0,
            prompt_logprobs: Vec::new(),
            statistics: Statistics::default(),
            sampler: options.sampler,
        }
    }

    pub(super) fn prompt_len(&self) -> usize {
        self.history.tokens().len() - self.history.output().len()
    }

    /// Takes back what a round did to the history and the mask, down to `output_len` tokens of output, of which `settled` were there before the round.
    pub(super) fn rewind(&mut self, settled: usize, output_len: usize) {
        self.history.truncate_output(output_len);
        if let Some(mask) = &mut self.mask {
            mask.rewind(output_len - settled);
        }
    }
}
