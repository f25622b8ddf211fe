//! Text to token ids and back, with control tokens only where they are allowed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mtp_spec::TokenId;
use serde::Deserialize;
use tokenizers::{AddedVocabulary, NormalizedString, Normalizer as _};

use super::added_tokens::{AddedToken, AddedTokens, Piece};
use super::error::TextError;
use super::generation_config::GenerationConfig;
use super::prompt::{RenderedPrompt, Segment};
use super::vocabulary::{TokenKind, Vocabulary};

/// A byte-level BPE tokenizer of the Qwen3.5 family.
///
/// The added tokens (`<|im_end|>`, `<think>` and so on) are kept out of the underlying tokenizer altogether: text from users
/// cannot reach them, and text that may hold them is cut here.
///
/// ```no_run
/// # fn main() -> Result<(), qwen35_model::text::TextError> {
/// use qwen35_model::text::Tokenizer;
///
/// let tokenizer = Tokenizer::open("checkpoint")?;
/// let hostile = tokenizer.encode_text("<|im_end|>")?;
/// assert!(!hostile.contains(&tokenizer.control_id("<|im_end|>").unwrap()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Tokenizer {
    plain: tokenizers::Tokenizer,
    added: AddedTokens,
    vocabulary: Vocabulary,
    eos: Vec<TokenId>,
    names: NamedTokens,
}

/// The contents of the files a tokenizer is made from.
#[derive(Debug, Clone, Copy)]
pub struct TokenizerFiles<'a> {
    /// `tokenizer.json`.
    pub tokenizer: &'a [u8],
    /// `tokenizer_config.json`: names some added tokens that the other file lacks.
    pub config: Option<&'a [u8]>,
    /// `generation_config.json`: says which tokens end a generation.
    pub generation: Option<&'a [u8]>,
}

/// What to do with special tokens (`<|im_end|>`, but not `<think>` or `<tool_call>`) when ids become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Write them out.
    Keep,
    /// Leave them out.
    Skip,
}

impl Tokenizer {
    /// Reads `tokenizer.json` and, where present, `tokenizer_config.json` and `generation_config.json` of a folder.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, and everything [`Tokenizer::from_files`] refuses.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, TextError> {
        let dir = dir.as_ref();
        let tokenizer = read(&dir.join("tokenizer.json"))?;
        let config = read_if_present(&dir.join("tokenizer_config.json"))?;
        let generation = read_if_present(&dir.join("generation_config.json"))?;
        Self::from_files(TokenizerFiles {
            tokenizer: &tokenizer,
            config: config.as_deref(),
            generation: generation.as_deref(),
        })
    }

    /// Builds a tokenizer from the contents of its files.
    ///
    /// # Errors
    ///
    /// Files that are not the expected JSON, a vocabulary that is not byte-level, added tokens that contradict each other or
    /// carry unsupported flags, and no end-of-sequence token in any of the files.
    pub fn from_files(files: TokenizerFiles<'_>) -> Result<Self, TextError> {
        let listed: TokenizerJson = parse("tokenizer.json", files.tokenizer)?;
        let config: TokenizerConfig = files.config.map_or(Ok(TokenizerConfig::default()), |c| {
            parse("tokenizer_config.json", c)
        })?;
        let generation: GenerationConfig = files
            .generation
            .map_or(Ok(GenerationConfig::default()), |g| {
                parse("generation_config.json", g)
            })?;

        let mut plain = tokenizers::Tokenizer::from_bytes(files.tokenizer).map_err(|e| {
            TextError::TokenizerRefused {
                message: e.to_string(),
            }
        })?;
        plain.with_added_vocabulary(AddedVocabulary::new());

        let decoder = config
            .added_tokens_decoder
            .into_iter()
            .map(|(id, token)| token.with_id(id));
        let added = AddedTokens::new(listed.added_tokens.into_iter().chain(decoder))?;
        let vocabulary = Vocabulary::new(&plain.get_vocab(false), &added)?;

        let names = NamedTokens {
            bos: config.bos_token.map(TokenName::into_text),
            eos: config.eos_token.map(TokenName::into_text),
            pad: config.pad_token.map(TokenName::into_text),
        };
        let mut eos = generation.eos_token_id;
        if eos.is_empty() {
            eos.extend(names.eos.as_deref().and_then(|name| added.id_of(name)));
        }
        if eos.is_empty() {
            return Err(TextError::NoEos);
        }
        if let Some(&id) = eos.iter().find(|&&id| vocabulary.bytes(id).is_none()) {
            return Err(TextError::UnknownToken {
                id,
                used: vocabulary.used(),
            });
        }
        let eos = eos.into_iter().map(TokenId).collect();
        Ok(Self {
            plain,
            added,
            vocabulary,
            eos,
            names,
        })
    }

    /// Tokens of text in which nothing is a control token, whatever it looks like.
    ///
    /// # Errors
    ///
    /// Only where the split pattern gives up, on extreme repetitions.
    pub fn encode_text(&self, text: &str) -> Result<Vec<TokenId>, TextError> {
        let mut ids = Vec::new();
        self.push_plain(text, &mut ids)?;
        Ok(ids)
    }

    /// Tokens of text in which control tokens are written by their names, as in the prompt of a raw completion.
    ///
    /// # Errors
    ///
    /// As [`Tokenizer::encode_text`].
    pub fn encode_with_controls(&self, text: &str) -> Result<Vec<TokenId>, TextError> {
        let mut ids = Vec::new();
        for piece in self.added.split_raw(text) {
            match piece {
                Piece::Control(id) => ids.push(TokenId(id)),
                Piece::Text(text) => self.push_unnormalized(text, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// Tokens of a rendered chat: control tokens in the template's own text only.
    ///
    /// Text between two control tokens is tokenised as a whole, across the borders of template and user text, so that
    /// the ids are those of the rendered string wherever no user text imitates a control token.
    ///
    /// # Errors
    ///
    /// As [`Tokenizer::encode_text`].
    pub fn encode_prompt(&self, prompt: &RenderedPrompt) -> Result<Vec<TokenId>, TextError> {
        let mut ids = Vec::new();
        let mut run = String::new();
        for segment in prompt.segments() {
            let scaffold = match segment {
                Segment::Content(text) => {
                    run.push_str(text);
                    continue;
                }
                Segment::Scaffold(text) => text,
            };
            for piece in self.added.split_raw(scaffold) {
                match piece {
                    Piece::Text(text) => run.push_str(text),
                    Piece::Control(id) => {
                        self.push_plain(&run, &mut ids)?;
                        run.clear();
                        ids.push(TokenId(id));
                    }
                }
            }
        }
        self.push_plain(&run, &mut ids)?;
        Ok(ids)
    }

    /// Text of `ids`; bytes that are not UTF-8 become U+FFFD, ids outside the vocabulary become nothing.
    ///
    /// For text that is still growing use [`super::Utf8Stream`].
    pub fn decode(&self, ids: &[TokenId], special: SpecialTokens) -> String {
        let mut bytes = Vec::new();
        for &id in ids {
            if special == SpecialTokens::Keep || !self.is_special(id) {
                bytes.extend_from_slice(self.token_bytes(id).unwrap_or_default());
            }
        }
        String::from_utf8(bytes)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }

    /// The bytes a token stands for; an added token stands for its name. `None` for an id that is not in use.
    pub fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.vocabulary.bytes(id.0)
    }

    /// Number of ids in use: `0..vocab_size()`. Rows of the model from here on are padding and must never be sampled.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.used()
    }

    /// Whether a token is an added token of either kind, special or not.
    pub fn is_control(&self, id: TokenId) -> bool {
        self.vocabulary.kind(id.0) != TokenKind::Base
    }

    /// Whether a token is left out of text by [`SpecialTokens::Skip`].
    pub fn is_special(&self, id: TokenId) -> bool {
        self.vocabulary.kind(id.0) == TokenKind::Special
    }

    /// The id of an added token by its name, for example `</think>`.
    pub fn control_id(&self, name: &str) -> Option<TokenId> {
        self.added.id_of(name).map(TokenId)
    }

    /// Ids that end a generation; never empty.
    pub fn eos(&self) -> &[TokenId] {
        &self.eos
    }

    /// The token named as `eos_token` in `tokenizer_config.json`.
    pub fn eos_token(&self) -> Option<&str> {
        self.names.eos.as_deref()
    }

    /// The token named as `bos_token` in `tokenizer_config.json`; Qwen3.5 has none.
    pub fn bos_token(&self) -> Option<&str> {
        self.names.bos.as_deref()
    }

    /// The token named as `pad_token` in `tokenizer_config.json`.
    pub fn pad_token(&self) -> Option<&str> {
        self.names.pad.as_deref()
    }

    fn push_unnormalized(&self, text: &str, ids: &mut Vec<TokenId>) -> Result<(), TextError> {
        if !self.added.any_normalized() {
            return self.push_plain(text, ids);
        }
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = self.plain.get_normalizer() {
            normalizer
                .normalize(&mut normalized)
                .map_err(|e| encode_error(&*e))?;
        }
        for piece in self.added.split_normalized(normalized.get()) {
            match piece {
                Piece::Control(id) => ids.push(TokenId(id)),
                Piece::Text(text) => self.push_plain(text, ids)?,
            }
        }
        Ok(())
    }

    fn push_plain(&self, text: &str, ids: &mut Vec<TokenId>) -> Result<(), TextError> {
        if !text.is_empty() {
            let encoding = self
                .plain
                .encode_fast(text, false)
                .map_err(|e| encode_error(&*e))?;
            ids.extend(encoding.get_ids().iter().copied().map(TokenId));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct NamedTokens {
    bos: Option<String>,
    eos: Option<String>,
    pad: Option<String>,
}

#[derive(Deserialize)]
struct TokenizerJson {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenizerConfig {
    added_tokens_decoder: BTreeMap<u32, AddedToken>,
    bos_token: Option<TokenName>,
    eos_token: Option<TokenName>,
    pad_token: Option<TokenName>,
}

/// `"<|im_end|>"`, or the older form `{"content": "<|im_end|>", ..}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum TokenName {
    Text(String),
    Token { content: String },
}

impl TokenName {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Token { content: text } => text,
        }
    }
}

fn encode_error(error: &(dyn std::error::Error + Send + Sync)) -> TextError {
    TextError::Encode {
        message: error.to_string(),
    }
}

fn parse<'a, T: Deserialize<'a>>(file: &'static str, json: &'a [u8]) -> Result<T, TextError> {
    serde_json::from_slice(json).map_err(|source| TextError::Json { file, source })
}

fn read(path: &Path) -> Result<Vec<u8>, TextError> {
    fs::read(path).map_err(|source| TextError::File {
        path: path.to_owned(),
        source,
    })
}

fn read_if_present(path: &Path) -> Result<Option<Vec<u8>>, TextError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TextError::File {
            path: path.to_owned(),
            source,
        }),
    }
}
