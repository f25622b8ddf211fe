//! What can be wrong with a model, its files or a pass through it.

use std::path::PathBuf;

use tt_device::DeviceError;

/// An error of the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// `config.json` says something this model cannot be.
    #[error("config field {field:?}: expected {expected}, found {found}")]
    Config {
        /// The field, with its path.
        field: &'static str,
        /// What would do.
        expected: String,
        /// What is there.
        found: String,
    },
    /// `config.json` is not JSON of the expected form.
    #[error("config is not readable")]
    ConfigSyntax(#[source] serde_json::Error),
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A safetensors file is malformed.
    #[error("{} is not a well-formed safetensors file: {reason}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        reason: String,
    },
    /// A tensor that the model needs is not there.
    #[error("tensor {name:?} is missing from {origin}")]
    MissingTensor {
        /// Its name.
        name: String,
        /// Where it was looked for.
        origin: String,
    },
    /// A tensor has another shape than the config says.
    #[error("tensor {name:?}: expected shape {expected:?}, found {found:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// From the config.
        expected: Vec<usize>,
        /// From the file.
        found: Vec<usize>,
    },
    /// A tensor is stored in a type that cannot be used there.
    #[error("tensor {name:?}: expected {expected}, found {found}")]
    TensorType {
        /// Its name.
        name: String,
        /// What would do.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// Tokens beyond the context length.
    #[error("{tokens} tokens at position {position} do not fit a context of {context}")]
    ContextFull {
        /// Tokens already in the sequence.
        position: usize,
        /// Tokens to add.
        tokens: usize,
        /// The limit.
        context: usize,
    },
    /// More rows than a pass was opened for.
    #[error("a pass of {rows} rows was asked of a workspace of {capacity}")]
    PassRows {
        /// Rows asked for.
        rows: usize,
        /// Rows there is room for.
        capacity: usize,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} at index {index} is outside the vocabulary of {vocab}")]
    TokenRange {
        /// The id.
        id: u32,
        /// Its place in the input.
        index: usize,
        /// Ids the model has.
        vocab: usize,
    },
    /// A pass over no tokens.
    #[error("a prompt needs at least one token")]
    EmptyPrompt,
    /// The model gave a value that is no number: damaged weights, or a runaway state.
    #[error(
        "logits of position {position} are not finite: the weights or the recurrent state are damaged"
    )]
    NotFinite {
        /// Position of the row.
        position: usize,
    },
    /// The sequence was left half-way through a prompt by an earlier error and must be started anew.
    #[error("the sequence was interrupted inside a prompt and must be started anew")]
    Interrupted,
    /// Drafting was asked of a model without an MTP head.
    #[error("this model has no MTP head to draft with")]
    NoMtpHead,
    /// The package's files are not as they were when it was verified.
    #[error(transparent)]
    Package(Box<native_manifest::ManifestError>),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl From<native_manifest::ManifestError> for ModelError {
    fn from(error: native_manifest::ManifestError) -> Self {
        Self::Package(Box::new(error))
    }
}
