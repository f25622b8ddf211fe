//! skeleton
#![forbid(unsafe_code)]
mod chance; mod decoder; mod drafter; mod drafts; mod error; mod logits; mod logprobs; mod mask; mod noise; mod options; mod sampler; mod statistics; mod target; mod token;
pub use chance::*; pub use decoder::*; pub use drafter::*; pub use drafts::*; pub use error::*; pub use logits::*; pub use logprobs::*; pub use mask::*; pub use noise::*; pub use options::*; pub use sampler::*; pub use statistics::*; pub use target::*; pub use token::*;
