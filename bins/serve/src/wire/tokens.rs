//! `/tokenize`, `/detokenize`, `/tokenizer_info` and `/apply-template`, in the dialects of llama.cpp and vLLM at once.

use serde::Serialize;

use super::body::request_fields;
use super::lenient::whole_list;

request_fields! {
    /// Fields of `/tokenize` (a conversation is given by the fields of chat instead).
    pub struct TokenizeFields {
        /// Name of the model; absent means the one that is served.
        pub model: Option<String>,
        /// The text, llama.cpp's way.
        pub content: Option<String>,
        /// The text, vLLM's way.
        pub prompt: Option<String>,
        /// Whether names of control tokens in the text are control tokens. Yes, unless `false`.
        pub parse_special: Option<bool>,
        /// Whether special tokens are put before the text; Qwen3.5 has none to put.
        pub add_special: Option<bool>,
        /// The same, vLLM's way.
        pub add_special_tokens: Option<bool>,
        /// Whether the text of each token is told beside its id, llama.cpp's way.
        pub with_pieces: Option<bool>,
        /// Whether the texts of the tokens are told, vLLM's way.
        pub return_token_strs: Option<bool>,
    }
}

request_fields! {
    /// Fields of `/detokenize`.
    pub struct DetokenizeFields {
        /// Name of the model; absent means the one that is served.
        pub model: Option<String>,
        /// The ids.
        #[serde(deserialize_with = "whole_list")]
        #[cfg_attr(feature = "openapi", schema(required = true))]
        pub tokens: Option<Vec<u32>>,
    }
}

/// The answer of `/tokenize`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tokenized {
    /// How many.
    pub count: usize,
    /// Prompt and answer together, in tokens.
    pub max_model_len: usize,
    /// The ids; with `with_pieces` together with their texts.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub tokens: TokenList,
    /// The texts, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_strs: Option<Vec<String>>,
}

/// Ids, or ids with texts.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum TokenList {
    /// Ids.
    Ids(Vec<u32>),
    /// Ids with texts.
    Pieces(Vec<TokenPiece>),
}

/// A token with its text.
#[derive(Clone, Debug, Serialize)]
pub struct TokenPiece {
    /// Its id.
    pub id: u32,
    /// Its text, or its bytes when they are not text by themselves.
    pub piece: Piece,
}

/// A token's text or bytes.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Piece {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The answer of `/detokenize`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Detokenized {
    /// The text, llama.cpp's way.
    pub content: String,
    /// The same, vLLM's way.
    pub prompt: String,
}

/// The answer of `/tokenizer_info`: what a client needs to do without the tokenizer's files.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenizerInfo {
    /// Kind of tokenizer.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub tokenizer_class: &'static str,
    /// Ends a turn.
    pub eos_token: Option<String>,
    /// Begins a text; Qwen3.5 has none.
    pub bos_token: Option<String>,
    /// Fills batches.
    pub pad_token: Option<String>,
    /// Whether a token is put before each text.
    pub add_bos_token: bool,
    /// Ids that end a turn.
    pub eos_token_ids: Vec<u32>,
    /// Ids in use.
    pub vocab_size: usize,
    /// Prompt and answer together, in tokens.
    pub model_max_length: usize,
    /// The chat template.
    pub chat_template: String,
}

/// The answer of `/apply-template`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppliedTemplate {
    /// The rendered conversation.
    pub prompt: String,
    /// Its tokens, in which nothing that a user wrote is a control token.
    pub token_ids: Vec<u32>,
    /// How many.
    pub count: usize,
}
