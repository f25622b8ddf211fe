//! What can go wrong between text and tokens, and whose fault it is.

use std::path::PathBuf;

/// An error of the text half of the crate.
///
/// [`TextError::is_client_fault`] tells a request that must be refused from a package that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A file of the tokenizer or the template could not be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not the JSON it should be.
    #[error("{file} is not what it should be")]
    Json {
        /// Name of the file inside the package.
        file: &'static str,
        /// Where and why.
        source: serde_json::Error,
    },
    /// `tokenizer.json` was refused by the tokenizer library.
    #[error("tokenizer.json cannot be used: {message}")]
    TokenizerRefused {
        /// What the library said.
        message: String,
    },
    /// An added token has a flag whose effect is not implemented.
    #[error("added token {token:?}: flag {flag} is not supported")]
    AddedTokenFlag {
        /// The token's text.
        token: String,
        /// `lstrip`, `rstrip` or `single_word`.
        flag: &'static str,
    },
    /// One id stands for two texts, or one text for two ids.
    #[error("added token {token:?} with id {id} contradicts another entry of the vocabulary")]
    AddedTokenConflict {
        /// The token's text.
        token: String,
        /// Its id.
        id: u32,
    },
    /// A base token holds a character outside the byte-level alphabet.
    #[error("token {id} ({token:?}) is not in the byte-level alphabet")]
    NotByteLevel {
        /// The token's id.
        id: u32,
        /// The token as it stands in `tokenizer.json`.
        token: String,
    },
    /// The vocabulary names an id far beyond its own size.
    #[error("token id {id} is beyond what a vocabulary of {tokens} tokens can hold")]
    TokenIdTooLarge {
        /// The id.
        id: u32,
        /// Number of tokens named in the files.
        tokens: usize,
    },
    /// None of the files says which token ends a generation.
    #[error("no end-of-sequence token is named")]
    NoEos,
    /// An id was asked for that the vocabulary does not have.
    #[error("token id {id} is not in the vocabulary of {used} tokens")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Number of ids in use; ids from here on are padding.
        used: usize,
    },
    /// Text could not be split into tokens, which the split pattern allows only for extreme repetitions.
    #[error("text cannot be tokenised: {message}")]
    Encode {
        /// What the library said.
        message: String,
    },
    /// The package has no chat template.
    #[error("no chat template in the package")]
    NoTemplate,
    /// The chat template does not compile.
    #[error("chat template does not compile")]
    TemplateSyntax {
        /// Where and why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The template refused the conversation with `raise_exception`.
    #[error("chat template refused the messages: {message}")]
    TemplateRaised {
        /// The template's own words.
        message: String,
    },
    /// The template failed while it ran.
    #[error("chat template failed")]
    TemplateFailed {
        /// Where and why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The template treats user text in a way in which its origin cannot be followed, so that control tokens of the
    /// template could not be told from look-alikes in user text.
    #[error("chat template rewrites message text so that its origin is lost")]
    TemplateLosesOrigin,
    /// The list of messages is empty.
    #[error("messages is empty")]
    NoMessages,
    /// A message has a role nobody knows.
    #[error("messages[{index}]: unknown role {role:?}")]
    UnknownRole {
        /// Position of the message.
        index: usize,
        /// The role as sent.
        role: String,
    },
    /// A content part is not text.
    #[error(
        "messages[{index}]: content part of type {part_type:?} is not supported, this model reads text only"
    )]
    UnsupportedPart {
        /// Position of the message.
        index: usize,
        /// The part's type, for example `image_url`.
        part_type: String,
    },
    /// A text part has no text.
    #[error("messages[{index}]: content part {part} has no text")]
    PartWithoutText {
        /// Position of the message.
        index: usize,
        /// Position of the part.
        part: usize,
    },
    /// A system or developer message stands somewhere else than first.
    #[error("messages[{index}]: a system message is allowed only as the first message")]
    LateSystem {
        /// Position of the message.
        index: usize,
    },
    /// Only assistant messages carry tool calls.
    #[error("messages[{index}]: tool_calls in a message of role {role}")]
    ToolCallsRole {
        /// Position of the message.
        index: usize,
        /// The role as sent.
        role: String,
    },
    /// A tool call's arguments are not a JSON object.
    #[error("messages[{index}].tool_calls[{call}]: arguments are not a JSON object")]
    ToolCallArguments {
        /// Position of the message.
        index: usize,
        /// Position of the call.
        call: usize,
    },
    /// A tool call has no function name.
    #[error("messages[{index}].tool_calls[{call}]: no function name")]
    ToolCallName {
        /// Position of the message.
        index: usize,
        /// Position of the call.
        call: usize,
    },
    /// A tool definition is not usable.
    #[error("tools[{index}]: {reason}")]
    ToolDefinition {
        /// Position in `tools`.
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The final message cannot be continued.
    #[error("the final message cannot be continued: {reason}")]
    CannotContinue {
        /// Why not.
        reason: &'static str,
    },
}

impl TextError {
    /// Whether the request is at fault (an HTTP 400), not the package or the program.
    pub fn is_client_fault(&self) -> bool {
        self.param().is_some()
    }

    /// The request field at fault, in the form OpenAI error bodies use for `param`.
    pub fn param(&self) -> Option<&'static str> {
        match self {
            Self::NoMessages
            | Self::UnknownRole { .. }
            | Self::UnsupportedPart { .. }
            | Self::PartWithoutText { .. }
            | Self::LateSystem { .. }
            | Self::ToolCallsRole { .. }
            | Self::ToolCallArguments { .. }
            | Self::ToolCallName { .. }
            | Self::CannotContinue { .. }
            | Self::TemplateRaised { .. } => Some("messages"),
            Self::ToolDefinition { .. } => Some("tools"),
            Self::UnknownToken { .. } => Some("tokens"),
            Self::Encode { .. } => Some("prompt"),
            _ => None,
        }
    }
}
