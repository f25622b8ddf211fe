#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod accept;
mod adaptive;
mod chance;
mod decoder;
mod drafter;
mod drafts;
mod error;
mod history;
mod logits;
mod logprobs;
mod lookup;
mod mask;
mod math;
mod noise;
mod options;
mod sampler;
mod statistics;
mod target;
mod token;

pub use adaptive::{Adaptive, AdaptiveConfig};
pub use chance::{Chance, Draw, Purpose, Seeded};
pub use decoder::{Decoder, Emitted, Finish, Round, Step};
pub use drafter::{Drafter, NoDraft};
pub use drafts::Drafts;
pub use error::SpecError;
pub use history::History;
pub use logits::LogitRows;
pub use logprobs::TokenLogprobs;
pub use lookup::PromptLookup;
pub use mask::{Allowed, MaskError, TokenMask};
pub use noise::Noise;
pub use options::{Acceptance, DecodeOptions, DraftChoice, LogprobOptions, LogprobSource};
pub use sampler::{ConfigError, Distribution, RowError, Sampler, SamplerConfig};
pub use statistics::{PlaceCount, Statistics};
pub use target::{PromptLogits, Target};
pub use token::{TokenId, TokenSet};
