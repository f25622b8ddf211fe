//! The list of files that an image must have.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use native_manifest::Sha256Digest;
use serde::Deserialize;

use crate::image::ImageError;

/// A listing of a million files has about 150 MB.
const MAX_BYTES: u64 = 256 << 20;

/// The files, in the order of the list.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) files: Vec<Listed>,
}

/// One file of a listing.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) path: ImagePath,
    #[serde(alias = "size")]
    pub(crate) bytes: u64,
    pub(crate) sha256: Sha256Digest,
}

/// A path from the root of an image, without the leading slash. Images are POSIX: only `.`, `..`, empty parts and NUL are
/// refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ImagePath(String);

impl ImagePath {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ImagePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let rest = text
            .strip_prefix('/')
            .or_else(|| text.strip_prefix("./"))
            .unwrap_or(&text);
        let is_bad =
            |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
        if rest.split('/').any(is_bad) {
            return Err(format!(
                "path {text:?} must name a file below the root, without empty, \".\" or \"..\" parts"
            ));
        }
        Ok(Self(rest.to_owned()))
    }
}

impl fmt::Display for ImagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Document {
    List(Vec<Listed>),
    Object {
        #[serde(alias = "inventory")]
        payload: Vec<Listed>,
    },
}

impl Listing {
    pub(crate) fn read(path: &Path) -> Result<Self, ImageError> {
        let failed = |source| ImageError::Read {
            path: path.to_owned(),
            source,
        };
        let form = |reason: String| ImageError::Form {
            path: path.to_owned(),
            reason,
        };
        let mut text = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text))
            .map_err(failed)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(form(format!("over the limit of {MAX_BYTES} bytes")));
        }
        let files = Self::parse(&text).map_err(form)?;
        let mut seen = HashSet::new();
        if let Some(twice) = files.iter().find(|listed| !seen.insert(&listed.path)) {
            return Err(form(format!("{} is listed twice", twice.path)));
        }
        if files.is_empty() {
            return Err(form("lists no file".to_owned()));
        }
        Ok(Self { files })
    }

    fn parse(text: &[u8]) -> Result<Vec<Listed>, String> {
        // What an untagged type says of a bad entry is of no use: the form is looked at first.
        let value: serde_json::Value =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let list = match value {
            serde_json::Value::Object(_) => serde_json::from_value::<Document>(value.clone())
                .map_err(|_| {
                    let field = ["payload", "inventory"]
                        .into_iter()
                        .find(|field| value.get(field).is_some());
                    match field
                        .map(|field| serde_json::from_value::<Vec<Listed>>(value[field].clone()))
                    {
                        Some(Err(error)) => error.to_string(),
                        _ => "has neither \"payload\" nor \"inventory\"".to_owned(),
                    }
                })?,
            other => {
                Document::List(serde_json::from_value(other).map_err(|error| error.to_string())?)
            }
        };
        Ok(match list {
            Document::List(files) | Document::Object { payload: files } => files,
        })
    }
}

/// The place of the image on this machine, for messages.
pub(crate) fn below(root: &Path, relative: &str) -> PathBuf {
    let mut path = root.to_path_buf();
    path.extend(relative.split('/'));
    path
}
