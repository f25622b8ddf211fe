//! String operations of templates that follow marks, with Python's meaning.

use std::ops::Range;

use minijinja::value::{Kwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::provenance::{Marks, Traced};
use super::python::{self, JsonStyle};

/// Gives `env` the filters, methods and functions of transformers' template environment. With marks, those that take
/// strings apart keep track of them.
pub(super) fn register(env: &mut Environment<'_>, marks: Option<Marks>) {
    let tracer = Tracer { marks };
    env.add_filter("trim", move |value: Value, chars: Option<String>| {
        let text = python::to_str(&value);
        tracer.strip(&text, Side::Both, chars.as_deref())
    });
    env.add_filter("length", move |value: Value| tracer.length(&value));
    env.add_filter("count", move |value: Value| tracer.length(&value));
    env.add_filter("string", |value: Value| python::to_str(&value));
    env.add_filter("tojson", tojson);
    env.add_function(
        "raise_exception",
        |message: Value| -> Result<Value, Error> {
            let raised = Raised(python::to_str(&message));
            Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
        },
    );
    env.set_unknown_method_callback(
        move |state: &mut State<'_, '_>, value: &Value, method: &str, args: &[Value]| match value
            .as_str()
            .and_then(|text| tracer.method(text, method, args))
        {
            Some(result) => result,
            None => pycompat::unknown_method_callback(state, value, method, args),
        },
    );
}

/// What a template said in `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

#[derive(Debug, Clone, Copy)]
struct Tracer {
    marks: Option<Marks>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
    Both,
}

impl Tracer {
    /// The string methods that look at or cut the ends or the middle of a string; `None` for other methods.
    fn method(self, text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
        match method {
            "strip" => Some(self.strip_method(text, Side::Both, args)),
            "lstrip" => Some(self.strip_method(text, Side::Start, args)),
            "rstrip" => Some(self.strip_method(text, Side::End, args)),
            "startswith" => Some(self.affix(text, args, |text, affix| text.starts_with(affix))),
            "endswith" => Some(self.affix(text, args, |text, affix| text.ends_with(affix))),
            "split" => Some(self.split(text, args)),
            "replace" => Some(self.replace(text, args)),
            _ => None,
        }
    }

    fn strip_method(self, text: &str, side: Side, args: &[Value]) -> Result<Value, Error> {
        let (chars,): (Option<&str>,) = from_args(args)?;
        self.strip(text, side, chars).map(Value::from)
    }

    fn strip(self, text: &str, side: Side, chars: Option<&str>) -> Result<String, Error> {
        let traced = self.trace(text)?;
        let removed =
            |c: char| chars.map_or_else(|| python::is_space(c), |chars| chars.contains(c));
        let mut kept = 0..traced.text.len();
        if side != Side::End {
            kept.start = traced.text.len() - traced.text.trim_start_matches(removed).len();
        }
        if side != Side::Start {
            kept.end = kept.start + traced.text[kept.start..].trim_end_matches(removed).len();
        }
        Ok(self.slice(&traced, kept))
    }

    fn affix(
        self,
        text: &str,
        args: &[Value],
        test: impl Fn(&str, &str) -> bool,
    ) -> Result<Value, Error> {
        let (affix,): (&Value,) = from_args(args)?;
        let text = self.trace(text)?.text;
        let holds = |affix: &Value| -> Result<bool, Error> {
            let affix = affix
                .as_str()
                .ok_or_else(|| Error::from(ErrorKind::InvalidOperation))?;
            Ok(test(&text, &self.trace(affix)?.text))
        };
        if affix.as_str().is_some() {
            return holds(affix).map(Value::from);
        }
        for one in affix.try_iter()? {
            if holds(&one)? {
                return Ok(Value::from(true));
            }
        }
        Ok(Value::from(false))
    }

    fn split(self, text: &str, args: &[Value]) -> Result<Value, Error> {
        let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
        let traced = self.trace(text)?;
        let most = most
            .and_then(|most| usize::try_from(most).ok())
            .unwrap_or(usize::MAX);
        let parts = match separator {
            Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
            Some(separator) => split_at(&traced.text, &self.trace(separator)?.text, most),
            None => split_at_space(&traced.text, most),
        };
        Ok(parts
            .into_iter()
            .map(|part| Value::from(self.slice(&traced, part)))
            .collect())
    }

    fn replace(self, text: &str, args: &[Value]) -> Result<Value, Error> {
        let (old, new, most): (&str, &str, Option<i64>) = from_args(args)?;
        let old = self.trace(old)?.text;
        if old.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "replacing the empty string is not supported",
            ));
        }
        let traced = self.trace(text)?;
        let most = most
            .and_then(|most| usize::try_from(most).ok())
            .unwrap_or(usize::MAX);
        let parts: Vec<String> = split_at(&traced.text, &old, most)
            .into_iter()
            .map(|part| self.slice(&traced, part))
            .collect();
        Ok(Value::from(parts.join(new)))
    }

    fn length(self, value: &Value) -> Result<usize, Error> {
        match value.as_str() {
            Some(text) => Ok(self.trace(text)?.text.chars().count()),
            None => {
                let detail = || Error::new(ErrorKind::InvalidOperation, "value has no length");
                value.len().ok_or_else(detail)
            }
        }
    }

    fn trace(self, text: &str) -> Result<Traced, Error> {
        let traced = match self.marks {
            Some(marks) => marks.trace(text),
            None => Some(Traced {
                text: text.to_owned(),
                outside: Vec::new(),
            }),
        };
        traced.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOperation,
                "text was cut in a way that loses its origin",
            )
        })
    }

    fn slice(self, traced: &Traced, range: Range<usize>) -> String {
        match self.marks {
            Some(marks) => traced.slice(range, marks),
            None => traced.text[range].to_owned(),
        }
    }
}

fn split_at(text: &str, separator: &str, most: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, found) in text.match_indices(separator).take(most) {
        parts.push(start..at);
        start = at + found.len();
    }
    parts.push(start..text.len());
    parts
}

fn split_at_space(text: &str, most: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(python::is_space);
    while !rest.is_empty() {
        let start = text.len() - rest.len();
        let word = if parts.len() < most {
            rest.find(python::is_space).unwrap_or(rest.len())
        } else {
            rest.len()
        };
        parts.push(start..start + word);
        rest = rest[word..].trim_start_matches(python::is_space);
    }
    parts
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "filters are handed their arguments by value"
)]
fn tojson(value: Value, options: Kwargs) -> Result<String, Error> {
    let style = JsonStyle {
        indent: options.get("indent")?,
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        ensure_ascii: options
            .get::<Option<bool>>("ensure_ascii")?
            .unwrap_or(false),
    };
    options.assert_all_used()?;
    python::to_json(&value, style)
}
