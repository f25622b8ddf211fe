use super::Decoder;
use super::sequence::Sequence;
use crate::{
    DecodeOptions, Drafter, Finish, PromptLogits, SpecError, Target, TokenId, TokenLogprobs,
};

impl<T: Target, D: Drafter<T>> Decoder<T, D> {
    /// Begins a sequence. The target must hold the first [`position`](Target::position) tokens of `prompt` already: none after a reset, or a restored prefix.
    ///
    /// Ends the sequence before. Feeds nothing yet: see [`prefill`](Self::prefill).
    ///
    /// # Errors
    /// No token left to feed; a prompt over the target's capacity; a token or a sampler of another vocabulary; a failure of the drafter.
    pub fn begin(
        &mut self,
        prompt: &[TokenId],
        options: DecodeOptions,
    ) -> Result<(), SpecError<T::Error>> {
        let history = self.sequence.take().map(|sequence| sequence.history);
        let (vocab_size, held, capacity) = (
            self.target.vocab_size(),
            self.target.position(),
            self.target.capacity(),
        );
        if options.sampler.vocab_size() != vocab_size {
            return Err(SpecError::Vocabulary {
                sampler: options.sampler.vocab_size(),
                target: vocab_size,
            });
        }
        if prompt.len() <= held {
            return Err(SpecError::NothingToFeed {
                prompt: prompt.len(),
                held,
            });
        }
        if prompt.len() > capacity {
            return Err(SpecError::PromptTooLong {
                prompt: prompt.len(),
                capacity,
            });
        }
        if let Some(index) = prompt.iter().position(|token| token.index() >= vocab_size) {
            return Err(SpecError::PromptToken {
                index,
                token: prompt[index],
                vocab_size,
            });
        }
        if options.drafts > 0 {
            self.drafter
                .reset(&mut self.target, &prompt[..held])
                .map_err(SpecError::Model)?;
        }
        let mut history = history.unwrap_or_default();
        history.restart(&options.sampler, prompt);
        self.buffers.rows.reshape(vocab_size);
        self.buffers.prompt_row.reshape(vocab_size);
        self.buffers.emitted.clear();
        self.sequence = Some(Sequence::new(options, history, held));
        Ok(())
    }

    /// Feeds at most `limit` (at least one) more tokens of the prompt and returns how many are left. The caller looks for a cancel
    /// between calls; the chunks do not change the output.
    ///
    /// # Errors
    /// No sequence; a failure of the model or of the drafter, or a row without a distribution where log-probabilities of the prompt are wanted: these three end the sequence.
    pub fn prefill(&mut self, limit: usize) -> Result<usize, SpecError<T::Error>> {
        let mut sequence = self.sequence.take().ok_or(SpecError::NoSequence)?;
        self.feed(&mut sequence, limit.max(1))?;
        let left = sequence.prompt_len() - sequence.fed;
        if left == 0 && sequence.max_tokens == 0 {
            sequence.finish = Some(Finish::MaxTokens);
        }
        self.sequence = Some(sequence);
        Ok(left)
    }

    /// [`begin`](Self::begin), then [`prefill`](Self::prefill) of everything in one chunk.
    ///
    /// # Errors
    /// As both.
    pub fn start(
        &mut self,
        prompt: &[TokenId],
        options: DecodeOptions,
    ) -> Result<(), SpecError<T::Error>> {
        self.begin(prompt, options)?;
        self.prefill(usize::MAX).map(|_| ())
    }

    /// Feeds one chunk. The sequence is not in the decoder meanwhile, so that a failure or a panic ends it.
    fn feed(&mut self, sequence: &mut Sequence, limit: usize) -> Result<(), SpecError<T::Error>> {
        let prompt = &sequence.history.tokens()[..sequence.prompt_len()];
        let end = prompt.len().min(sequence.fed.saturating_add(limit));
        let chunk = &prompt[sequence.fed..end];
        if chunk.is_empty() {
            return Ok(());
        }
        let (wanted, expected) = if sequence.prompt_top.is_some() {
            (PromptLogits::Every, chunk.len())
        } else if end == prompt.len() {
            (PromptLogits::Last, 1)
        } else {
            (PromptLogits::None, 0)
        };
        let rows = &mut self.buffers.rows;
        rows.clear();
        self.target
            .prefill(chunk, wanted, rows)
            .map_err(SpecError::Model)?;
        if rows.rows() != expected || rows.vocab_size() != self.target.vocab_size() {
            return Err(SpecError::Rows {
                expected,
                found: rows.rows(),
            });
        }
        if let Some(top) = sequence.prompt_top {
            let following = &prompt[sequence.fed + 1..];
            TokenLogprobs::extend_prompt(&mut sequence.prompt_logprobs, rows, following, top)
                .map_err(|(row, source)| SpecError::Row {
                    position: sequence.fed + row + 1,
                    source,
                })?;
        }
        if end == prompt.len() {
            self.buffers.prompt_row.clear();
            self.buffers.prompt_row.push_row(rows.row(expected - 1));
        }
        if sequence.drafter_follows {
            self.drafter
                .settle(&mut self.target, chunk)
                .map_err(SpecError::Model)?;
        }
        sequence.fed = end;
        Ok(())
    }
}
