//! A package on disk or in a program: claimed until it is verified.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bfp_format::tensorbin::TensorFile;
use bytes::Bytes;

use crate::digest::Sha256Digest;
use crate::error::ManifestError;
use crate::files::{EmbeddedFile, Files};
use crate::json::MAX_JSON_BYTES;
use crate::path::PackagePath;
use crate::report::Report;
use crate::schema::{
    CHECKPOINT, MANIFEST_FILE, NativeManifest, Publication, RELEASE_FILE, RuntimeRelease,
};
use crate::stored::{StoredLayout, StoredType};

/// The state of a [`Snapshot`] whose manifests were read, and nothing else.
#[derive(Clone, Debug)]
pub struct Claimed(());

/// The state of a [`Snapshot`] of which every listed byte was checked.
#[derive(Clone)]
pub struct Verified {
    /// The very maps that were hashed: a file that is replaced later changes nothing here.
    files: Arc<HashMap<PackagePath, Bytes>>,
    publication: Option<Arc<Publication>>,
    report: Arc<Report>,
}

/// A native package. Only a `Snapshot<Verified>` gives tensors.
#[derive(Clone, Debug)]
pub struct Snapshot<State> {
    pub(crate) files: Files,
    pub(crate) release_digest: Sha256Digest,
    pub(crate) manifest_digest: Sha256Digest,
    claims: Arc<Claims>,
    state: State,
}

#[derive(Debug)]
struct Claims {
    release: RuntimeRelease,
    manifest: NativeManifest,
    tensors: HashMap<String, usize>,
}

/// A tensor of a verified package.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Canonical name.
    pub name: String,
    /// Logical shape: `[inputs, outputs]` for a linear.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: StoredType,
    /// Order of the elements.
    pub layout: StoredLayout,
    /// The elements as stored, padded tiles or rows; a slice of the mapped file.
    pub bytes: Bytes,
}

impl Snapshot<Claimed> {
    /// Reads the manifests of a package in a folder. Nothing is written there, ever.
    ///
    /// # Errors
    /// [`ManifestError::Absent`] or [`ManifestError::Io`] for manifests that cannot be read;
    /// [`ManifestError::Json`], [`ManifestError::Version`], [`ManifestError::Cycle`] and [`ManifestError::TooLarge`]
    /// for manifests that no reader should trust.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, ManifestError> {
        Self::read(Files::Folder(folder.as_ref().to_owned()))
    }

    /// Reads the manifests of a package compiled into this program.
    ///
    /// # Errors
    /// As [`Snapshot::open`].
    pub fn from_embedded(files: &[EmbeddedFile]) -> Result<Self, ManifestError> {
        Self::read(Files::Embedded(files.iter().copied().collect()))
    }

    fn read(files: Files) -> Result<Self, ManifestError> {
        let json = files.small(&RELEASE_FILE.parse()?, MAX_JSON_BYTES)?;
        let (release, release_digest) = (RuntimeRelease::parse(&json)?, Sha256Digest::of(&json));
        let json = files.small(&MANIFEST_FILE.parse()?, MAX_JSON_BYTES)?;
        let (manifest, manifest_digest) = (NativeManifest::parse(&json)?, Sha256Digest::of(&json));
        let names = manifest.tensors.iter().enumerate();
        let tensors = names
            .map(|(index, tensor)| (tensor.name.clone(), index))
            .collect();
        let claims = Arc::new(Claims {
            release,
            manifest,
            tensors,
        });
        Ok(Self {
            files,
            release_digest,
            manifest_digest,
            claims,
            state: Claimed(()),
        })
    }

    pub(crate) fn into_verified(
        self,
        files: HashMap<PackagePath, Bytes>,
        publication: Option<Publication>,
        report: Report,
    ) -> Snapshot<Verified> {
        let Self {
            files: place,
            release_digest,
            manifest_digest,
            claims,
            state: _,
        } = self;
        let publication = publication.map(Arc::new);
        let state = Verified {
            files: Arc::new(files),
            publication,
            report: Arc::new(report),
        };
        Snapshot {
            files: place,
            release_digest,
            manifest_digest,
            claims,
            state,
        }
    }
}

impl<State> Snapshot<State> {
    /// Release identity and inventory.
    pub fn release(&self) -> &RuntimeRelease {
        &self.claims.release
    }

    /// Tensors and model identity.
    pub fn manifest(&self) -> &NativeManifest {
        &self.claims.manifest
    }

    /// Digest of `native-manifest.json`, which names every tensor and every file that decides what the model computes
    /// by digest: the identity that proofs bind.
    pub fn manifest_digest(&self) -> Sha256Digest {
        self.manifest_digest
    }

    /// Where it is, for messages.
    pub fn origin(&self) -> String {
        self.files.origin()
    }
}

impl Snapshot<Verified> {
    /// What was checked. It has no findings.
    pub fn report(&self) -> &Report {
        &self.state.report
    }

    /// The inventory of the whole publication, where that was checked too.
    pub fn publication(&self) -> Option<&Publication> {
        self.state.publication.as_deref()
    }

    /// A target tensor by its canonical name.
    ///
    /// # Errors
    /// [`ManifestError::UnknownTensor`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, ManifestError> {
        let unknown = || ManifestError::UnknownTensor {
            name: name.to_owned(),
        };
        let record = self
            .claims
            .tensors
            .get(name)
            .and_then(|&index| self.claims.manifest.tensors.get(index));
        let record = record.ok_or_else(unknown)?;
        let file = self.checkpoint_file(&record.file)?;
        let malformed = |error: bfp_format::FormatError| ManifestError::Header {
            path: record.file.to_string(),
            tensor: name.to_owned(),
            source: error,
        };
        let bytes = TensorFile::parse(file)
            .map_err(malformed)?
            .shard_slice(0)
            .map_err(malformed)?;
        Ok(Tensor {
            name: record.name.clone(),
            shape: record.shape.clone(),
            dtype: record.dtype,
            layout: record.layout,
            bytes,
        })
    }

    /// A file of the checkpoint, such as `tokenizer.json`: the bytes that were verified.
    ///
    /// # Errors
    /// [`ManifestError::UnknownFile`] for a file that the inventory does not list.
    pub fn checkpoint_file(&self, file: &PackagePath) -> Result<Bytes, ManifestError> {
        let path = format!("{CHECKPOINT}/{file}");
        self.state
            .files
            .get(path.as_str())
            .cloned()
            .ok_or(ManifestError::UnknownFile { path })
    }

    /// As [`Snapshot::checkpoint_file`], by name; `None` where it is not listed.
    ///
    /// # Errors
    /// [`ManifestError::Path`].
    pub fn checkpoint_named(&self, file: &str) -> Result<Option<Bytes>, ManifestError> {
        let file = PackagePath::parse(file)?;
        Ok(self
            .state
            .files
            .get(format!("{CHECKPOINT}/{file}").as_str())
            .cloned())
    }
}

impl fmt::Debug for Verified {
    /// Without the bytes, which may be gigabytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}
