//! What the request handlers know about the loaded model.

use std::sync::{Arc, OnceLock};

use mtp_spec::TokenId;
use qwen35_model::text::{ChatTemplate, GenerationConfig, Tokenizer};

use crate::structured::{GrammarError, GrammarFactory};
use qwen35_model::engine::EngineAbout;

/// The text half of a package.
#[derive(Debug)]
pub struct ModelText {
    /// Texts to tokens and back.
    pub tokenizer: Arc<Tokenizer>,
    /// Conversations to prompts.
    pub template: ChatTemplate,
    /// How the model's makers sample.
    pub generation: GenerationConfig,
    /// Facts about the package, for `/props`.
    pub facts: PackageFacts,
}

/// Facts about a package that nobody computes with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageFacts {
    /// Where it is.
    pub path: String,
    /// How its weights are stored.
    pub quantization: String,
}

/// A loaded model, without the engine that computes it.
#[derive(Debug)]
pub struct Model {
    /// What the engine says of itself.
    pub about: EngineAbout,
    /// The text half of the package.
    pub text: ModelText,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    grammars: OnceLock<Result<GrammarFactory, GrammarError>>,
}

impl Model {
    /// Puts the halves together.
    #[must_use]
    pub fn new(about: EngineAbout, text: ModelText) -> Self {
        Self {
            about,
            text,
            created: crate::unix_seconds(),
            grammars: OnceLock::new(),
        }
    }

    /// Tokens that end a turn.
    pub fn eos(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.text.tokenizer.eos().iter().copied()
    }

    /// What `system_fingerprint` says: the package and the runtime.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = self
            .about
            .package_digest
            .get(..12)
            .unwrap_or(&self.about.package_digest);
        format!(
            "{digest}-{}-v{}",
            self.about.contract,
            env!("CARGO_PKG_VERSION")
        )
    }

    /// The grammars of structured output; made on first use, because it walks the whole vocabulary.
    ///
    /// # Errors
    /// A vocabulary that the grammar library cannot use.
    pub fn grammars(&self) -> Result<&GrammarFactory, GrammarError> {
        let made = self
            .grammars
            .get_or_init(|| GrammarFactory::new(&self.text.tokenizer, self.about.vocab_size));
        made.as_ref().map_err(Clone::clone)
    }
}
