//! One run against another.

use std::fmt;

use serde::Serialize;

use crate::digest::Sha256Digest;
use crate::proof::{Evidence, MtpMode, ProofRecord};

/// What came of recomputing a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    /// Every logit has the same bits.
    Reproduced {
        /// Positions compared.
        positions: usize,
    },
    /// Some logits have other bits.
    DiffersAt {
        /// The first record that differs.
        record: String,
        /// Its first position that differs, from 0. `None` where every row agrees but the digest of all does not: then
        /// the proof itself was changed.
        position: Option<usize>,
    },
    /// The two are not runs of the same thing, so that a difference would say nothing.
    NotComparable {
        /// Why.
        reason: Incomparable,
    },
}

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Incomparable {
    /// They were computed under different numerics contracts.
    Contract {
        /// The proof's.
        proved: String,
        /// The one here.
        here: String,
    },
    /// They are of different packages.
    Manifest {
        /// Digest of the manifest that the proof is of.
        proved: Sha256Digest,
        /// Digest of the one here.
        here: Sha256Digest,
    },
    /// One drafted and the other did not.
    Mode {
        /// The proof's.
        proved: MtpMode,
        /// The one here.
        here: MtpMode,
    },
    /// A record of the proof was not run here, or has other tokens or positions here.
    Record {
        /// The record.
        record: String,
        /// What differs.
        what: String,
    },
    /// Rows have different lengths.
    Vocabulary {
        /// The proof's.
        proved: usize,
        /// The one here.
        here: usize,
    },
}

impl Evidence {
    /// Compares a run made `here` with this one. Runtime identities may differ: that is the point.
    pub fn compare(&self, here: &Self) -> Comparison {
        if let Some(reason) = self.incomparable(here) {
            return Comparison::NotComparable { reason };
        }
        for (proved, found) in self.records.iter().zip(&here.records) {
            if let Some(position) = difference(proved, found) {
                return Comparison::DiffersAt {
                    record: proved.name.clone(),
                    position,
                };
            }
        }
        Comparison::Reproduced {
            positions: self.positions(),
        }
    }

    fn incomparable(&self, here: &Self) -> Option<Incomparable> {
        if self.contract != here.contract {
            return Some(Incomparable::Contract {
                proved: self.contract.clone(),
                here: here.contract.clone(),
            });
        }
        if self.manifest_sha256 != here.manifest_sha256 {
            return Some(Incomparable::Manifest {
                proved: self.manifest_sha256,
                here: here.manifest_sha256,
            });
        }
        if self.mode != here.mode {
            return Some(Incomparable::Mode {
                proved: self.mode,
                here: here.mode,
            });
        }
        if self.vocabulary != here.vocabulary {
            return Some(Incomparable::Vocabulary {
                proved: self.vocabulary,
                here: here.vocabulary,
            });
        }
        let other = |record: &ProofRecord, what: String| {
            Some(Incomparable::Record {
                record: record.name.clone(),
                what,
            })
        };
        for (index, proved) in self.records.iter().enumerate() {
            let Some(found) = here
                .records
                .get(index)
                .filter(|found| found.name == proved.name)
            else {
                return other(proved, "it was not run here".to_owned());
            };
            if found.tokens_sha256 != proved.tokens_sha256 {
                return other(proved, "the input tokens differ".to_owned());
            }
            if found.positions != proved.positions || found.rows.len() != proved.rows.len() {
                return other(
                    proved,
                    format!("{} positions, here {}", proved.positions, found.positions),
                );
            }
        }
        let extra = here.records.get(self.records.len());
        extra.and_then(|record| other(record, "it is not in the proof".to_owned()))
    }
}

/// The first position that differs, if any does; the position is unknown where only the digest of all rows differs.
fn difference(proved: &ProofRecord, found: &ProofRecord) -> Option<Option<usize>> {
    let position = proved
        .rows
        .iter()
        .zip(&found.rows)
        .position(|(proved, found)| proved != found);
    match position {
        Some(position) => Some(Some(position)),
        None if proved.logits_sha256 != found.logits_sha256 => Some(None),
        None => None,
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reproduced { positions } => write!(f, "reproduced: {positions} positions"),
            Self::DiffersAt {
                record,
                position: Some(position),
            } => {
                write!(f, "differs at record {record:?}, position {position}")
            }
            Self::DiffersAt {
                record,
                position: None,
            } => {
                write!(
                    f,
                    "differs at record {record:?}: each row agrees, the digest of all does not"
                )
            }
            Self::NotComparable { reason } => write!(f, "not comparable: {reason}"),
        }
    }
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contract { proved, here } => {
                write!(
                    f,
                    "runtime contract differs: proved under {proved}, here {here}"
                )
            }
            Self::Manifest { proved, here } => {
                write!(f, "manifest differs: proved of {proved}, here {here}")
            }
            Self::Mode { proved, here } => {
                write!(f, "mtp mode differs: proved with {proved}, here {here}")
            }
            Self::Record { record, what } => write!(f, "record {record:?}: {what}"),
            Self::Vocabulary { proved, here } => {
                write!(f, "vocabulary differs: {proved} logits a row, here {here}")
            }
        }
    }
}

impl fmt::Display for MtpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
        })
    }
}
