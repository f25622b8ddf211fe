use crate::TokenId;

/// What a request asks of the sampler. Every field has a value that does nothing; [`Default`] is all of those at
/// temperature 1.
///
/// [`Sampler::new`](crate::Sampler::new) checks it against a vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerConfig {
    /// Divides the logits. 0 is greedy: the most likely token, lowest id on ties. Finite, 0 or more.
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest most likely tokens that together have at least this probability. 0 to 1; 1 keeps all, and at least one token is kept.
    pub top_p: f32,
    /// Keeps the tokens with at least `min_p` times the probability of the most likely one. 0 to 1.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of every token that stands in the prompt or the output. 0.01 to 100; 1 does nothing.
    pub repetition_penalty: f32,
    /// Taken once off the logit of every token that stands in the output. -2 to 2.
    pub presence_penalty: f32,
    /// Taken off a token's logit once for each time it stands in the output. -2 to 2.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens, each -100 to 100 and named once. -100 is a ban.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Tokens that are never drawn.
    pub banned: Vec<TokenId>,
    /// Tokens from this id on are never drawn: padding of the vocabulary that the tokenizer has no text for.
    pub vocab_limit: Option<u32>,
    /// Tokens that end the output.
    pub stop_tokens: Vec<TokenId>,
    /// How many tokens the output has before a stop token may be drawn.
    pub min_tokens: usize,
    /// What the noise is keyed with. The same seed, prompt and settings give the same output.
    pub seed: u64,
}

impl Default for SamplerConfig {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            banned: Vec::new(),
            vocab_limit: None,
            stop_tokens: Vec::new(),
            min_tokens: 0,
            seed: 0,
        }
    }
}

impl SamplerConfig {
    /// Temperature 0, nothing else.
    #[must_use]
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }

    /// Checks every field against its range and a vocabulary of `vocab_size` tokens.
    pub(super) fn check(&self, vocab_size: usize) -> Result<(), ConfigError> {
        within("temperature", self.temperature, 0.0, f32::MAX)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repetition_penalty", self.repetition_penalty, 0.01, 100.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        for &(_, bias) in &self.logit_bias {
            within("logit_bias", bias, -100.0, 100.0)?;
        }
        let bias = self.logit_bias.iter().map(|&(token, _)| token);
        known("logit_bias", bias.clone(), vocab_size)?;
        known("banned", self.banned.iter().copied(), vocab_size)?;
        known("stop_tokens", self.stop_tokens.iter().copied(), vocab_size)?;
        let mut named: Vec<TokenId> = bias.collect();
        named.sort_unstable();
        if let Some(twice) = named.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ConfigError::Twice {
                field: "logit_bias",
                token: twice[0],
            });
        }
        Ok(())
    }
}

fn within(field: &'static str, value: f32, lowest: f32, highest: f32) -> Result<(), ConfigError> {
    if value >= lowest && value <= highest {
        Ok(())
    } else {
        Err(ConfigError::Range {
            field,
            value,
            lowest,
            highest,
        })
    }
}

fn known(
    field: &'static str,
    mut tokens: impl Iterator<Item = TokenId>,
    vocab_size: usize,
) -> Result<(), ConfigError> {
    tokens
        .find(|token| token.index() >= vocab_size)
        .map_or(Ok(()), |token| {
            Err(ConfigError::Token {
                field,
                token,
                vocab_size,
            })
        })
}

/// Why a [`SamplerConfig`] was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number outside its range, or not a number.
    #[error("{field}: {value} is not in {lowest}..={highest}")]
    Range {
        /// The field of the config.
        field: &'static str,
        /// What it held.
        value: f32,
        /// The lowest value it may have.
        lowest: f32,
        /// The highest value it may have.
        highest: f32,
    },
    /// A token that the vocabulary does not have.
    #[error("{field}: token {token} is not in a vocabulary of {vocab_size}")]
    Token {
        /// The field of the config.
        field: &'static str,
        /// The token.
        token: TokenId,
        /// Tokens in the vocabulary.
        vocab_size: usize,
    },
    /// A token named twice where once is meant.
    #[error("{field}: token {token} is named twice")]
    Twice {
        /// The field of the config.
        field: &'static str,
        /// The token.
        token: TokenId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut SamplerConfig)) -> Option<&'static str> {
        let mut config = SamplerConfig::default();
        change(&mut config);
        match config.check(10) {
            Ok(()) => None,
            Err(
                ConfigError::Range { field, .. }
                | ConfigError::Token { field, .. }
                | ConfigError::Twice { field, .. },
            ) => Some(field),
        }
    }

    #[test]
    fn a_field_out_of_its_range_is_named() {
        for value in [f32::NAN, f32::INFINITY, -0.5] {
            assert_eq!(refusal(|c| c.temperature = value), Some("temperature"));
            assert_eq!(refusal(|c| c.top_p = value), Some("top_p"));
            assert_eq!(refusal(|c| c.min_p = value), Some("min_p"));
            assert_eq!(
                refusal(|c| c.repetition_penalty = value),
                Some("repetition_penalty")
            );
        }
        assert_eq!(
            refusal(|c| c.repetition_penalty = 0.0),
            Some("repetition_penalty")
        );
        assert_eq!(
            refusal(|c| c.presence_penalty = 2.5),
            Some("presence_penalty")
        );
        assert_eq!(
            refusal(|c| c.frequency_penalty = f32::NAN),
            Some("frequency_penalty")
        );
        assert_eq!(
            refusal(|c| c.logit_bias = vec![(TokenId(1), 100.5)]),
            Some("logit_bias")
        );
        assert_eq!(
            refusal(|c| c.logit_bias = vec![(TokenId(10), 1.0)]),
            Some("logit_bias")
        );
        assert_eq!(refusal(|c| c.banned = vec![TokenId(10)]), Some("banned"));
        assert_eq!(
            refusal(|c| c.stop_tokens = vec![TokenId(3), TokenId(11)]),
            Some("stop_tokens")
        );
    }

    #[test]
    fn a_bias_named_twice_is_refused() {
        let twice = vec![(TokenId(1), 1.0), (TokenId(2), 1.0), (TokenId(1), 2.0)];
        let config = SamplerConfig {
            logit_bias: twice,
            ..SamplerConfig::default()
        };
        let refused = config.check(10).unwrap_err();
        assert_eq!(
            refused,
            ConfigError::Twice {
                field: "logit_bias",
                token: TokenId(1)
            }
        );
        assert_eq!(refused.to_string(), "logit_bias: token 1 is named twice");
    }

    #[test]
    fn the_ends_of_every_range_are_allowed() {
        assert_eq!(refusal(|_| ()), None);
        assert_eq!(SamplerConfig::greedy().check(1), Ok(()));
        assert_eq!(
            refusal(|c| {
                c.top_p = 0.0;
                c.min_p = 1.0;
                c.presence_penalty = -2.0;
                c.frequency_penalty = 2.0;
                c.logit_bias = vec![(TokenId(0), -100.0), (TokenId(9), 100.0)];
            }),
            None
        );
    }
}
