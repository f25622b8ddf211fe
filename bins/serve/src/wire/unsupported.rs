//! Request fields of other servers and of OpenAI that this server does not have.
//!
//! Those that would change the answer are refused, by name, when they ask for something. All others are ignored: a
//! client that sends its usual defaults must not fail.

use serde_json::Value;

use super::body::RequestBody;
use super::error::ApiError;

/// A field that cannot be honoured, and the values with which it asks for nothing.
struct Unsupported {
    name: &'static str,
    asks_nothing: fn(&Value) -> bool,
    hint: Option<&'static str>,
}

const fn field(name: &'static str, asks_nothing: fn(&Value) -> bool) -> Unsupported {
    Unsupported {
        name,
        asks_nothing,
        hint: None,
    }
}

const fn instead(
    name: &'static str,
    asks_nothing: fn(&Value) -> bool,
    hint: &'static str,
) -> Unsupported {
    Unsupported {
        name,
        asks_nothing,
        hint: Some(hint),
    }
}

/// Fields of chat and completions alike.
const SHARED: &[Unsupported] = &[
    // OpenAI.
    field("web_search_options", never),
    // vLLM.
    field("use_beam_search", is_off),
    field("length_penalty", is_one),
    field("bad_words", is_empty),
    field("allowed_token_ids", is_empty),
    field("logits_processors", is_empty),
    field("prompt_embeds", is_empty),
    field("min_new_tokens", is_zero),
    field("return_tokens_as_token_ids", is_off),
    // llama.cpp.
    field("typical_p", is_one),
    field("tfs_z", is_one),
    field("top_n_sigma", is_not_positive),
    field("mirostat", is_zero),
    field("dynatemp_range", is_zero),
    field("xtc_probability", is_zero),
    field("dry_multiplier", is_zero),
    field("lora", is_empty),
    field("id_slot", is_not_positive),
];

/// Fields of chat.
const CHAT: &[Unsupported] = &[
    field("audio", never),
    field("modalities", is_text_only),
    instead("functions", is_empty, "use tools"),
    instead("function_call", is_none, "use tool_choice"),
    instead(
        "chat_template",
        is_empty,
        "the package's own template is used",
    ),
    field("documents", is_empty),
    field("mm_processor_kwargs", is_empty),
    field("echo", is_off),
    field("prompt_logprobs", is_zero),
    field("add_special_tokens", is_off),
];

/// Fields of completions.
const COMPLETIONS: &[Unsupported] = &[
    instead("suffix", is_empty, "the model has no infilling"),
    field("input_prefix", is_empty),
    field("input_suffix", is_empty),
    field("images", is_empty),
];

/// Which route's fields to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// Refuses the first field that asks for something this server cannot do.
///
/// # Errors
/// [`ApiError::Unsupported`].
pub fn check(body: &RequestBody, route: Route) -> Result<(), ApiError> {
    let own = match route {
        Route::Chat => CHAT,
        Route::Completions => COMPLETIONS,
    };
    for refused in SHARED.iter().chain(own) {
        match body.field(refused.name) {
            Some(value) if !(refused.asks_nothing)(value) => {
                return Err(ApiError::Unsupported {
                    param: refused.name.to_owned(),
                    hint: refused.hint,
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn never(_: &Value) -> bool {
    false
}

fn is_off(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_not_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number <= 0.0)
}

fn is_none(value: &Value) -> bool {
    value == "none" || value == "auto"
}

fn is_text_only(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|kinds| kinds.iter().all(|kind| kind == "text"))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str, route: Route) -> Option<String> {
        match check(&RequestBody::parse(json.as_bytes()).unwrap(), route) {
            Err(ApiError::Unsupported { param, .. }) => Some(param),
            _ => None,
        }
    }

    #[test]
    fn a_field_is_refused_only_when_it_asks_for_something() {
        let idle = r#"{"use_beam_search": false, "length_penalty": 1.0, "suffix": null, "typical_p": 1, "mirostat": 0,
                       "modalities": ["text"], "functions": [], "unknown": 7, "store": true, "metadata": {}}"#;
        assert_eq!(refusal(idle, Route::Chat), None);
        assert_eq!(refusal(idle, Route::Completions), None);
        assert_eq!(
            refusal(r#"{"use_beam_search": true}"#, Route::Chat).as_deref(),
            Some("use_beam_search")
        );
        assert_eq!(
            refusal(r#"{"suffix": "x"}"#, Route::Completions).as_deref(),
            Some("suffix")
        );
        assert_eq!(refusal(r#"{"suffix": "x"}"#, Route::Chat), None);
        assert_eq!(
            refusal(r#"{"modalities": ["text", "audio"]}"#, Route::Chat).as_deref(),
            Some("modalities")
        );
    }
}
