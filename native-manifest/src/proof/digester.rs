//! Rows of logits to a record.

use crate::digest::{Digester, Sha256Digest};
use crate::error::ManifestError;
use crate::proof::{Drafting, ProofRecord, RowDigest};

/// Takes the logits of one run, row by row in the order of positions, and keeps digests only.
#[derive(Clone, Debug)]
pub struct RecordDigester {
    name: String,
    tokens_sha256: Sha256Digest,
    vocabulary: usize,
    all: Digester,
    rows: Vec<RowDigest>,
    drafting: Option<Drafting>,
    bytes: Vec<u8>,
}

impl RecordDigester {
    /// A record of the run over `tokens`, whose rows have `vocabulary` elements.
    pub fn new(name: &str, tokens: &[u32], vocabulary: usize) -> Self {
        let mut digester = Digester::new();
        for token in tokens {
            digester.update(&token.to_le_bytes());
        }
        Self {
            name: name.to_owned(),
            tokens_sha256: digester.finish(),
            vocabulary,
            all: Digester::new(),
            rows: Vec::new(),
            drafting: None,
            bytes: Vec::new(),
        }
    }

    /// Takes the next row: `[vocabulary]`, every bit counts.
    ///
    /// # Errors
    /// [`ManifestError::Proof`] for a row of another length.
    pub fn row(&mut self, logits: &[f32]) -> Result<(), ManifestError> {
        if logits.len() != self.vocabulary {
            return Err(ManifestError::Proof {
                field: format!("row {} of {:?}", self.rows.len(), self.name),
                expected: format!("{} logits", self.vocabulary),
                found: logits.len().to_string(),
            });
        }
        self.bytes.clear();
        self.bytes
            .extend(logits.iter().flat_map(|logit| logit.to_le_bytes()));
        self.all.update(&self.bytes);
        self.rows.push(RowDigest::of(&self.bytes));
        Ok(())
    }

    /// Says that the run drafted, and what became of it.
    #[must_use]
    pub const fn drafted(mut self, drafting: Drafting) -> Self {
        self.drafting = Some(drafting);
        self
    }

    /// The record of all rows taken.
    pub fn finish(self) -> ProofRecord {
        ProofRecord {
            name: self.name,
            tokens_sha256: self.tokens_sha256,
            positions: self.rows.len(),
            logits_sha256: self.all.finish(),
            rows: self.rows,
            drafting: self.drafting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_of_little_endian_bytes_in_order() {
        let mut record = RecordDigester::new("r", &[1, 0x0203], 2);
        record.row(&[1.0, -0.0]).unwrap();
        record.row(&[f32::from_bits(0x7fc0_0001), 2.0]).unwrap();
        let record = record.finish();
        assert_eq!(
            record.tokens_sha256,
            Sha256Digest::of(&[1, 0, 0, 0, 3, 2, 0, 0])
        );
        let first = [0, 0, 0x80, 0x3f, 0, 0, 0, 0x80];
        let second = [1, 0, 0xc0, 0x7f, 0, 0, 0, 0x40];
        assert_eq!(
            record.logits_sha256,
            Sha256Digest::of(&[first, second].concat())
        );
        assert_eq!(record.rows, [RowDigest::of(&first), RowDigest::of(&second)]);
        assert!(
            Sha256Digest::of(&first)
                .to_string()
                .starts_with(&record.rows[0].to_string())
        );
        assert_eq!(record.positions, 2);
    }

    #[test]
    fn a_row_of_another_length_is_refused() {
        let mut record = RecordDigester::new("r", &[], 3);
        let error = record.row(&[0.0; 2]).unwrap_err();
        assert!(matches!(error, ManifestError::Proof { expected, .. } if expected == "3 logits"));
    }
}
