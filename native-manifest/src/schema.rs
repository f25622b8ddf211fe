//! What the files of a package say, as they are on disk. An adapter for another publisher's schema belongs here.
//!
//! Every type keeps the fields it does not know in `other`, so that a file read and written again loses nothing. Each
//! `parse` refuses another major format before it looks at anything else.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Sha256Digest;
use crate::error::ManifestError;
use crate::identity::{RepoId, Revision};
use crate::inventory::{Inventory, Totals};
use crate::json;
use crate::path::PackagePath;
use crate::stored::{ImageRef, StoredLayout, StoredType};

/// The format that this crate reads and writes. Another number after the slash is another format.
pub const FORMAT: &str = "tt-native/1";
/// Release identity and the inventory of what runs.
pub const RELEASE_FILE: &str = "runtime-release.json";
/// The inventory of the whole publication.
pub const PUBLICATION_FILE: &str = "release-manifest.json";
/// The publication for `sha256sum -c`.
pub const SUMS_FILE: &str = "SHA256SUMS";
/// The folder of what a runtime loads.
pub const CHECKPOINT: &str = "checkpoint";
/// Names of the tensors and how they are stored.
pub const MANIFEST_FILE: &str = "checkpoint/native-manifest.json";
/// Bytes by element type.
pub const PRECISION_SUMMARY_FILE: &str = "checkpoint/precision-summary.json";
/// The rules that chose the element types.
pub const PRECISION_OVERRIDES_FILE: &str = "checkpoint/precision-overrides.json";
/// The folder of proof records, which name the manifest's digest and so come after it.
pub const PROOFS: &str = "checkpoint/proofs";

/// `runtime-release.json`: what is released, and every file that a runtime needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuntimeRelease {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the release.
    pub release: String,
    /// The repository it is published in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RepoId>,
    /// Its branch, tag or commit there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The container image that runs it on a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageRef>,
    /// Every file below `checkpoint/`, relative to the package.
    pub inventory: Inventory,
    /// Their number and bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// `release-manifest.json`: all files of the publication but itself and `SHA256SUMS`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Publication {
    /// [`FORMAT`].
    pub format: String,
    /// Name of the release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// The files, relative to the package.
    pub inventory: Inventory,
    /// Their number and bytes.
    pub totals: Totals,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// `checkpoint/native-manifest.json`: the tensors, how they are stored, and what they were made from.
///
/// Paths in it are relative to `checkpoint/`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NativeManifest {
    /// [`FORMAT`].
    pub format: String,
    /// What model this is and where its weights are from.
    pub model: ModelIdentity,
    /// The rule that rounded to block formats, by its name in [`bfp_format::Rounding`].
    pub rounding: String,
    /// What a runtime adds to the weights of plain norms: 1 where they are stored zero-centred, 0 where they are
    /// stored as they multiply. The gated norm's weights always multiply as stored. Recorded, so that no loader guesses.
    pub norm_offset: f32,
    /// The program that made the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<Producer>,
    /// The other files that decide what the model computes: config, tokenizer, chat template.
    #[serde(default)]
    pub files: Inventory,
    /// The trunk's tensors, each in a file of its own.
    pub tensors: Vec<TensorRecord>,
    /// The MTP head's tensors, lossless in one safetensors file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtp: Option<MtpRecord>,
    /// Sums over `tensors` and `mtp`.
    pub totals: TensorTotals,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What a package's weights were made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// `model_type` of the config.
    pub architecture: String,
    /// A name for people.
    pub name: String,
    /// The source repository, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RepoId>,
    /// Its revision, a commit where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The source's files, relative to its folder.
    #[serde(default)]
    pub files: Inventory,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A program by name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producer {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// One tensor stored in a `.tensorbin` file of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// Canonical name.
    pub name: String,
    /// Logical shape as stored: `[inputs, outputs]` for a linear.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: StoredType,
    /// Order of the elements.
    pub layout: StoredLayout,
    /// Its file, relative to `checkpoint/`.
    pub file: PackagePath,
    /// Size of that file.
    pub bytes: u64,
    /// Digest of that file.
    pub sha256: Sha256Digest,
    /// What it was made from.
    pub source: TensorOrigin,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Where a stored tensor's elements come from: some rows of a tensor of the source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorOrigin {
    /// The source's tensor.
    pub name: String,
    /// Its shape there, `[outputs, inputs]` for a linear.
    pub shape: Vec<usize>,
    /// Its element type there, as safetensors names it: `BF16`.
    pub dtype: String,
    /// The first row taken, not 0 for a part of a fused tensor.
    pub first_row: usize,
    /// How many rows were taken.
    pub rows: usize,
    /// Digest of the bytes of those rows.
    pub sha256: Sha256Digest,
}

/// The MTP head's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MtpRecord {
    /// The file, relative to `checkpoint/`.
    pub file: PackagePath,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256Digest,
    /// The tensors in it, as they are in the source.
    pub tensors: Vec<LosslessTensor>,
}

/// A tensor kept at its original type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosslessTensor {
    /// Its name in the source and in the file.
    pub name: String,
    /// Its shape, `[outputs, inputs]` for a linear: not transposed.
    pub shape: Vec<usize>,
    /// Its element type as safetensors names it: `BF16`.
    pub dtype: String,
    /// Digest of its bytes.
    pub sha256: Sha256Digest,
}

/// Sums over the tensors of a [`NativeManifest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorTotals {
    /// Tensors in files of their own.
    pub target_tensors: u64,
    /// Bytes of those files.
    pub target_bytes: u64,
    /// Elements of those tensors, without padding.
    pub target_parameters: u64,
    /// Tensors of the MTP head.
    pub mtp_tensors: u64,
    /// Bytes of its file.
    pub mtp_bytes: u64,
    /// Elements of its tensors.
    pub mtp_parameters: u64,
}

/// `precision-summary.json`: what the package spends its bytes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrecisionSummary {
    /// [`FORMAT`].
    pub format: String,
    /// One line an element type, ordered by name.
    pub types: Vec<TypeTotals>,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The target tensors of one element type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeTotals {
    /// The element type.
    pub dtype: StoredType,
    /// Tensors of that type.
    pub tensors: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Their elements, without padding.
    pub parameters: u64,
}

/// `precision-overrides.json`: the rules that departed from the preset, the first that matches wins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrecisionOverrides {
    /// [`FORMAT`].
    pub format: String,
    /// The preset that the rules depart from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The rules in order.
    pub overrides: Vec<PrecisionOverride>,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One rule of [`PrecisionOverrides`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrecisionOverride {
    /// A regular expression over canonical tensor names.
    pub pattern: String,
    /// The type of the tensors that it matches.
    pub dtype: StoredType,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RuntimeRelease {
    /// Reads it, and refuses an inventory that lists itself or what is made after it.
    ///
    /// # Errors
    /// [`ManifestError::Json`], [`ManifestError::Version`], [`ManifestError::TooLarge`], [`ManifestError::Cycle`].
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let release: Self = json::parse(RELEASE_FILE, json)?;
        release
            .inventory
            .refuse_listing(RELEASE_FILE, &[PUBLICATION_FILE, SUMS_FILE])?;
        Ok(release)
    }
}

impl Publication {
    /// Reads it, and refuses an inventory that lists itself or `SHA256SUMS`.
    ///
    /// # Errors
    /// As [`RuntimeRelease::parse`].
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let publication: Self = json::parse(PUBLICATION_FILE, json)?;
        publication
            .inventory
            .refuse_listing(PUBLICATION_FILE, &[SUMS_FILE])?;
        Ok(publication)
    }

    /// The publication of these files.
    pub fn of(release: &str, inventory: Inventory) -> Self {
        let totals = inventory.totals();
        Self {
            format: FORMAT.to_owned(),
            release: release.to_owned(),
            inventory,
            totals,
            other: Map::new(),
        }
    }
}

impl NativeManifest {
    /// Reads it, and refuses a list of files with itself or a proof in it.
    ///
    /// # Errors
    /// As [`RuntimeRelease::parse`].
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self = json::parse(MANIFEST_FILE, json)?;
        manifest.files.refuse_listing("native-manifest.json", &[])?;
        match manifest
            .files
            .entries()
            .iter()
            .find(|entry| entry.path.fold().starts_with("proofs/"))
        {
            None => Ok(manifest),
            Some(proof) => Err(ManifestError::Cycle {
                inventory: MANIFEST_FILE.to_owned(),
                listed: proof.path.to_string(),
            }),
        }
    }

    /// The record of a target tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorRecord> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }
}

impl PrecisionSummary {
    /// Reads it.
    ///
    /// # Errors
    /// [`ManifestError::Json`], [`ManifestError::Version`], [`ManifestError::TooLarge`].
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        json::parse(PRECISION_SUMMARY_FILE, json)
    }
}

impl PrecisionOverrides {
    /// Reads it.
    ///
    /// # Errors
    /// As [`PrecisionSummary::parse`].
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        json::parse(PRECISION_OVERRIDES_FILE, json)
    }
}
