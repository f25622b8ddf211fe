use super::{ConfigError, Distribution, SamplerConfig};
use crate::{History, TokenId, TokenSet};

/// The sampler chain for one vocabulary: a checked [`SamplerConfig`].
///
/// [`shape`](Self::shape) is a pure function of a row of logits and what stands before it. Target rows and draft rows go through the same one, so every
/// option works with drafting. The order is:
///
/// 1. `logit_bias` is added (f32); a bias of -100 removes the token;
/// 2. tokens outside the mask, banned tokens, tokens from `vocab_limit` on, and stop tokens before `min_tokens` are removed;
/// 3. penalties, in f32: repetition over prompt and output (as Hugging Face's `RepetitionPenaltyLogitsProcessor`), then
///    frequency times the count, then presence, both over the output alone (as OpenAI's API reference);
/// 4. temperature: 0 leaves the most likely token alone and ends here;
/// 5. `top_k`; 6. `top_p` of what is left, renormalised; 7. `min_p` against the most likely token.
///
/// Where two tokens are equally likely, the one with the lower id counts as more likely, in all of these. From 4 on all is f64 with this crate's own
/// exp and ln, and sums in one fixed order: the same row gives the same tokens on every machine.
#[derive(Clone, Debug)]
pub struct Sampler {
    config: SamplerConfig,
    vocab_size: usize,
    /// Tokens below this index can be drawn.
    limit: usize,
    /// The biases above -100.
    bias: Vec<(TokenId, f32)>,
    /// Tokens banned by name or by a bias of -100.
    bans: Vec<TokenId>,
}

impl Sampler {
    /// Checks `config` against a vocabulary of `vocab_size` tokens.
    ///
    /// # Errors
    /// A [`ConfigError`] naming the field that is out of range, or the token that the vocabulary does not have.
    pub fn new(config: SamplerConfig, vocab_size: usize) -> Result<Self, ConfigError> {
        config.check(vocab_size)?;
        let (bans, bias): (Vec<_>, Vec<_>) = config
            .logit_bias
            .iter()
            .partition(|&&(_, bias)| bias <= -100.0);
        let mut bans: Vec<TokenId> = bans
            .into_iter()
            .map(|(token, _): (TokenId, f32)| token)
            .collect();
        bans.extend_from_slice(&config.banned);
        Ok(Self {
            vocab_size,
            limit: config
                .vocab_limit
                .map_or(vocab_size, |limit| vocab_size.min(limit as usize)),
            bias,
            bans,
            config,
        })
    }

    /// What it was made of.
    #[must_use]
    pub const fn config(&self) -> &SamplerConfig {
        &self.config
    }

    /// Tokens in the vocabulary.
    #[must_use]
    pub const fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Whether the most likely token is always taken.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.config.temperature == 0.0
    }

    /// Whether the token ends the output.
    #[must_use]
    pub fn stops(&self, token: TokenId) -> bool {
        self.config.stop_tokens.contains(&token)
    }

    /// Whether the penalties need to know how often tokens occurred.
    pub(crate) fn reads_counts(&self) -> bool {
        self.config.repetition_penalty != 1.0
            || self.config.presence_penalty != 0.0
            || self.config.frequency_penalty != 0.0
    }

    /// The distribution of the token that follows `history`, from its row of logits, into `out`.
    ///
    /// `allowed` is the mask's set, if one is in force. A row shorter than the vocabulary is about its first tokens, and the others cannot be drawn.
    ///
    /// # Errors
    /// A logit that is NaN or plus infinity; no token left to draw.
    pub fn shape(
        &self,
        logits: &[f32],
        history: &History,
        allowed: Option<&TokenSet>,
        out: &mut Distribution,
    ) -> Result<(), RowError> {
        let logits = &logits[..logits.len().min(self.limit)];
        let early =
            history.output().len() < self.config.min_tokens && !self.config.stop_tokens.is_empty();
        let penalised = self.reads_counts() && !history.tokens().is_empty();
        if self.bias.is_empty() && self.bans.is_empty() && allowed.is_none() && !early && !penalised
        {
            return out.fill(logits, &self.config);
        }
        let mut row = out.take_row();
        row.clear();
        row.extend_from_slice(logits);
        self.edit(&mut row, history, allowed, early);
        let filled = out.fill(&row, &self.config);
        out.return_row(row);
        filled
    }

    /// Steps 1 to 3 of the chain, in place.
    fn edit(&self, row: &mut [f32], history: &History, allowed: Option<&TokenSet>, early: bool) {
        for &(token, bias) in &self.bias {
            if let Some(logit) = row.get_mut(token.index()) {
                *logit += bias;
            }
        }
        if let Some(allowed) = allowed {
            forbid(row, allowed);
        }
        let stops = if early {
            &self.config.stop_tokens[..]
        } else {
            &[]
        };
        for token in self.bans.iter().chain(stops) {
            if let Some(logit) = row.get_mut(token.index()) {
                *logit = f32::NEG_INFINITY;
            }
        }
        let SamplerConfig {
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            ..
        } = self.config;
        for (token, count) in history.counts() {
            let Some(logit) = row.get_mut(token.index()) else {
                continue;
            };
            *logit = if *logit > 0.0 {
                *logit / repetition_penalty
            } else {
                *logit * repetition_penalty
            };
            if count.output > 0 {
                *logit -= frequency_penalty * count.output as f32;
                *logit -= presence_penalty;
            }
        }
    }
}

/// Sets the logits of the tokens that are not in `allowed` to minus infinity.
fn forbid(row: &mut [f32], allowed: &TokenSet) {
    for (i, logits) in row.chunks_mut(32).enumerate() {
        match allowed.words().get(i).copied().unwrap_or(0) {
            u32::MAX => {}
            0 => logits.fill(f32::NEG_INFINITY),
            word => {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}

/// Why no token can be drawn from a row of logits.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A logit that is NaN or plus infinity.
    #[error("the logit of token {token} is {logit}")]
    NotFinite {
        /// The first such token.
        token: TokenId,
        /// Its logit, with bias and penalties.
        logit: f32,
    },
    /// Every token is at minus infinity: the model, the bans and the mask together leave none.
    #[error("no token is allowed")]
    Nothing,
}
