//! The grammar of tool calls as the chat template shows them to the model.

use std::fmt::Write as _;

use qwen35_model::text::ToolDefinition;
use serde_json::{Value, json};

use super::literal;

/// One call (or, with `parallel`, one or more) of one of `tools`: the right side of a Lark rule and the rules it uses.
///
/// Required parameters come in the order of the schema; optional ones may be left out. A parameter of type string is any text up to its closing tag, any other
/// type is the JSON of its schema.
pub(super) fn calls(tools: &[ToolDefinition], parallel: bool) -> String {
    let mut rules = String::new();
    let mut functions = Vec::new();
    for (tool_index, tool) in tools.iter().enumerate() {
        let name = literal(&format!("<function={}>\n", tool.name()));
        let mut body = format!("{name} ");
        for (index, (key, schema, required)) in parameters(tool).into_iter().enumerate() {
            let rule = format!("call_{tool_index}_{index}");
            let open = literal(&format!("<parameter={key}>\n"));
            let value = if is_text(schema) {
                "call_text".to_owned()
            } else {
                format!(
                    "%json {} \"\\n</parameter>\\n\"",
                    self_contained(schema, tool)
                )
            };
            // Writing into a string cannot fail.
            let _ = writeln!(rules, "{rule}: {open} {value}");
            body.push_str(&rule);
            body.push_str(if required { " " } else { "? " });
        }
        body.push_str("\"</function>\\n\"");
        let rule = format!("call_{tool_index}");
        let _ = writeln!(rules, "{rule}: {body}");
        functions.push(rule);
    }
    let more = if parallel { "(\"\\n\" call_one)*" } else { "" };
    let functions = functions.join(" | ");
    format!(
        "call_one {more}\n\
         call_one: <tool_call> \"\\n\" call_function </tool_call>\n\
         call_function: {functions}\n\
         call_text[suffix=\"\\n</parameter>\\n\"]: /(?s:.*)/\n\
         {rules}"
    )
}

fn parameters(tool: &ToolDefinition) -> Vec<(&str, &Value, bool)> {
    let Some(schema) = tool.parameters() else {
        return Vec::new();
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(key, schema)| (key.as_str(), schema, required.contains(&key.as_str())))
        .collect()
}

/// Whether a parameter is written as bare text: its type is string, or the schema leaves it open.
fn is_text(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string" && schema.get("enum").is_none(),
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => schema.get("enum").is_none() && schema.get("$ref").is_none(),
    }
}

/// A parameter's schema with the definitions that its references point to.
fn self_contained(schema: &Value, tool: &ToolDefinition) -> Value {
    let mut schema = schema.clone();
    if let (Some(object), Some(parameters)) = (schema.as_object_mut(), tool.parameters()) {
        for definitions in ["$defs", "definitions"] {
            if let Some(found) = parameters.get(definitions) {
                object.entry(definitions).or_insert_with(|| found.clone());
            }
        }
        object.insert(
            "x-guidance".into(),
            json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}),
        );
    }
    schema
}
