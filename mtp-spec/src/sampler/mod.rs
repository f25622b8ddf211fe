mod config;
pub use config::*;
/// A checked [`SamplerConfig`]: the sampler chain for one vocabulary.
#[derive(Clone, Debug)]
pub struct Sampler {}
impl Sampler {
    /// Checks `config` against a vocabulary.
    ///
    /// # Errors
    /// A [`ConfigError`] naming the field.
    pub fn new(_config: SamplerConfig, _vocab_size: usize) -> Result<Self, ConfigError> { unimplemented!() }
}
/// Why a row cannot be sampled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A logit that is not a number or plus infinity.
    #[error("the logit of token {token} is {logit}")]
    NotFinite {
        /// The token.
        token: crate::TokenId,
        /// Its logit.
        logit: f32,
    },
    /// Bias, bans and mask left no token.
    #[error("no token is allowed")]
    Nothing,
}
