//! Messages, tools and options as values of a template, with everything that came from outside marked.

use minijinja::Value;
use serde_json::Value as Json;

use super::conversation::{Call, Turn};
use super::provenance::Marks;

/// How text from outside the template is handed to it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outside {
    /// As it is.
    Bare,
    /// Between marks.
    Marked(Marks),
}

impl Outside {
    /// A message.
    pub(super) fn turn(self, turn: &Turn) -> Value {
        // The role is one of four words of our own, and templates compare it.
        let mut fields = vec![
            ("role", Value::from(turn.role.name())),
            ("content", self.text(&turn.content)),
        ];
        fields.extend(
            turn.reasoning
                .as_deref()
                .map(|text| ("reasoning_content", self.text(text))),
        );
        if !turn.calls.is_empty() {
            fields.push((
                "tool_calls",
                turn.calls.iter().map(|call| self.call(call)).collect(),
            ));
        }
        fields.extend(
            turn.tool_call_id
                .as_deref()
                .map(|id| ("tool_call_id", self.text(id))),
        );
        fields.extend(turn.name.as_deref().map(|name| ("name", self.text(name))));
        Value::from_pairs(fields)
    }

    /// A JSON schema or a tool definition: property names are the client's, the keywords around them are not, so that
    /// a template can look things up in it.
    pub(super) fn schema(self, json: &Json) -> Value {
        self.json(json, Names::Keywords)
    }

    /// A variable from the request. Plain words are left alone, so that a template can compare them.
    pub(super) fn option(self, json: &Json) -> Value {
        match json {
            Json::String(text) if is_plain_word(text) => Value::from(text.as_str()),
            json => self.json(json, Names::Keywords),
        }
    }

    fn call(self, call: &Call) -> Value {
        let arguments = call
            .arguments
            .iter()
            .map(|(name, json)| (self.text(name), self.json(json, Names::Clients)));
        let function = Value::from_pairs([
            ("name", self.text(&call.name)),
            (
                "arguments",
                Value::from_pairs(arguments.collect::<Vec<_>>()),
            ),
        ]);
        let mut fields = vec![("type", Value::from("function")), ("function", function)];
        fields.extend(call.id.as_deref().map(|id| ("id", self.text(id))));
        Value::from_pairs(fields)
    }

    fn json(self, json: &Json, names: Names) -> Value {
        match json {
            Json::Null => Value::from(()),
            Json::Bool(flag) => Value::from(*flag),
            Json::Number(number) => number_value(number),
            Json::String(text) => self.text(text),
            Json::Array(items) => items
                .iter()
                .map(|item| self.json(item, names.of_item()))
                .collect(),
            Json::Object(entries) => {
                let pairs = entries.iter().map(|(name, item)| {
                    let keyword = names == Names::Keywords && is_plain_word(name);
                    let key = if keyword {
                        Value::from(name.as_str())
                    } else {
                        self.text(name)
                    };
                    let value = match item {
                        Json::String(text) if keyword && name == "type" && is_plain_word(text) => {
                            Value::from(text.as_str())
                        }
                        item => self.json(item, names.below(name)),
                    };
                    (key, value)
                });
                Value::from_pairs(pairs.collect::<Vec<_>>())
            }
        }
    }

    fn text(self, text: &str) -> Value {
        match self {
            Self::Bare => Value::from(text),
            Self::Marked(marks) => Value::from(marks.wrap(text)),
        }
    }
}

/// Whose words the keys of an object are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Words of JSON schema.
    Keywords,
    /// Names the client chose, over values that are schemas again.
    Properties,
    /// Names the client chose, all the way down.
    Clients,
}

impl Names {
    fn below(self, name: &str) -> Self {
        match (self, name) {
            (Self::Clients, _) => Self::Clients,
            (Self::Properties, _) => Self::Keywords,
            (
                Self::Keywords,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            ) => Self::Properties,
            (Self::Keywords, "default" | "const" | "enum" | "examples") => Self::Clients,
            (Self::Keywords, _) => Self::Keywords,
        }
    }

    fn of_item(self) -> Self {
        match self {
            Self::Properties => Self::Keywords,
            other => other,
        }
    }
}

/// A bare word: no control token is one, or begins or ends with one, because they all have brackets around them. (A
/// template that writes brackets of its own around a word of the request means what it then says.)
fn is_plain_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$'))
}

fn number_value(number: &serde_json::Number) -> Value {
    if let Some(integer) = number.as_i64() {
        Value::from(integer)
    } else if let Some(integer) = number.as_u64() {
        Value::from(integer)
    } else {
        Value::from(number.as_f64().unwrap_or(f64::NAN))
    }
}
