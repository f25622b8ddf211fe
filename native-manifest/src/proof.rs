//! Proofs: records of logits that anyone can recompute.
//!
//! A proof says: from the package with this manifest, under this numerics contract, with MTP on or off, these input
//! tokens gave exactly these full-vocabulary logits, and the original weights, quantised in memory by the same plan, gave
//! the same bits. Whoever has the package computes the logits again and [compares](Evidence::compare). It claims no
//! more: not equality with the unquantised model, and not quality.
//!
//! No model is in here. The caller hands over rows of logits:
//!
//! ```
//! use native_manifest::Sha256Digest;
//! use native_manifest::proof::{Comparison, Evidence, MtpMode, RecordDigester, RuntimeIdentity};
//!
//! let compute = |last: f32| {
//!     let mut record = RecordDigester::new("first", &[11, 12], 3);
//!     record.row(&[0.5, -1.0, 2.0])?;
//!     record.row(&[0.5, -1.0, last])?;
//!     Ok::<_, native_manifest::ManifestError>(Evidence {
//!         manifest_sha256: Sha256Digest::of(b"native-manifest.json"),
//!         mode: MtpMode::Off,
//!         contract: "host/1".to_owned(),
//!         runtime: RuntimeIdentity { version: "0.1.0".to_owned(), commit: None, isa: "avx2".to_owned(), threads: 2 },
//!         vocabulary: 3,
//!         records: vec![record.finish()],
//!     })
//! };
//! let proved = compute(1.0)?;
//! assert_eq!(proved.compare(&compute(1.0)?), Comparison::Reproduced { positions: 2 });
//! let found = proved.compare(&compute(1.5)?);
//! assert_eq!(found, Comparison::DiffersAt { record: "first".to_owned(), position: Some(1) });
//! # Ok::<(), native_manifest::ManifestError>(())
//! ```

mod compare;
mod digester;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use compare::{Comparison, Incomparable};
pub use digester::RecordDigester;

use crate::digest::{Sha256Digest, parse_hex, write_hex};
use crate::error::ManifestError;
use crate::identity::CommitId;
use crate::json;
use crate::schema::{FORMAT, ModelIdentity};

/// The record of runs without drafting.
pub const PROOF_OFF_FILE: &str = "checkpoint/proofs/native-reload.mtp-off.json";
/// The record of runs that draft with the MTP head.
pub const PROOF_ON_FILE: &str = "checkpoint/proofs/native-reload.mtp-on.json";

/// A proof file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// [`FORMAT`].
    pub format: String,
    /// The original weights that were compared with.
    pub source: ModelIdentity,
    /// What the package gave.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Whether the original weights gave the same.
    pub verdict: Verdict,
    /// What this build does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What one run over all records gave, and everything that decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Digest of the package's `native-manifest.json`, which names all weights and the tokenizer by digest.
    pub manifest_sha256: Sha256Digest,
    /// Whether the run drafted.
    pub mode: MtpMode,
    /// The numerics contract, `host/1` for example. The same contract gives the same bits on every machine.
    pub contract: String,
    /// What computed. It is told, and never compared: that it does not matter is the claim.
    pub runtime: RuntimeIdentity,
    /// Elements of a row of logits.
    pub vocabulary: usize,
    /// The runs.
    pub records: Vec<ProofRecord>,
}

/// Whether a run drafted with the MTP head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtpMode {
    /// Every token by the target alone.
    Off,
    /// Tokens were drafted, verified and accepted or rejected.
    On,
}

/// The program and machine that computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeIdentity {
    /// Version of the crate.
    pub version: String,
    /// Commit of the source, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// The kernels' instruction set, `avx512` for example.
    pub isa: String,
    /// Compute threads.
    pub threads: usize,
}

/// One run: its tokens and the logits of every position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofRecord {
    /// The record's name.
    pub name: String,
    /// SHA-256 of the input token ids, each as 4 bytes, little endian.
    pub tokens_sha256: Sha256Digest,
    /// Positions whose logits were taken.
    pub positions: usize,
    /// SHA-256 of all rows of logits one after the other, each element as 4 bytes (binary32, little endian).
    pub logits_sha256: Sha256Digest,
    /// A short digest of each row, so that a difference has a place.
    pub rows: Vec<RowDigest>,
    /// What drafting did; none where there was no drafting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafting: Option<Drafting>,
}

/// What drafting did in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drafting {
    /// Tokens that the MTP head proposed.
    pub proposed: u64,
    /// How many of them the target accepted.
    pub accepted: u64,
}

/// The first 8 bytes of the SHA-256 of one row of logits, as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RowDigest([u8; 8]);

/// How the original weights compared with the package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every logit had the same bits.
    Identical,
    /// Some had not.
    Differs {
        /// The record.
        record: String,
        /// The first position, where it is known.
        position: Option<usize>,
    },
}

impl Proof {
    /// The proof that `restored` (the package) and `original` (the source's weights, quantised in memory by the same
    /// plan) give.
    ///
    /// # Errors
    /// [`ManifestError::Proof`] when the two runs are not of the same thing, or contradict themselves.
    pub fn new(
        source: ModelIdentity,
        original: &Evidence,
        restored: Evidence,
    ) -> Result<Self, ManifestError> {
        restored.check()?;
        original.check()?;
        let verdict = match restored.compare(original) {
            Comparison::Reproduced { .. } => Verdict::Identical,
            Comparison::DiffersAt { record, position } => Verdict::Differs { record, position },
            Comparison::NotComparable { reason } => {
                let expected = "two runs of the same thing".to_owned();
                return Err(ManifestError::Proof {
                    field: "records".to_owned(),
                    expected,
                    found: reason.to_string(),
                });
            }
        };
        Ok(Self {
            format: FORMAT.to_owned(),
            source,
            evidence: restored,
            verdict,
            other: Map::new(),
        })
    }

    /// Reads a proof file; `file` names it in errors.
    ///
    /// # Errors
    /// [`ManifestError::Json`], [`ManifestError::Version`], [`ManifestError::TooLarge`], and
    /// [`ManifestError::Proof`] for a record that contradicts itself.
    pub fn parse(file: &str, json: &[u8]) -> Result<Self, ManifestError> {
        let proof: Self = json::parse(file, json)?;
        proof.evidence.check()?;
        Ok(proof)
    }
}

impl Evidence {
    /// Positions of all records together.
    pub fn positions(&self) -> usize {
        self.records.iter().map(|record| record.positions).sum()
    }

    /// A run that says it drafted has drafted, and each position has its row.
    fn check(&self) -> Result<(), ManifestError> {
        let wrong = |field: String, expected: &str, found: String| {
            Err(ManifestError::Proof {
                field,
                expected: expected.to_owned(),
                found,
            })
        };
        if self.records.is_empty() {
            return wrong("records".to_owned(), "at least one", "none".to_owned());
        }
        for (index, record) in self.records.iter().enumerate() {
            let field = |name: &str| format!("records[{index}].{name}");
            if record.positions == 0 {
                return wrong(field("positions"), "at least one", "0".to_owned());
            }
            if record.rows.len() != record.positions {
                return wrong(
                    field("rows"),
                    &record.positions.to_string(),
                    record.rows.len().to_string(),
                );
            }
            if self.records[..index]
                .iter()
                .any(|earlier| earlier.name == record.name)
            {
                return wrong(
                    field("name"),
                    "a name of its own",
                    format!("{:?} again", record.name),
                );
            }
            match (self.mode, record.drafting) {
                (MtpMode::Off, None) => {}
                (MtpMode::Off, Some(_)) => {
                    return wrong(field("drafting"), "none with mode off", "some".to_owned());
                }
                (MtpMode::On, Some(drafting))
                    if drafting.proposed > 0 && drafting.accepted <= drafting.proposed => {}
                (MtpMode::On, found) => {
                    return wrong(
                        field("drafting"),
                        "proposed tokens with mode on",
                        format!("{found:?}"),
                    );
                }
            }
        }
        Ok(())
    }
}

impl RowDigest {
    /// The digest of a row's bytes.
    pub(crate) fn of(row: &[u8]) -> Self {
        let mut short = [0; 8];
        short.copy_from_slice(&Sha256Digest::of(row).as_bytes()[..8]);
        Self(short)
    }
}

impl fmt::Display for RowDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for RowDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowDigest({self})")
    }
}

impl FromStr for RowDigest {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ManifestError::Invalid {
                what: "row digest",
                text: text.to_owned(),
                rule: "must be 16 lower-case hexadecimal digits",
            })
    }
}

impl TryFrom<String> for RowDigest {
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Self, ManifestError> {
        text.parse()
    }
}

impl From<RowDigest> for String {
    fn from(digest: RowDigest) -> Self {
        digest.to_string()
    }
}
