//! skeleton: signatures only
use crate::*;

/// Decodes one sequence after another.
#[derive(Debug)]
pub struct Decoder<T, D> {
    target: T,
    drafter: D,
}

/// Why the output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// This stop token was drawn. It is the last token emitted.
    Stop(TokenId),
    /// As many tokens as asked for.
    MaxTokens,
    /// The target can hold no more.
    Capacity,
}

/// One emitted token.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted {
    /// The token.
    pub token: TokenId,
    /// Its absolute position in the sequence.
    pub position: usize,
    /// Whether it was drafted, and the draft accepted.
    pub drafted: bool,
    /// Its log-probabilities, when asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// What a step did.
#[derive(Debug)]
pub struct Step<'a> {
    /// The tokens emitted, in order.
    pub tokens: &'a [Emitted],
    /// Why the output ended, if it did.
    pub finish: Option<Finish>,
    /// Drafts that the target verified.
    pub drafted: usize,
    /// Drafts that became output.
    pub accepted: usize,
}

/// A round that is drawn and not yet decided. Dropped, it leaves the decoder as it was before.
#[derive(Debug)]
pub struct Round<'a, T: Target, D: Drafter<T>> {
    decoder: &'a mut Decoder<T, D>,
}

impl<T: Target, D: Drafter<T>> Decoder<T, D> {
    /// An idle decoder.
    pub fn new(target: T, drafter: D) -> Self { Self { target, drafter } }
    /// Begins a sequence: the first `target.position()` tokens of `prompt` are in the target already.
    pub fn begin(&mut self, _prompt: &[TokenId], _options: DecodeOptions) -> Result<(), SpecError<T::Error>> { unimplemented!() }
    /// Feeds at most `limit` more prompt tokens; returns how many are left.
    pub fn prefill(&mut self, _limit: usize) -> Result<usize, SpecError<T::Error>> { unimplemented!() }
    /// `begin`, then `prefill` of everything.
    pub fn start(&mut self, _prompt: &[TokenId], _options: DecodeOptions) -> Result<(), SpecError<T::Error>> { unimplemented!() }
    /// Drafts, verifies and draws one round, undecided. `None` when the output has ended.
    pub fn round(&mut self) -> Result<Option<Round<'_, T, D>>, SpecError<T::Error>> { unimplemented!() }
    /// A round of which everything is kept.
    pub fn step(&mut self) -> Result<Step<'_>, SpecError<T::Error>> { unimplemented!() }
    /// Changes the most drafts of a round, from the next on.
    pub fn set_drafts(&mut self, _drafts: usize) { unimplemented!() }
    /// Why the output ended, if it did.
    pub fn finish(&self) -> Option<Finish> { unimplemented!() }
    /// The sequence so far: prompt, then output. The last output token (the anchor) is not in the target yet.
    pub fn tokens(&self) -> &[TokenId] { unimplemented!() }
    /// The output so far.
    pub fn output(&self) -> &[TokenId] { unimplemented!() }
    /// Log-probabilities of `prompt[1..]`, as far as fed, when asked for.
    pub fn prompt_logprobs(&self) -> &[TokenLogprobs] { unimplemented!() }
    /// What drafting brought since `begin`.
    pub fn statistics(&self) -> &Statistics { unimplemented!() }
    /// The target.
    pub fn target(&self) -> &T { &self.target }
    /// The target, to be reset or restored between sequences or saved between steps.
    pub fn target_mut(&mut self) -> &mut T { &mut self.target }
    /// The drafter.
    pub fn drafter(&self) -> &D { &self.drafter }
    /// The drafter.
    pub fn drafter_mut(&mut self) -> &mut D { &mut self.drafter }
    /// Takes the decoder apart.
    pub fn into_parts(self) -> (T, D) { (self.target, self.drafter) }
}

impl<T: Target, D: Drafter<T>> Round<'_, T, D> {
    /// What was drawn, in order; never empty.
    pub fn tokens(&self) -> &[Emitted] { unimplemented!() }
    /// Why the output would end with the last of them.
    pub fn finish(&self) -> Option<Finish> { unimplemented!() }
    /// Emits the first `tokens` of them (1..=len, else clamped) and takes the rest back.
    pub fn keep(self, _tokens: usize) -> Result<(), SpecError<T::Error>> { let _ = &self.decoder; unimplemented!() }
}
