//! Chat messages and tools in the shapes clients send.
//!
//! Reading is lenient about shape; [`super::Conversation`] then says what is wrong in words.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::error::TextError;

/// One message of a chat request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChatMessage {
    /// `system`, `developer`, `user`, `assistant` or `tool`; checked by [`super::Conversation`].
    pub role: String,
    /// The text; `null` and absent are the same.
    #[serde(default)]
    pub content: Option<MessageContent>,
    /// What the model thought before it answered (assistant only).
    #[serde(default, alias = "reasoning", skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// Calls the assistant made; `null` and absent are the empty list.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tool_calls: Vec<ToolCall>,
    /// The call a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Name of the speaker or the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Content as one string or as a list of parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageContent {
    /// Plain text.
    Text(String),
    /// Parts, which are joined without a separator.
    Parts(Vec<ContentPart>),
}

/// One part of a content list. Only text parts are usable; others are kept so that an error can name them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContentPart {
    /// `text`, `image_url` and so on.
    #[serde(rename = "type")]
    pub part_type: String,
    /// The text of a text part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A call of a tool by the assistant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// What a tool message refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Always `function`.
    #[serde(rename = "type", default = "function_type")]
    pub call_type: String,
    /// The call itself.
    pub function: FunctionCall,
}

/// A function name with its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FunctionCall {
    /// Name of the function.
    pub name: String,
    /// The arguments: a JSON object, or (what OpenAI specifies, and what is written) a string that holds one.
    #[serde(default, serialize_with = "arguments_as_text")]
    pub arguments: Value,
}

/// A function the model may call; keeps the client's own JSON, because the template prints it as it came.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ToolDefinition {
    json: Value,
}

impl ChatMessage {
    /// A message of text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: Some(MessageContent::Text(content.into())),
            ..Self::default()
        }
    }
}

impl ContentPart {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            part_type: "text".into(),
            text: Some(text.into()),
        }
    }
}

impl ToolCall {
    /// A call with its arguments as JSON text.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: Some(id.into()),
            call_type: function_type(),
            function: FunctionCall {
                name: name.into(),
                arguments: Value::String(arguments.into()),
            },
        }
    }
}

impl FunctionCall {
    /// The arguments as an object; an empty string and `null` are no arguments. `None` if they are anything else.
    pub fn arguments_object(&self) -> Option<serde_json::Map<String, Value>> {
        match &self.arguments {
            Value::Object(object) => Some(object.clone()),
            Value::Null => Some(serde_json::Map::new()),
            Value::String(text) if text.trim().is_empty() => Some(serde_json::Map::new()),
            Value::String(text) => serde_json::from_str(text).ok(),
            _ => None,
        }
    }
}

impl ToolDefinition {
    /// Checks one entry of `tools`.
    ///
    /// # Errors
    ///
    /// [`TextError::ToolDefinition`] with position `index` if the entry is not `{"type": "function", "function": {"name": ..}}`.
    pub fn parse(index: usize, json: Value) -> Result<Self, TextError> {
        let refuse = |reason| Err(TextError::ToolDefinition { index, reason });
        match json.get("type").map(Value::as_str) {
            None | Some(Some("function")) => {}
            Some(_) => return refuse("only tools of type function are supported"),
        }
        let Some(function) = json.get("function").and_then(Value::as_object) else {
            return refuse("no function object");
        };
        match function.get("name").and_then(Value::as_str) {
            None | Some("") => return refuse("the function has no name"),
            Some(_) => {}
        }
        match function.get("parameters") {
            None | Some(Value::Null | Value::Object(_)) => Ok(Self { json }),
            Some(_) => refuse("parameters is not a JSON schema object"),
        }
    }

    /// Checks a whole `tools` list.
    ///
    /// # Errors
    ///
    /// As [`ToolDefinition::parse`], for the first bad entry.
    pub fn parse_all(tools: Vec<Value>) -> Result<Vec<Self>, TextError> {
        tools
            .into_iter()
            .enumerate()
            .map(|(index, json)| Self::parse(index, json))
            .collect()
    }

    /// Name of the function.
    pub fn name(&self) -> &str {
        self.json["function"]["name"].as_str().unwrap_or_default()
    }

    /// JSON schema of the arguments, if there is one.
    pub fn parameters(&self) -> Option<&Value> {
        self.json["function"]
            .get("parameters")
            .filter(|p| p.is_object())
    }

    /// The definition as the client sent it.
    pub fn json(&self) -> &Value {
        &self.json
    }
}

impl<'de> Deserialize<'de> for ContentPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Bare(String),
            Part {
                #[serde(rename = "type", default)]
                part_type: Option<String>,
                #[serde(default)]
                text: Option<String>,
                #[serde(default)]
                refusal: Option<String>,
            },
        }
        Ok(match Wire::deserialize(deserializer)? {
            Wire::Bare(text) => Self::text(text),
            Wire::Part {
                part_type,
                text,
                refusal,
            } => Self {
                part_type: part_type.unwrap_or_else(|| "text".into()),
                text: text.or(refusal),
            },
        })
    }
}

fn function_type() -> String {
    "function".into()
}

fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn arguments_as_text<S: Serializer>(arguments: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    match arguments {
        Value::String(text) => serializer.serialize_str(text),
        Value::Null => serializer.serialize_str("{}"),
        other => serializer.collect_str(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str) -> ChatMessage {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn absent_and_null_content_and_calls_are_the_same() {
        let absent = message(r#"{"role": "assistant"}"#);
        assert_eq!(
            absent,
            message(r#"{"role": "assistant", "content": null, "tool_calls": null, "extra": 1}"#)
        );
        assert_eq!(absent.content, None);
    }

    #[test]
    fn arguments_come_as_text_or_object_and_go_out_as_text() {
        for json in [
            r#"{"function": {"name": "f", "arguments": {"a": 1}}}"#,
            r#"{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}"#,
        ] {
            let call: ToolCall = serde_json::from_str(json).unwrap();
            assert_eq!(call.function.arguments_object().unwrap()["a"], 1);
            assert_eq!(
                serde_json::to_value(&call).unwrap()["function"]["arguments"],
                r#"{"a":1}"#
            );
        }
        let empty: ToolCall = serde_json::from_str(r#"{"function": {"name": "f"}}"#).unwrap();
        assert!(empty.function.arguments_object().unwrap().is_empty());
        let list: ToolCall =
            serde_json::from_str(r#"{"function": {"name": "f", "arguments": "[1]"}}"#).unwrap();
        assert!(list.function.arguments_object().is_none());
    }

    #[test]
    fn a_tool_without_a_name_or_with_a_bad_schema_is_refused_by_position() {
        for json in [
            r#"{"type": "web_search"}"#,
            r#"{"type": "function"}"#,
            r#"{"type": "function", "function": {"name": ""}}"#,
            r#"{"type": "function", "function": {"name": "f", "parameters": []}}"#,
        ] {
            let json = serde_json::from_str(json).unwrap();
            assert!(matches!(
                ToolDefinition::parse(3, json),
                Err(TextError::ToolDefinition { index: 3, .. })
            ));
        }
    }
}
