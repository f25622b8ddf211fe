//! A responses request as the chat request that it means.

use serde_json::{Map, Value, json};

use crate::wire::body::RequestBody;
use crate::wire::error::ApiError;
use crate::wire::responses::ResponseFields;

/// Most items of an input.
const MAX_ITEMS: usize = 4096;

/// Rewrites a request for the chat route.
///
/// # Errors
/// Fields that need a memory between requests; items and tools of kinds that this server does not have.
pub fn to_chat(body: &RequestBody, fields: &ResponseFields) -> Result<RequestBody, ApiError> {
    refuse_state(body, fields)?;
    let mut chat = Map::new();
    let mut messages = Vec::new();
    if let Some(instructions) = &fields.instructions {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    let input = fields
        .input
        .as_ref()
        .ok_or_else(|| ApiError::field("input", "this field is required"))?;
    add_input(input, &mut messages)?;
    chat.insert("messages".into(), Value::Array(messages));
    if let Some(tools) = &fields.tools {
        let tools: Result<Vec<Value>, ApiError> = tools.iter().enumerate().map(tool).collect();
        chat.insert("tools".into(), Value::Array(tools?));
    }
    if let Some(format) = fields.text.as_ref().and_then(|text| text.format.as_ref()) {
        chat.insert("response_format".into(), response_format(format));
    }
    if let Some(effort) = fields
        .reasoning
        .as_ref()
        .and_then(|reasoning| reasoning.effort.as_ref())
    {
        chat.insert("reasoning_effort".into(), json!(effort));
    }
    match fields.truncation.as_deref() {
        None | Some("disabled") => {}
        Some("auto") => {
            chat.insert("truncate_prompt_tokens".into(), json!(-1));
        }
        Some(other) => {
            return Err(ApiError::field(
                "truncation",
                format!("{other:?} is none of auto, disabled"),
            ));
        }
    }
    // These mean the same in both; those of our own that the chat route knows are taken too.
    let renamed = [("max_output_tokens", "max_tokens")];
    let read_above = [
        "input",
        "instructions",
        "tools",
        "text",
        "reasoning",
        "truncation",
        "store",
        "metadata",
        "include",
        "service_tier",
        "previous_response_id",
        "background",
        "prompt",
        "conversation",
        "messages",
        "stream_options",
    ];
    for (name, value) in body.as_object() {
        let new_name = renamed
            .iter()
            .find(|(old, _)| old == name)
            .map_or(name.as_str(), |(_, new)| new);
        if !read_above.contains(&name.as_str()) {
            chat.insert(new_name.to_owned(), value.clone());
        }
    }
    RequestBody::from_value(Value::Object(chat))
}

/// Nothing is kept between two requests, and a client that counts on it must be told.
fn refuse_state(body: &RequestBody, fields: &ResponseFields) -> Result<(), ApiError> {
    let unsupported = |param: &str, hint| {
        Err(ApiError::Unsupported {
            param: param.to_owned(),
            hint: Some(hint),
        })
    };
    if fields.store == Some(true) {
        return unsupported(
            "store",
            "nothing is kept: send store: false, and the whole conversation each time",
        );
    }
    if fields.previous_response_id.is_some() {
        return unsupported(
            "previous_response_id",
            "nothing is kept: send the whole conversation each time",
        );
    }
    if body.field("background") == Some(&Value::Bool(true)) {
        return unsupported(
            "background",
            "nothing is kept: wait for the answer or stream it",
        );
    }
    for name in ["conversation", "prompt"] {
        if body.field(name).is_some() {
            return unsupported(name, "nothing is kept: send the conversation as input");
        }
    }
    if body
        .field("top_logprobs")
        .and_then(Value::as_f64)
        .is_some_and(|top| top != 0.0)
    {
        return unsupported("top_logprobs", "ask for them at /v1/chat/completions");
    }
    match fields
        .include
        .iter()
        .flatten()
        .find(|asked| asked.ends_with("logprobs"))
    {
        Some(_) => unsupported(
            "include",
            "ask for log-probabilities at /v1/chat/completions",
        ),
        None => Ok(()),
    }
}

fn add_input(input: &Value, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    match input {
        Value::String(text) => messages.push(json!({"role": "user", "content": text})),
        Value::Array(items) if items.len() > MAX_ITEMS => {
            return Err(ApiError::field(
                "input",
                format!("more than {MAX_ITEMS} items"),
            ));
        }
        Value::Array(items) => {
            let mut thought: Option<String> = None;
            for (index, item) in items.iter().enumerate() {
                add_item(index, item, &mut thought, messages)?;
            }
        }
        _ => {
            return Err(ApiError::field(
                "input",
                "expected a text or a list of items",
            ));
        }
    }
    if messages.iter().all(|message| message["role"] == "system") {
        return Err(ApiError::field("input", "the conversation is empty"));
    }
    Ok(())
}

fn add_item(
    index: usize,
    item: &Value,
    thought: &mut Option<String>,
    messages: &mut Vec<Value>,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::field(format!("input[{index}]"), message));
    let Some(object) = item.as_object() else {
        return refuse("expected an object".into());
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    match text("type").unwrap_or("message") {
        "message" => {
            let Some(role) = text("role") else {
                return refuse("a message has no role".into());
            };
            let mut message = json!({"role": role, "content": object.get("content").cloned().unwrap_or(Value::Null)});
            if let (Some(thought), "assistant") = (thought.take(), role) {
                message["reasoning_content"] = json!(thought);
            }
            messages.push(message);
        }
        "reasoning" => {
            let texts = ["content", "summary"].iter().flat_map(|name| {
                object
                    .get(*name)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
            });
            let joined: Vec<&str> = texts
                .filter_map(|part| part.get("text").and_then(Value::as_str))
                .collect();
            *thought = Some(joined.join("\n"));
        }
        "function_call" => {
            let (Some(name), Some(arguments)) = (text("name"), text("arguments")) else {
                return refuse("a function call needs a name and arguments".into());
            };
            let call = json!({
                "id": text("call_id").or_else(|| text("id")),
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            });
            add_call(call, thought, messages);
        }
        "function_call_output" => {
            let Some(call_id) = text("call_id") else {
                return refuse("a function's output has no call_id".into());
            };
            let output = object.get("output").cloned().unwrap_or(Value::Null);
            messages.push(json!({"role": "tool", "tool_call_id": call_id, "content": output}));
        }
        other => return refuse(format!("items of type {other:?} are not supported")),
    }
    Ok(())
}

/// A call belongs to the assistant's turn before it, if that is the last.
fn add_call(call: Value, thought: &mut Option<String>, messages: &mut Vec<Value>) {
    if let Some(last) = messages.last_mut()
        && last["role"] == "assistant"
    {
        if let Some(calls) = last.get_mut("tool_calls").and_then(Value::as_array_mut) {
            calls.push(call);
        } else {
            last["tool_calls"] = json!([call]);
        }
        return;
    }
    let mut turn = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    if let Some(thought) = thought.take() {
        turn["reasoning_content"] = json!(thought);
    }
    messages.push(turn);
}

/// A tool in the flat form of this API as one in chat's form.
fn tool((index, tool): (usize, &Value)) -> Result<Value, ApiError> {
    let Some(object) = tool.as_object() else {
        return Err(ApiError::field(
            format!("tools[{index}]"),
            "expected an object",
        ));
    };
    match object.get("type").and_then(Value::as_str) {
        Some("function") if object.contains_key("function") => Ok(tool.clone()),
        Some("function") => {
            let mut function = object.clone();
            function.remove("type");
            Ok(json!({"type": "function", "function": function}))
        }
        other => Err(ApiError::Unsupported {
            param: format!("tools[{index}].type"),
            hint: Some(match other {
                Some(_) => "only functions can be called",
                None => "it must be \"function\"",
            }),
        }),
    }
}

/// A format in the flat form of this API as one in chat's form.
fn response_format(format: &Value) -> Value {
    if format.get("type").and_then(Value::as_str) == Some("json_schema")
        && format.get("schema").is_some()
    {
        return json!({"type": "json_schema", "json_schema": {
            "name": format.get("name"),
            "schema": format.get("schema"),
            "strict": format.get("strict"),
        }});
    }
    format.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(request: Value) -> Result<Value, ApiError> {
        let body = RequestBody::from_value(request)?;
        let chat = to_chat(&body, &body.read()?)?;
        Ok(Value::Object(chat.as_object().clone()))
    }

    #[test]
    fn a_text_is_one_message_and_instructions_come_first() {
        let chat = chat(json!({"input": "Hi", "instructions": "Be brief", "max_output_tokens": 5, "temperature": 0})).unwrap();
        assert_eq!(
            chat,
            json!({
                "messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}],
                "max_tokens": 5,
                "temperature": 0,
            })
        );
    }

    #[test]
    fn items_become_turns_with_their_thoughts_and_calls() {
        let chat = chat(json!({"input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "ask"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "sun"},
        ]}))
        .unwrap();
        assert_eq!(
            chat["messages"],
            json!([
                {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
                {"role": "assistant", "content": null, "reasoning_content": "ask", "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "sun"},
            ])
        );
    }

    #[test]
    fn what_needs_a_memory_is_refused_by_name() {
        for (field, value) in [
            ("store", json!(true)),
            ("previous_response_id", json!("resp_1")),
            ("background", json!(true)),
            ("conversation", json!("conv_1")),
            ("prompt", json!({"id": "p"})),
            ("top_logprobs", json!(2)),
            ("include", json!(["message.output_text.logprobs"])),
        ] {
            let mut request = json!({"input": "Hi"});
            request[field] = value;
            let refused = chat(request).unwrap_err();
            assert!(
                matches!(refused, ApiError::Unsupported { param, .. } if param == field),
                "{field}"
            );
        }
        assert!(
            chat(json!({"input": "Hi", "store": false, "include": [], "background": false}))
                .is_ok()
        );
    }

    #[test]
    fn tools_and_formats_are_unflattened() {
        let flat = chat(json!({
            "input": "Hi",
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true}],
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        }))
        .unwrap();
        assert_eq!(flat["tools"][0]["function"]["name"], "f");
        assert_eq!(
            flat["response_format"]["json_schema"]["schema"],
            json!({"type": "object"})
        );
        let refused = chat(json!({"input": "Hi", "tools": [{"type": "web_search"}]})).unwrap_err();
        assert!(matches!(refused, ApiError::Unsupported { param, .. } if param == "tools[0].type"));
    }
}
