//! The form of the answer that a request asks for, in any of the ways in which clients ask.

use serde_json::Value;

use crate::structured::Form;
use crate::wire::control::{ControlFields, ResponseFormat};
use crate::wire::error::ApiError;

/// Largest schema or grammar, in bytes.
const MAX_GRAMMAR_BYTES: usize = 256 << 10;

/// The one form that the request asks for, with the name of the field that asks.
pub(crate) fn asked(fields: &ControlFields) -> Result<Option<(&'static str, Form)>, ApiError> {
    let mut forms: Vec<(&'static str, Form)> = Vec::new();
    if let Some(format) = &fields.response_format
        && let Some(form) = response_format(format)?
    {
        forms.push(("response_format", form));
    }
    if let Some(outputs) = &fields.structured_outputs {
        let name = "structured_outputs";
        if let Some(schema) = &outputs.json {
            forms.push((name, Form::JsonSchema(schema_value(name, schema)?)));
        }
        if outputs.json_object == Some(true) {
            forms.push((name, Form::JsonObject));
        }
        forms.extend(
            outputs
                .regex
                .clone()
                .map(|regex| (name, Form::Regex(regex))),
        );
        forms.extend(
            outputs
                .grammar
                .clone()
                .map(|grammar| (name, Form::Grammar(grammar))),
        );
        forms.extend(
            outputs
                .choice
                .clone()
                .map(|choice| (name, Form::Choice(choice))),
        );
    }
    for (name, schema) in [
        ("guided_json", &fields.guided_json),
        ("json_schema", &fields.json_schema),
    ] {
        if let Some(schema) = schema {
            forms.push((name, Form::JsonSchema(schema_value(name, schema)?)));
        }
    }
    let texts = [
        ("grammar", &fields.grammar),
        ("guided_grammar", &fields.guided_grammar),
    ];
    for (name, grammar) in texts {
        // llama.cpp's clients send an empty grammar for none.
        let grammar = grammar.clone().filter(|grammar| !grammar.is_empty());
        forms.extend(grammar.map(|grammar| (name, Form::Grammar(grammar))));
    }
    forms.extend(
        fields
            .guided_regex
            .clone()
            .map(|regex| ("guided_regex", Form::Regex(regex))),
    );
    forms.extend(
        fields
            .guided_choice
            .clone()
            .map(|choice| ("guided_choice", Form::Choice(choice))),
    );
    if let [(first, _), (second, _), ..] = &forms[..] {
        return Err(ApiError::field(
            *second,
            format!("cannot be combined with {first}"),
        ));
    }
    let form = forms.pop();
    if let Some((name, form)) = &form {
        check_form(name, form)?;
    }
    Ok(form)
}

fn response_format(format: &ResponseFormat) -> Result<Option<Form>, ApiError> {
    let name = "response_format";
    let missing =
        |field: &str| ApiError::field(format!("{name}.{field}"), "this field is required");
    match format.kind.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(match &format.schema {
            Some(schema) => Form::JsonSchema(schema_value("response_format.schema", schema)?),
            None => Form::JsonObject,
        })),
        "json_schema" => {
            let given = format
                .json_schema
                .as_ref()
                .and_then(|named| named.schema.as_ref());
            let schema = given
                .or(format.schema.as_ref())
                .ok_or_else(|| missing("json_schema.schema"))?;
            schema_value("response_format.json_schema.schema", schema)
                .map(|schema| Some(Form::JsonSchema(schema)))
        }
        "regex" => {
            let pattern = format.pattern.clone().ok_or_else(|| missing("pattern"))?;
            Ok(Some(Form::Regex(pattern)))
        }
        "grammar" => {
            let grammar = format.grammar.clone().ok_or_else(|| missing("grammar"))?;
            Ok(Some(Form::Grammar(grammar)))
        }
        other => Err(ApiError::field(
            "response_format.type",
            format!("{other:?} is none of text, json_object, json_schema, regex, grammar"),
        )),
    }
}

/// A schema as an object, a boolean, or the text of either.
fn schema_value(name: &str, schema: &Value) -> Result<Value, ApiError> {
    let parsed;
    let schema = match schema {
        Value::String(text) => {
            parsed = serde_json::from_str(text)
                .map_err(|error| ApiError::field(name, error.to_string()))?;
            &parsed
        }
        other => other,
    };
    match schema {
        Value::Object(_) | Value::Bool(true) => Ok(schema.clone()),
        _ => Err(ApiError::field(name, "not a JSON schema")),
    }
}

fn check_form(name: &str, form: &Form) -> Result<(), ApiError> {
    let bytes = match form {
        Form::JsonSchema(schema) => schema.to_string().len(),
        Form::Regex(text) | Form::Grammar(text) => text.len(),
        Form::Choice(choices) => {
            if choices.iter().all(String::is_empty) {
                return Err(ApiError::field(name, "no text to choose"));
            }
            choices.iter().map(String::len).sum()
        }
        _ => 0,
    };
    if bytes > MAX_GRAMMAR_BYTES {
        return Err(ApiError::field(
            name,
            format!("longer than {MAX_GRAMMAR_BYTES} bytes"),
        ));
    }
    Ok(())
}
