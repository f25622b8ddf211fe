//! Messages that a chat template can be asked to render.

use serde_json::{Map, Value};

use super::error::TextError;
use super::message::{ChatMessage, ContentPart, MessageContent, ToolCall};

/// A checked list of messages: roles known, content plain text, arguments objects, system message first.
///
/// ```
/// use qwen35_model::text::{ChatMessage, Conversation, SystemMessages, TextError};
///
/// let ask = |role| Conversation::parse(vec![ChatMessage::new(role, "Hi")], SystemMessages::OnlyFirst);
/// assert!(ask("user").is_ok());
/// assert!(matches!(ask("bard"), Err(TextError::UnknownRole { index: 0, .. })));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    turns: Vec<Turn>,
}

/// What to do about system and developer messages beyond the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SystemMessages {
    /// Refuse them, as the template does.
    #[default]
    OnlyFirst,
    /// Move the text of all of them to the front, in order, separated by an empty line.
    Merge,
}

/// One checked message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Turn {
    pub(super) role: Role,
    pub(super) content: String,
    pub(super) reasoning: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) tool_call_id: Option<String>,
    pub(super) name: Option<String>,
}

/// The roles the template knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One checked tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
}

impl Conversation {
    /// Checks the messages of a request. `developer` becomes `system`; parts are joined without a separator.
    ///
    /// # Errors
    ///
    /// No messages, an unknown role, a part that is not text, a system message after the first (see `system`), tool
    /// calls outside assistant messages, a call without a name, arguments that are not an object.
    pub fn parse(messages: Vec<ChatMessage>, system: SystemMessages) -> Result<Self, TextError> {
        if messages.is_empty() {
            return Err(TextError::NoMessages);
        }
        let turns: Result<Vec<Turn>, TextError> = messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| Turn::parse(index, message))
            .collect();
        let mut turns = turns?;
        let late = turns
            .iter()
            .skip(1)
            .position(|turn| turn.role == Role::System);
        match (late, system) {
            (None, _) => {}
            (Some(position), SystemMessages::OnlyFirst) => {
                return Err(TextError::LateSystem {
                    index: position + 1,
                });
            }
            (Some(_), SystemMessages::Merge) => turns = merge_system(turns),
        }
        Ok(Self { turns })
    }

    pub(super) fn turns(&self) -> &[Turn] {
        &self.turns
    }
}

impl Turn {
    fn parse(index: usize, message: ChatMessage) -> Result<Self, TextError> {
        let role = match message.role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => {
                return Err(TextError::UnknownRole {
                    index,
                    role: message.role,
                });
            }
        };
        if role != Role::Assistant && !message.tool_calls.is_empty() {
            return Err(TextError::ToolCallsRole {
                index,
                role: message.role,
            });
        }
        let content = match message.content {
            None => String::new(),
            Some(MessageContent::Text(text)) => text,
            Some(MessageContent::Parts(parts)) => join_parts(index, parts)?,
        };
        let calls: Result<Vec<Call>, TextError> = message
            .tool_calls
            .into_iter()
            .enumerate()
            .map(|(at, call)| Call::parse(index, at, call))
            .collect();
        Ok(Self {
            role,
            content,
            reasoning: message.reasoning_content,
            calls: calls?,
            tool_call_id: message.tool_call_id,
            name: message.name,
        })
    }
}

impl Role {
    /// The name templates compare with.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl Call {
    fn parse(index: usize, call: usize, wire: ToolCall) -> Result<Self, TextError> {
        if wire.function.name.is_empty() {
            return Err(TextError::ToolCallName { index, call });
        }
        let arguments = wire
            .function
            .arguments_object()
            .ok_or(TextError::ToolCallArguments { index, call })?;
        Ok(Self {
            id: wire.id,
            name: wire.function.name,
            arguments,
        })
    }
}

fn join_parts(index: usize, parts: Vec<ContentPart>) -> Result<String, TextError> {
    let mut joined = String::new();
    for (
        part,
        ContentPart {
            part_type, text, ..
        },
    ) in parts.into_iter().enumerate()
    {
        if !matches!(
            part_type.as_str(),
            "text" | "input_text" | "output_text" | "refusal"
        ) {
            return Err(TextError::UnsupportedPart { index, part_type });
        }
        joined.push_str(&text.ok_or(TextError::PartWithoutText { index, part })?);
    }
    Ok(joined)
}

fn merge_system(turns: Vec<Turn>) -> Vec<Turn> {
    let (system, others): (Vec<Turn>, Vec<Turn>) = turns
        .into_iter()
        .partition(|turn| turn.role == Role::System);
    let texts: Vec<&str> = system
        .iter()
        .map(|turn| turn.content.trim())
        .filter(|text| !text.is_empty())
        .collect();
    let merged = Turn {
        role: Role::System,
        content: texts.join("\n\n"),
        reasoning: None,
        calls: Vec::new(),
        tool_call_id: None,
        name: None,
    };
    std::iter::once(merged).chain(others).collect()
}
