use crate::{Chance, Sampler, TokenMask};

/// How a draft is checked against the target's distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acceptance {
    /// The target's own token is drawn by Gumbel-max with noise keyed by (seed, position, token), and a draft is accepted exactly when it is that token.
    /// So the output is a function of the seed alone: the same tokens with any drafter, any number of drafts, or none.
    ///
    /// Daliri, Musco and Suresh, "Coupling without communication and drafter-invariant speculative decoding" (2024).
    #[default]
    Coupled,
    /// A draft `d` from `q` is accepted with probability `min(1, p(d) / q(d))`, else a token is drawn from `max(p - q, 0)`.
    /// The output has the right distribution, but which tokens a seed gives depends on the drafts.
    ///
    /// Leviathan, Kalman and Matias, "Fast inference from transformers via speculative decoding" (2023).
    Classic,
}

/// How a draft is chosen from a row of the drafter's logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DraftChoice {
    /// Drawn from the row's distribution after the whole sampler chain; with [`Acceptance::Coupled`] by the noise that the target will use.
    #[default]
    Sampled,
    /// The row's most likely token after the chain, lowest id on ties.
    Argmax,
}

/// Where log-probabilities are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogprobSource {
    /// The log-softmax of the model's own row: before bias, mask, penalties and temperature.
    #[default]
    Model,
    /// The distribution that the token was drawn from; tokens outside it have minus infinity.
    Sampler,
}

/// Log-probabilities to give with each emitted token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogprobOptions {
    /// How many of the most likely tokens to list, besides the emitted one.
    pub top: usize,
    /// Where they are read.
    pub source: LogprobSource,
}

/// What a request asks of the decoder.
#[derive(Debug)]
pub struct DecodeOptions {
    /// The sampler, checked against the target's vocabulary. It also knows the stop tokens.
    pub sampler: Sampler,
    /// Most tokens to emit. Exact: the last round drafts no further.
    pub max_tokens: usize,
    /// Most drafts in a round; 0 is plain decoding.
    pub drafts: usize,
    /// How drafts are checked.
    pub acceptance: Acceptance,
    /// How drafts are chosen from a drafter's logits.
    pub draft_choice: DraftChoice,
    /// Log-probabilities of the output; `None` computes none.
    pub logprobs: Option<LogprobOptions>,
    /// Log-probabilities of the prompt's own tokens, with so many alternatives each. Needs every row of the prompt from the target.
    pub prompt_logprobs: Option<usize>,
    /// A constraint on the output.
    pub mask: Option<Box<dyn TokenMask>>,
    /// The randomness of [`Acceptance::Classic`]; `None` is [`Seeded`](crate::Seeded) with the sampler's seed.
    pub chance: Option<Box<dyn Chance>>,
}

impl DecodeOptions {
    /// One draft a round, coupled acceptance, no limit of tokens, no log-probabilities, no mask.
    #[must_use]
    pub const fn new(sampler: Sampler) -> Self {
        Self {
            sampler,
            max_tokens: usize::MAX,
            drafts: 1,
            acceptance: Acceptance::Coupled,
            draft_choice: DraftChoice::Sampled,
            logprobs: None,
            prompt_logprobs: None,
            mask: None,
            chance: None,
        }
    }
}
