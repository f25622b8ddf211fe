//! Reading a text and what the model says of each of its tokens.

use tt_device::Backend;

use super::Model;
use super::pass::LogitsWanted;
use super::workspace::Workspace;
use crate::ModelError;
use crate::sequence::Sequence;

impl<B: Backend> Model<B> {
    /// Reads `tokens` from an empty sequence and shows `row` the logits of each position, first to last, with
    /// its index and the token that follows; the last position, which nothing follows, is not shown.
    ///
    /// For perplexity, KL and proofs: teacher forcing over a whole text, in passes as wide as the workspace.
    ///
    /// # Errors
    /// As [`Model::prefill`].
    pub fn score(
        &self,
        work: &mut Workspace<B>,
        sequence: &mut Sequence<B>,
        tokens: &[u32],
        row: &mut dyn FnMut(usize, &[f32], u32),
    ) -> Result<(), ModelError> {
        sequence.clear(&self.device, self.config.delta)?;
        let mut logits = Vec::new();
        let mut first = 0;
        for pass in tokens.chunks(work.rows()) {
            logits.clear();
            self.prefill(work, sequence, pass, LogitsWanted::All, &mut logits)?;
            for (i, logits) in logits.chunks_exact(self.config.vocab).enumerate() {
                if let Some(next) = tokens.get(first + i + 1) {
                    row(first + i, logits, *next);
                }
            }
            first += pass.len();
        }
        Ok(())
    }
}
