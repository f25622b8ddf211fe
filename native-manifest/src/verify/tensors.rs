//! Tensor files against the manifest.

use std::collections::{BTreeMap, HashMap};

use bfp_format::tensorbin::TensorFile;
use bytes::Bytes;
use rayon::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::Metadata;

use super::Whole;
use super::codes::first_foreign_code;
use crate::digest::Sha256Digest;
use crate::error::ManifestError;
use crate::path::PackagePath;
use crate::progress::Progress;
use crate::report::{Finding, FindingKind};
use crate::schema::{CHECKPOINT, MtpRecord, TensorRecord};
use crate::snapshot::{Claimed, Snapshot};

impl Snapshot<Claimed> {
    /// Only files that are whole are looked into: what is wrong with the others was found already.
    pub(super) fn tensor_findings(
        &self,
        whole: &HashMap<PackagePath, Whole>,
        canonical: bool,
        progress: &dyn Progress,
    ) -> Result<Vec<Finding>, ManifestError> {
        let manifest = self.manifest();
        let bytes_of = |file: &PackagePath| {
            whole
                .get(format!("{CHECKPOINT}/{file}").as_str())
                .map(|whole| &whole.bytes)
        };
        let findings: Vec<_> = manifest
            .tensors
            .par_iter()
            .with_max_len(1)
            .map(|record| {
                if progress.is_cancelled() {
                    return Err(ManifestError::Cancelled);
                }
                let Some(bytes) = bytes_of(&record.file) else {
                    return Ok(Vec::new());
                };
                let located = |finding: Finding| {
                    finding
                        .in_file(format!("{CHECKPOINT}/{}", record.file))
                        .of_tensor(&record.name)
                };
                Ok(file_findings(record, bytes, canonical)
                    .into_iter()
                    .map(located)
                    .collect())
            })
            .collect::<Result<_, _>>()?;
        let mut findings: Vec<Finding> = findings.into_iter().flatten().collect();
        if let Some(mtp) = &manifest.mtp
            && let Some(bytes) = bytes_of(&mtp.file)
        {
            let located = |finding: Finding| finding.in_file(format!("{CHECKPOINT}/{}", mtp.file));
            findings.extend(mtp_findings(mtp, bytes).into_iter().map(located));
        }
        Ok(findings)
    }
}

/// A `.tensorbin` file against its record.
fn file_findings(record: &TensorRecord, bytes: &Bytes, canonical: bool) -> Vec<Finding> {
    let parsed = match TensorFile::parse(bytes.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            return vec![Finding::new(
                FindingKind::Header,
                "header",
                "a well-formed one",
                error,
            )];
        }
    };
    let header = parsed.header();
    let mut findings = Vec::new();
    let mut compare = |field: &str, expected: String, found: String| {
        if expected != found {
            findings.push(Finding::new(FindingKind::Header, field, expected, found));
        }
    };
    compare(
        "shape",
        format!("{:?}", record.shape),
        format!("{:?}", header.shape),
    );
    compare(
        "dtype",
        record.dtype.data_type().to_string(),
        header.dtype.to_string(),
    );
    compare(
        "layout",
        format!("{:?}", record.layout.layout()),
        format!("{:?}", header.layout),
    );
    compare("shards", "1".to_owned(), header.shards.len().to_string());
    compare(
        "trailing bytes",
        "0".to_owned(),
        parsed.trailing_bytes().to_string(),
    );
    if canonical
        && findings.is_empty()
        && let Some(format) = record.dtype.block_format()
        && let Ok(codes) = parsed.shard_bytes(0)
        && let Some(place) = first_foreign_code(codes, format)
    {
        findings.push(Finding::new(
            FindingKind::Codes,
            "codes",
            "what an encoder writes",
            place,
        ));
    }
    findings
}

/// A safetensors file against its record: the same tensors, and each with the digest it has in the source.
fn mtp_findings(record: &MtpRecord, bytes: &[u8]) -> Vec<Finding> {
    let (start, header) = match SafeTensors::read_metadata(bytes) {
        Ok((length, header)) => (8 + length, header),
        Err(error) => {
            return vec![Finding::new(
                FindingKind::Header,
                "header",
                "a well-formed one",
                error,
            )];
        }
    };
    let mut findings = Vec::new();
    let stored: BTreeMap<String, _> = header.tensors().into_iter().collect();
    for tensor in &record.tensors {
        let mut add = |kind, field: &str, expected: String, found: String| {
            findings.push(Finding::new(kind, field, expected, found).of_tensor(&tensor.name));
        };
        let Some(info) = stored.get(&tensor.name) else {
            add(
                FindingKind::Missing,
                "tensor",
                format!("shape {:?}", tensor.shape),
                "nothing".to_owned(),
            );
            continue;
        };
        if info.shape != tensor.shape {
            add(
                FindingKind::Header,
                "shape",
                format!("{:?}", tensor.shape),
                format!("{:?}", info.shape),
            );
        }
        if info.dtype.to_string() != tensor.dtype {
            add(
                FindingKind::Header,
                "dtype",
                tensor.dtype.clone(),
                info.dtype.to_string(),
            );
        }
        let digest = payload(bytes, start, info.data_offsets).map(Sha256Digest::of);
        if digest != Some(tensor.sha256) {
            let found = digest.map_or_else(
                || "bytes outside the file".to_owned(),
                |digest| digest.to_string(),
            );
            add(
                FindingKind::Digest,
                "sha256",
                tensor.sha256.to_string(),
                found,
            );
        }
    }
    findings.extend(unlisted(record, &header).map(|name| {
        Finding::new(
            FindingKind::Extra,
            "tensor",
            "nothing",
            "a tensor that the manifest does not list",
        )
        .of_tensor(name)
    }));
    findings
}

fn payload(bytes: &[u8], start: usize, (from, to): (usize, usize)) -> Option<&[u8]> {
    bytes.get(start.checked_add(from)?..start.checked_add(to)?)
}

fn unlisted<'a>(
    record: &'a MtpRecord,
    header: &Metadata,
) -> impl Iterator<Item = String> + use<'a> {
    let stored: Vec<String> = header.tensors().into_keys().collect();
    stored
        .into_iter()
        .filter(|name| record.tensors.iter().all(|tensor| tensor.name != *name))
}
