//! Request bodies: bytes to a JSON object, and its fields into types, with the path of whatever is wrong.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::ApiError;

/// A JSON object of which several types read their own fields.
///
/// Each type ignores what it does not know, so `null` and absent fields, and fields of other dialects, cost nothing.
/// What none of them reads is told by [`unread`](Self::unread).
#[derive(Clone, Debug, PartialEq)]
pub struct RequestBody {
    fields: Value,
}

/// The names of the fields that a type reads.
pub trait Fields: DeserializeOwned {
    /// The names.
    const NAMES: &'static [&'static str];
}

impl RequestBody {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// Anything that is not one JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| ApiError::BadJson {
            message: error.to_string(),
        })?;
        Self::from_value(value)
    }

    /// Takes a value that must be an object. Fields that are `null` are dropped: they mean the same as absent ones.
    ///
    /// # Errors
    /// Any other kind of value.
    pub fn from_value(mut value: Value) -> Result<Self, ApiError> {
        let Some(object) = value.as_object_mut() else {
            return Err(ApiError::BadJson {
                message: "expected an object".into(),
            });
        };
        object.retain(|_, field| !field.is_null());
        Ok(Self { fields: value })
    }

    /// Reads the fields that `T` knows.
    ///
    /// # Errors
    /// A field of another type than `T` wants, named by its path.
    pub fn read<T: Fields>(&self) -> Result<T, ApiError> {
        serde_path_to_error::deserialize(&self.fields).map_err(|error| {
            let path = error.path().to_string();
            let message = error.into_inner().to_string();
            match path.as_str() {
                // A missing field has no path; the parser names it in its message.
                "." => match missing_field(&message) {
                    Some(field) => ApiError::field(field, "this field is required"),
                    None => ApiError::BadJson { message },
                },
                _ => ApiError::field(path, message),
            }
        })
    }

    /// A field by its name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// The object itself.
    #[must_use]
    pub fn as_object(&self) -> &Map<String, Value> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.fields.as_object().unwrap_or(&EMPTY)
    }

    /// Names of the fields that stand in none of `known`.
    #[must_use]
    pub fn unread(&self, known: &[&[&str]]) -> BTreeSet<String> {
        let is_known = |name: &str| known.iter().any(|names| names.contains(&name));
        self.as_object()
            .keys()
            .filter(|name| !is_known(name))
            .cloned()
            .collect()
    }
}

fn missing_field(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.split('`').next()
}

/// Declares a type that reads request fields, with the list of their names: fields are optional, `null` is absent.
macro_rules! request_fields {
    (
        $(#[$type_attr:meta])*
        pub struct $name:ident {
            $( $(#[$attr:meta])* pub $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$type_attr])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[$attr])* #[serde(default)] pub $field: $type, )*
        }

        impl $crate::wire::body::Fields for $name {
            const NAMES: &'static [&'static str] = &[ $( stringify!($field), )* ];
        }
    };
}
pub(crate) use request_fields;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Sample {
        number: Option<u32>,
        #[expect(dead_code, reason = "only its type is of interest")]
        list: Option<Vec<String>>,
    }

    impl Fields for Sample {
        const NAMES: &'static [&'static str] = &["number", "list"];
    }

    fn body(json: &str) -> Result<RequestBody, ApiError> {
        RequestBody::parse(json.as_bytes())
    }

    #[test]
    fn a_wrong_type_is_named_by_its_path() {
        let error = body(r#"{"list": ["a", 1]}"#)
            .unwrap()
            .read::<Sample>()
            .unwrap_err();
        assert!(matches!(&error, ApiError::Field { param, .. } if param == "list[1]"));
    }

    #[test]
    fn null_and_absent_are_the_same_and_unknown_fields_are_told() {
        let body = body(r#"{"number": null, "other": 1, "nothing": null}"#).unwrap();
        assert_eq!(body.read::<Sample>().unwrap().number, None);
        let unread: Vec<String> = body.unread(&[Sample::NAMES]).into_iter().collect();
        assert_eq!(unread, ["other"]);
    }

    #[test]
    fn anything_but_an_object_is_bad_json() {
        for json in [
            "",
            "{",
            "[]",
            "1",
            "\"x\"",
            "{\"a\":1}{",
            "\u{0}",
            "{\"a\":1e999}",
        ] {
            assert!(
                matches!(body(json), Err(ApiError::BadJson { .. })),
                "{json}"
            );
        }
        assert!(matches!(
            RequestBody::parse(b"\xff\xfe"),
            Err(ApiError::BadJson { .. })
        ));
        let deep = "[".repeat(100_000);
        assert!(matches!(body(&deep), Err(ApiError::BadJson { .. })));
    }
}
