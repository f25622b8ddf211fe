//! What Python would write: templates of Hugging Face models are tested with Python's `str()`, `json.dumps` and `str.strip`.

use minijinja::Value;
use minijinja::value::ValueKind;

/// Characters that `str.strip()` and Jinja's `trim` remove: `str.isspace()` of Python.
pub(super) fn is_space(c: char) -> bool {
    // Python also counts the separators U+001C to U+001F, which the White_Space property leaves out.
    c.is_whitespace() || matches!(c, '\u{1C}'..='\u{1F}')
}

/// Python's `str(value)`.
pub(super) fn to_str(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let mut out = String::new();
            write_repr(value, &mut out);
            out
        }
    }
}

/// How `json.dumps` is asked to write.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JsonStyle {
    /// Spaces per level; `None` keeps everything on one line.
    pub(super) indent: Option<usize>,
    pub(super) sort_keys: bool,
    pub(super) ensure_ascii: bool,
}

/// Python's `json.dumps(value, ensure_ascii=False)` with its separators `", "` and `": "`, as transformers defines `tojson`.
///
/// # Errors
///
/// A value that is not JSON, such as an undefined one.
pub(super) fn to_json(value: &Value, style: JsonStyle) -> Result<String, minijinja::Error> {
    let mut out = String::new();
    write_json(value, style, 0, &mut out)?;
    Ok(out)
}

fn write_repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => write_number(value, "nan", "inf", out),
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Map => {
            out.push('{');
            for (n, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                write_repr(&key, out);
                out.push_str(": ");
                write_repr(&value.get_item(&key).unwrap_or_default(), out);
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (n, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                write_repr(&item, out);
            }
            out.push(']');
        }
        _ => out.push_str(&value.to_string()),
    }
}

// Python prefers single quotes, and double quotes where only single ones occur inside.
fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
}

fn write_number(value: &Value, nan: &str, infinite: &str, out: &mut String) {
    if value.is_integer() {
        out.push_str(&value.to_string());
        return;
    }
    let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
    if number.is_nan() {
        out.push_str(nan);
    } else if number.is_infinite() {
        out.push_str(if number < 0.0 { "-" } else { "" });
        out.push_str(infinite);
    } else {
        // Rust's debug form switches to exponents where Python does, but writes 1e16 for 1e+16 and 1e-5 for 1e-05.
        let shortest = format!("{number:?}");
        match shortest.split_once('e') {
            None => out.push_str(&shortest),
            Some((mantissa, exponent)) => {
                let (sign, digits) = exponent
                    .strip_prefix('-')
                    .map_or(('+', exponent), |digits| ('-', digits));
                out.push_str(&format!("{mantissa}e{sign}{digits:0>2}"));
            }
        }
    }
}

fn write_json(
    value: &Value,
    style: JsonStyle,
    level: usize,
    out: &mut String,
) -> Result<(), minijinja::Error> {
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(value, "NaN", "Infinity", out),
        ValueKind::String => write_json_string(value.as_str().unwrap_or_default(), style, out),
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            let entries = keys.len();
            out.push('{');
            for (n, key) in keys.into_iter().enumerate() {
                write_separator(n, style, level + 1, out);
                match key.as_str() {
                    Some(text) => write_json_string(text, style, out),
                    None => write_json_string(&to_json(&key, style)?, style, out),
                }
                out.push_str(": ");
                write_json(&value.get_item(&key)?, style, level + 1, out)?;
            }
            write_end(entries, style, level, out);
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let entries = items.len();
            out.push('[');
            for (n, item) in items.into_iter().enumerate() {
                write_separator(n, style, level + 1, out);
                write_json(&item, style, level + 1, out)?;
            }
            write_end(entries, style, level, out);
            out.push(']');
        }
        kind => {
            let detail = format!("a value of kind {kind} is not JSON serializable");
            return Err(minijinja::Error::new(
                minijinja::ErrorKind::BadSerialization,
                detail,
            ));
        }
    }
    Ok(())
}

fn write_separator(n: usize, style: JsonStyle, level: usize, out: &mut String) {
    match (n, style.indent) {
        (0, None) => {}
        (_, None) => out.push_str(", "),
        (_, Some(indent)) => {
            out.push_str(if n == 0 { "\n" } else { ",\n" });
            out.extend(std::iter::repeat_n(' ', indent * level));
        }
    }
}

fn write_end(entries: usize, style: JsonStyle, level: usize, out: &mut String) {
    if let (Some(indent), 1..) = (style.indent, entries) {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * level));
    }
}

fn write_json_string(text: &str, style: JsonStyle, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{C}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if style.ensure_ascii && !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Value {
        Value::from(minijinja::value::Serde(
            serde_json::from_str::<serde_json::Value>(json).unwrap(),
        ))
    }

    #[test]
    fn scalars_are_spelled_as_python_spells_them() {
        for (json, python) in [
            ("true", "True"),
            ("false", "False"),
            ("null", "None"),
            ("5", "5"),
            ("-3", "-3"),
            ("18446744073709551615", "18446744073709551615"),
            ("1.0", "1.0"),
            ("0.1", "0.1"),
            ("1e16", "1e+16"),
            ("123456789012345.0", "123456789012345.0"),
            ("0.00001", "1e-05"),
            ("1.5e300", "1.5e+300"),
            ("-0.0", "-0.0"),
            ("\"a'b\"", "a'b"),
        ] {
            assert_eq!(to_str(&value(json)), python, "{json}");
        }
        assert_eq!(
            to_str(&value(r#"{"a": [1, "x'y", null, "q"]}"#)),
            r#"{'a': [1, "x'y", None, 'q']}"#
        );
    }

    #[test]
    fn json_has_python_separators_and_keeps_order_angle_brackets_and_non_ascii() {
        let json = r#"{"z": [1, 2.5, true, null], "a": "<é\n\u0001\"\\>", "e": {}, "l": []}"#;
        assert_eq!(to_json(&value(json), JsonStyle::default()).unwrap(), json);
    }

    #[test]
    fn indented_sorted_ascii_json_is_that_of_python() {
        let style = JsonStyle {
            indent: Some(2),
            sort_keys: true,
            ensure_ascii: true,
        };
        let json = to_json(&value(r#"{"z": [1], "a": "é🤖", "e": {}}"#), style).unwrap();
        assert_eq!(
            json,
            "{\n  \"a\": \"\\u00e9\\ud83e\\udd16\",\n  \"e\": {},\n  \"z\": [\n    1\n  ]\n}"
        );
    }

    #[test]
    fn an_undefined_value_is_not_json() {
        assert!(to_json(&Value::UNDEFINED, JsonStyle::default()).is_err());
    }
}
