//! Types of tool arguments: the model writes bare text, the schema says what it means.

use std::collections::BTreeMap;

use serde_json::Value;

use super::message::ToolDefinition;

/// The argument types of the functions a request offers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArgumentSchemas {
    functions: BTreeMap<String, Function>,
}

/// The JSON types a value may have.
///
/// A type that the schema leaves open is text: what the model wrote is never typed by its looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ArgumentType {
    string: bool,
    integer: bool,
    number: bool,
    boolean: bool,
    null: bool,
    object: bool,
    array: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Function {
    parameters: BTreeMap<String, ArgumentType>,
    additional: Option<ArgumentType>,
}

impl ArgumentSchemas {
    /// Reads the schemas of these tools.
    pub fn from_tools(tools: &[ToolDefinition]) -> Self {
        let functions = tools.iter().map(|tool| {
            let function = tool
                .parameters()
                .map(Function::from_schema)
                .unwrap_or_default();
            (tool.name().to_owned(), function)
        });
        Self {
            functions: functions.collect(),
        }
    }

    /// The type of one argument; text for what no schema describes.
    pub(super) fn argument(&self, function: &str, parameter: &str) -> ArgumentType {
        let described = self.functions.get(function).and_then(|function| {
            function
                .parameters
                .get(parameter)
                .copied()
                .or(function.additional)
        });
        described.unwrap_or(ArgumentType::STRING)
    }
}

impl Function {
    fn from_schema(schema: &Value) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let parameters = properties.into_iter().flatten();
        Self {
            parameters: parameters
                .map(|(name, s)| (name.clone(), ArgumentType::from_schema(s, schema)))
                .collect(),
            additional: schema
                .get("additionalProperties")
                .filter(|additional| additional.is_object())
                .map(|additional| ArgumentType::from_schema(additional, schema)),
        }
    }
}

impl ArgumentType {
    pub(super) const STRING: Self = Self {
        string: true,
        integer: false,
        number: false,
        boolean: false,
        null: false,
        object: false,
        array: false,
    };

    const NONE: Self = Self {
        string: false,
        ..Self::STRING
    };

    /// The types a schema allows; `root` is where its `$ref`s point.
    fn from_schema(schema: &Value, root: &Value) -> Self {
        let allowed = types(schema, root, MAX_DEPTH);
        if allowed == Self::NONE {
            Self::STRING
        } else {
            allowed
        }
    }

    /// Whether a value is text whatever it looks like, so that it can be passed on as it comes.
    pub(super) fn is_text(self) -> bool {
        self == Self::STRING
    }

    /// Whether a value is text, or else null.
    pub(super) fn is_text_or_null(self) -> bool {
        self == Self {
            null: true,
            ..Self::STRING
        }
    }

    /// The JSON of a value the model wrote as `raw`; text that does not fit the type stays text.
    pub(super) fn to_json(self, raw: &str) -> String {
        self.typed(raw.trim())
            .unwrap_or_else(|| Value::from(raw).to_string())
    }

    fn typed(self, text: &str) -> Option<String> {
        if self.null && is_null(text) {
            return Some("null".into());
        }
        if self.boolean {
            if text.eq_ignore_ascii_case("true") {
                return Some("true".into());
            }
            if text.eq_ignore_ascii_case("false") {
                return Some("false".into());
            }
        }
        // Where text is allowed too, only what can hardly be meant as text is a number.
        if (self.integer || self.number)
            && is_json_number(text)
            && (self.number || is_json_integer(text))
        {
            return Some(text.to_owned());
        }
        if !self.string && self.number {
            if let Some(number) = lenient_number(text) {
                return Some(number.to_string());
            }
        } else if !self.string
            && self.integer
            && let Some(integer) = lenient_integer(text)
        {
            return Some(integer.to_string());
        }
        if self.object || self.array {
            let json: Value = serde_json::from_str(text).ok()?;
            if (self.object && json.is_object()) || (self.array && json.is_array()) {
                return Some(json.to_string());
            }
        }
        None
    }

    fn union(self, other: Self) -> Self {
        Self {
            string: self.string || other.string,
            integer: self.integer || other.integer,
            number: self.number || other.number,
            boolean: self.boolean || other.boolean,
            null: self.null || other.null,
            object: self.object || other.object,
            array: self.array || other.array,
        }
    }

    fn of_name(name: &str) -> Self {
        match name {
            "string" => Self::STRING,
            "integer" => Self {
                integer: true,
                ..Self::NONE
            },
            "number" => Self {
                number: true,
                ..Self::NONE
            },
            "boolean" => Self {
                boolean: true,
                ..Self::NONE
            },
            "null" => Self {
                null: true,
                ..Self::NONE
            },
            "object" => Self {
                object: true,
                ..Self::NONE
            },
            "array" => Self {
                array: true,
                ..Self::NONE
            },
            _ => Self::NONE,
        }
    }

    fn of_value(value: &Value) -> Self {
        Self::of_name(match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        })
    }
}

/// What stands for null: JSON's word, and Python's, which the template writes into the history.
pub(super) fn is_null(text: &str) -> bool {
    NULLS.contains(&text)
}

/// Whether more text could still make this a null.
pub(super) fn may_become_null(text: &str) -> bool {
    NULLS.iter().any(|null| null.starts_with(text))
}

const NULLS: [&str; 2] = ["null", "None"];

// Schemas may refer to themselves.
const MAX_DEPTH: usize = 16;

fn types(schema: &Value, root: &Value, depth: usize) -> ArgumentType {
    let Some(deeper) = depth.checked_sub(1) else {
        return ArgumentType::NONE;
    };
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer));
        return target.map_or(ArgumentType::NONE, |target| types(target, root, deeper));
    }
    match schema.get("type") {
        Some(Value::String(name)) => return ArgumentType::of_name(name),
        Some(Value::Array(names)) => {
            return join(
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .map(ArgumentType::of_name),
            );
        }
        _ => {}
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return join(values.iter().map(ArgumentType::of_value));
    }
    if let Some(value) = schema.get("const") {
        return ArgumentType::of_value(value);
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(keyword).and_then(Value::as_array) {
            return join(choices.iter().map(|choice| types(choice, root, deeper)));
        }
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        let mut stated = parts.iter().map(|part| types(part, root, deeper));
        return stated
            .find(|&part| part != ArgumentType::NONE)
            .unwrap_or(ArgumentType::NONE);
    }
    let implied = [
        ("properties", "object"),
        ("items", "array"),
        ("prefixItems", "array"),
    ];
    let implied = implied
        .into_iter()
        .find(|(keyword, _)| schema.get(keyword).is_some());
    implied.map_or(ArgumentType::NONE, |(_, name)| ArgumentType::of_name(name))
}

fn join(all: impl Iterator<Item = ArgumentType>) -> ArgumentType {
    all.fold(ArgumentType::NONE, ArgumentType::union)
}

// A number as JSON writes it. It is kept digit for digit, because it may be longer than any machine type.
fn is_json_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let whole_fits = are_digits(whole) && (whole == "0" || !whole.starts_with('0'));
    let exponent_fits =
        |exponent: &str| are_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
    whole_fits && fraction.is_none_or(are_digits) && exponent.is_none_or(exponent_fits)
}

fn is_json_integer(text: &str) -> bool {
    is_json_number(text) && !text.contains(['.', 'e', 'E'])
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn lenient_number(text: &str) -> Option<serde_json::Number> {
    text.parse().ok().and_then(serde_json::Number::from_f64)
}

fn lenient_integer(text: &str) -> Option<i128> {
    // Every integer up to here is a float of its own, so 5.0 can be told from 5.5.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    text.parse().ok().or_else(|| {
        let float: f64 = text.parse().ok()?;
        if float.abs() > EXACT || float.fract() != 0.0 {
            return None;
        }
        format!("{float:.0}").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(schema: &Value, raw: &str) -> String {
        ArgumentType::from_schema(schema, schema).to_json(raw)
    }

    #[test]
    fn text_stays_text_whatever_it_looks_like() {
        for raw in ["02134", "true", "null", "5", "[1]", "{\"a\": 1}", " x\n"] {
            assert_eq!(
                typed(&json!({"type": "string"}), raw),
                json!(raw).to_string()
            );
            assert_eq!(typed(&json!({}), raw), json!(raw).to_string());
            assert_eq!(
                typed(&json!({"enum": ["a", "5"]}), raw),
                json!(raw).to_string()
            );
        }
    }

    #[test]
    fn values_take_the_type_of_the_schema() {
        for (schema, raw, expected) in [
            (json!({"type": "integer"}), "5", "5"),
            (json!({"type": "integer"}), " 5.0 ", "5"),
            (json!({"type": "integer"}), "-007", "-7"),
            (json!({"type": "integer"}), "-0.0", "0"),
            (
                json!({"type": "integer"}),
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            (json!({"type": "number"}), "5", "5"),
            (json!({"type": "number"}), "1.50", "1.50"),
            (json!({"type": "number"}), ".5", "0.5"),
            (json!({"type": "boolean"}), "True", "true"),
            (json!({"type": "boolean"}), "false", "false"),
            (json!({"type": "null"}), "None", "null"),
            (
                json!({"type": "object"}),
                "{\"b\": 1, \"a\": [2]}",
                "{\"b\":1,\"a\":[2]}",
            ),
            (json!({"type": "array"}), "[1, 2]", "[1,2]"),
            (json!({"items": {}}), "[1, 2]", "[1,2]"),
            (json!({"const": 5}), "5", "5"),
            (
                json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
                "7",
                "7",
            ),
            (
                json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
                "null",
                "null",
            ),
            (json!({"type": ["string", "integer"]}), "7", "7"),
            (json!({"type": ["string", "integer"]}), "007", "\"007\""),
            (json!({"type": ["string", "null"]}), "None", "null"),
            (
                json!({"allOf": [{"title": "x"}, {"type": "integer"}]}),
                "7",
                "7",
            ),
        ] {
            assert_eq!(typed(&schema, raw), expected, "{schema} {raw}");
        }
    }

    #[test]
    fn what_does_not_fit_its_type_is_kept_as_text() {
        for (schema, raw) in [
            (json!({"type": "integer"}), "2026-01-15"),
            (json!({"type": "integer"}), "5.5"),
            (json!({"type": "integer"}), ""),
            (json!({"type": "number"}), "nan"),
            (json!({"type": "number"}), "inf"),
            (json!({"type": "boolean"}), "yes"),
            (json!({"type": "object"}), "[1]"),
            (json!({"type": "object"}), "{'a': 1}"),
            (json!({"type": "array"}), "1, 2"),
        ] {
            assert_eq!(typed(&schema, raw), json!(raw).to_string(), "{schema}");
        }
    }

    #[test]
    fn references_are_followed_and_circles_end() {
        let root = json!({
            "$defs": {"n": {"type": "integer"}, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}]}},
            "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/loop"}, "c": {"$ref": "#/nowhere"}},
            "additionalProperties": {"type": "boolean"},
        });
        let tool = json!({"function": {"name": "f", "parameters": root}});
        let schemas = ArgumentSchemas::from_tools(&[ToolDefinition::parse(0, tool).unwrap()]);
        assert_eq!(schemas.argument("f", "a").to_json("5"), "5");
        assert!(schemas.argument("f", "b").is_text());
        assert!(schemas.argument("f", "c").is_text());
        assert_eq!(schemas.argument("f", "other").to_json("True"), "true");
        assert!(schemas.argument("g", "a").is_text());
    }

    #[test]
    fn the_grammar_of_json_numbers() {
        for good in ["0", "-0", "10", "1.5", "1e5", "1E+5", "0.1e-2"] {
            assert!(is_json_number(good), "{good}");
        }
        for bad in [
            "", "-", "01", "1.", ".5", "+1", "1e", "1e+", "0x1", "1 ", "--1",
        ] {
            assert!(!is_json_number(bad), "{bad}");
        }
    }
}
