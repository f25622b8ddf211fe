use crate::{Sampler, TokenId};

/// The tokens before the one to be drawn, and how often each stands where: what penalties and `min_tokens` read.
///
/// Grows and shrinks at its end, so that a row behind drafts is judged with the history it would have.
#[derive(Clone, Debug, Default)]
pub struct History {
    tokens: Vec<TokenId>,
    prompt_len: usize,
    /// By token; empty when the sampler reads no counts.
    counts: Vec<Count>,
    /// The tokens with a count, in the order of their first appearance.
    seen: Vec<TokenId>,
}

/// How often a token stands in the prompt and in the output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) prompt: u32,
    pub(crate) output: u32,
}

impl History {
    /// The history of a sequence that has only its prompt, counted as `sampler` needs it. Tokens outside the vocabulary are not counted.
    #[must_use]
    pub fn new(sampler: &Sampler, prompt: &[TokenId]) -> Self {
        let mut history = Self::default();
        history.restart(sampler, prompt);
        history
    }

    /// As [`new`](Self::new), in the storage that is there.
    pub fn restart(&mut self, sampler: &Sampler, prompt: &[TokenId]) {
        self.tokens.clear();
        self.tokens.extend_from_slice(prompt);
        self.prompt_len = prompt.len();
        self.seen.clear();
        self.counts.clear();
        if sampler.reads_counts() {
            self.counts.resize(sampler.vocab_size(), Count::default());
            for &token in prompt {
                if let Some(count) = self.counts.get_mut(token.index()) {
                    if count.prompt == 0 {
                        self.seen.push(token);
                    }
                    count.prompt += 1;
                }
            }
        }
    }

    /// Adds the next token of the output.
    pub fn push(&mut self, token: TokenId) {
        self.tokens.push(token);
        if let Some(count) = self.counts.get_mut(token.index()) {
            if count.prompt == 0 && count.output == 0 {
                self.seen.push(token);
            }
            count.output += 1;
        }
    }

    /// Takes tokens off the end until `output_len` tokens of output are left.
    pub fn truncate_output(&mut self, output_len: usize) {
        while self.output().len() > output_len {
            let Some(token) = self.tokens.pop() else {
                return;
            };
            if let Some(count) = self.counts.get_mut(token.index()) {
                count.output -= 1;
                if count.prompt == 0 && count.output == 0 {
                    // Last in, first out: the token seen last is the one whose first appearance goes last.
                    self.seen.pop();
                }
            }
        }
    }

    /// Prompt, then output.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The output so far.
    #[must_use]
    pub fn output(&self) -> &[TokenId] {
        &self.tokens[self.prompt_len..]
    }

    /// Absolute position of the token to be drawn next.
    #[must_use]
    pub fn position(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens that stand anywhere, with their counts; nothing when the sampler reads no counts.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (TokenId, Count)> {
        self.seen
            .iter()
            .map(|&token| (token, self.counts[token.index()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SamplerConfig;

    fn counts(history: &History) -> Vec<(u32, u32, u32)> {
        let mut counts: Vec<_> = history
            .counts()
            .map(|(token, count)| (token.0, count.prompt, count.output))
            .collect();
        counts.sort_unstable();
        counts
    }

    #[test]
    fn what_was_taken_back_leaves_no_count() {
        let config = SamplerConfig {
            presence_penalty: 1.0,
            ..SamplerConfig::default()
        };
        let sampler = Sampler::new(config, 8).unwrap();
        let mut history = History::new(&sampler, &[TokenId(3), TokenId(3), TokenId(1)]);
        history.push(TokenId(5));
        let before = counts(&history);
        assert_eq!(before, [(1, 1, 0), (3, 2, 0), (5, 0, 1)]);
        for token in [3, 5, 7, 7, 2] {
            history.push(TokenId(token));
        }
        assert_eq!(
            counts(&history),
            [(1, 1, 0), (2, 0, 1), (3, 2, 1), (5, 0, 2), (7, 0, 2)]
        );
        history.truncate_output(1);
        assert_eq!(counts(&history), before);
        assert_eq!(history.output(), [TokenId(5)]);
        assert_eq!(history.position(), 4);
        history.truncate_output(0);
        history.truncate_output(0);
        assert_eq!(counts(&history), [(1, 1, 0), (3, 2, 0)]);
    }

    #[test]
    fn a_sampler_without_penalties_counts_nothing() {
        let sampler = Sampler::new(SamplerConfig::default(), 8).unwrap();
        let mut history = History::new(&sampler, &[TokenId(3)]);
        history.push(TokenId(4));
        assert_eq!(history.counts().count(), 0);
        assert_eq!(history.tokens(), [TokenId(3), TokenId(4)]);
    }
}
