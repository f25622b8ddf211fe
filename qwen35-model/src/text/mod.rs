//! Text in and text out: tokenizer, chat template, and the parsers of what the model writes.
//!
//! On the way in, [`Conversation`] checks the messages, [`ChatTemplate`] renders them and keeps apart what the template
//! wrote from what a user wrote, and [`Tokenizer`] turns only the former into control tokens. On the way out,
//! [`OutputParser`] takes one token at a time and gives [`OutputEvent`]s.

mod added_tokens;
mod byte_level;
mod chat_template;
mod conversation;
mod detokenize;
mod error;
mod generation_config;
mod json_call;
mod message;
mod output;
mod prompt;
mod provenance;
mod python;
mod reasoning;
mod stop;
mod template_methods;
mod template_values;
mod tokenizer;
mod tool_arguments;
mod tool_calls;
mod vocabulary;

pub use chat_template::{ChatTemplate, GenerationPrompt, RenderOptions};
pub use conversation::{Conversation, SystemMessages};
pub use detokenize::Utf8Stream;
pub use error::TextError;
pub use generation_config::GenerationConfig;
pub use message::{
    ChatMessage, ContentPart, FunctionCall, MessageContent, ToolCall, ToolDefinition,
};
pub use output::{OutputEnd, OutputEvent, OutputOptions, OutputParser, StopReason, ToolParsing};
pub use prompt::{RenderedPrompt, Segment, Thinking};
pub use reasoning::{ReasoningParser, ReasoningPiece};
pub use stop::{StopHit, StopMatcher};
pub use tokenizer::{SpecialTokens, Tokenizer, TokenizerFiles};
pub use tool_arguments::ArgumentSchemas;
pub use tool_calls::{ToolCallEvent, ToolCallParser};
