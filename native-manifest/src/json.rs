//! Manifests from bytes and back: bounded, versioned, and the same bytes for the same value.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ManifestError;
use crate::schema::FORMAT;

/// A larger file is no manifest. The manifest of 10,000 tensors has about 5 MB.
pub(crate) const MAX_JSON_BYTES: u64 = 64 << 20;

/// JSON as files have it: fields in the order of the type, two spaces of indent, a newline at the end.
///
/// # Errors
/// [`ManifestError::Json`] for a value that JSON cannot hold, such as a map with keys that are no text.
pub fn to_json<T: Serialize>(value: &T) -> Result<Vec<u8>, ManifestError> {
    let mut json = serde_json::to_vec_pretty(value).map_err(|error| ManifestError::Json {
        path: "json to write".to_owned(),
        field: ".".to_owned(),
        reason: error.to_string(),
    })?;
    json.push(b'\n');
    Ok(json)
}

/// Reads JSON of [`FORMAT`]. The format is looked at first, so that a newer file is named as newer, not as malformed.
pub(crate) fn parse<T: DeserializeOwned>(file: &str, json: &[u8]) -> Result<T, ManifestError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        format: String,
    }
    let bytes = json.len() as u64;
    if bytes > MAX_JSON_BYTES {
        return Err(ManifestError::TooLarge {
            path: file.to_owned(),
            bytes,
            limit: MAX_JSON_BYTES,
        });
    }
    let Versioned { format } = typed(file, json)?;
    if format != FORMAT {
        return Err(ManifestError::Version {
            path: file.to_owned(),
            found: format,
            supported: FORMAT,
        });
    }
    typed(file, json)
}

fn typed<T: DeserializeOwned>(file: &str, json: &[u8]) -> Result<T, ManifestError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let failed = |field: String, reason: String| ManifestError::Json {
        path: file.to_owned(),
        field,
        reason,
    };
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let field = error.path().to_string();
        failed(field, error.into_inner().to_string())
    })?;
    reader
        .end()
        .map_err(|error| failed(".".to_owned(), error.to_string()))?;
    Ok(value)
}
