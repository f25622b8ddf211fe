//! Tool calls written as JSON objects.

use serde_json::{Map, Value};

/// A search for the end of a JSON object in text that is still growing.
#[derive(Debug, Clone, Default)]
pub(super) struct JsonScan {
    scanned: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonScan {
    /// Where the object that starts the text ends, once it does.
    pub(super) fn end_of_object(&mut self, text: &str) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate().skip(self.scanned) {
            self.scanned = at + 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' if !self.in_string => self.depth += 1,
                b'}' if !self.in_string => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Name and arguments (a JSON object, as text) of a call, if the object is one.
pub(super) fn json_call(text: &str) -> Option<(String, String)> {
    let json: Value = serde_json::from_str(text).ok()?;
    let call = json
        .get("function")
        .filter(|function| function.is_object())
        .unwrap_or(&json);
    let name = call.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let arguments = match call.get("arguments").or_else(|| call.get("parameters")) {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::Object(object)) => Value::from(object.clone()).to_string(),
        Some(Value::String(text)) => serde_json::from_str::<Map<String, Value>>(text)
            .ok()
            .map(|object| Value::from(object).to_string())?,
        Some(_) => return None,
    };
    Some((name.to_owned(), arguments))
}
