//! The manifests against each other and against themselves. No tensor file is looked at.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use bfp_format::FormatError;

use crate::counting::elements;
use crate::inventory::Entry;
use crate::path::PackagePath;
use crate::report::{Finding, FindingKind};
use crate::schema::{
    CHECKPOINT, MANIFEST_FILE, NativeManifest, PRECISION_SUMMARY_FILE, PrecisionSummary,
    RELEASE_FILE, TensorRecord, TensorTotals,
};
use crate::snapshot::{Claimed, Snapshot};
use crate::stored::StoredLayout;

/// Room for the header of a tensor file. Those of one shard have below 1 KiB.
const MAX_HEADER_BYTES: u64 = 1 << 20;

impl Snapshot<Claimed> {
    pub(super) fn manifest_findings(&self) -> Vec<Finding> {
        let mut findings = self.release_findings();
        let manifest = self.manifest();
        findings.extend(totals_findings(manifest));
        findings.extend(manifest.tensors.iter().flat_map(record_findings));
        findings.extend(duplicate_findings(manifest));
        findings.extend(self.listing_findings());
        findings.extend(self.summary_findings());
        let offset = manifest.norm_offset;
        if !offset.is_finite() {
            findings.push(Finding::new(
                FindingKind::Schema,
                "norm_offset",
                "a finite number",
                offset,
            ));
        }
        if manifest.rounding.parse::<bfp_format::Rounding>().is_err() {
            let expected = "host-nearest-even or device-nearest-away";
            findings.push(Finding::new(
                FindingKind::Schema,
                "rounding",
                expected,
                format!("{:?}", manifest.rounding),
            ));
        }
        findings
            .into_iter()
            .map(|finding| {
                if finding.file.is_none() {
                    finding.in_file(MANIFEST_FILE)
                } else {
                    finding
                }
            })
            .collect()
    }

    fn release_findings(&self) -> Vec<Finding> {
        let release = self.release();
        let mut findings = Vec::new();
        let found = release.inventory.totals();
        if let Some(claimed) = release.totals.filter(|claimed| *claimed != found) {
            let text = |totals: crate::inventory::Totals| {
                format!("{} files of {} bytes", totals.files, totals.bytes)
            };
            let finding = Finding::new(FindingKind::Total, "totals", text(found), text(claimed));
            findings.push(finding.in_file(RELEASE_FILE));
        }
        let listed = release.inventory.entry(MANIFEST_FILE);
        match listed {
            None => {
                let finding = Finding::new(
                    FindingKind::Conflict,
                    "inventory",
                    format!("an entry {MANIFEST_FILE:?}"),
                    "none",
                );
                findings.push(finding.in_file(RELEASE_FILE));
            }
            Some(entry) if entry.sha256 != self.manifest_digest => {
                findings.push(Finding::new(
                    FindingKind::Digest,
                    "sha256",
                    entry.sha256,
                    self.manifest_digest,
                ));
            }
            Some(_) => {}
        }
        findings
    }

    /// Every file that the manifest names is in the inventory, with the same size and digest.
    fn listing_findings(&self) -> Vec<Finding> {
        let manifest = self.manifest();
        let tensors = manifest.tensors.iter().map(|tensor| {
            let listed = Entry {
                path: tensor.file.clone(),
                bytes: tensor.bytes,
                sha256: tensor.sha256,
            };
            (listed, Some(&tensor.name))
        });
        let mtp = manifest.mtp.iter().map(|mtp| {
            let listed = Entry {
                path: mtp.file.clone(),
                bytes: mtp.bytes,
                sha256: mtp.sha256,
            };
            (listed, None)
        });
        let files = manifest.files.iter().map(|entry| (entry.clone(), None));
        tensors
            .chain(mtp)
            .chain(files)
            .filter_map(|(listed, tensor)| {
                let finding = self.listing_conflict(&listed)?;
                Some(match tensor {
                    Some(name) => finding.of_tensor(name),
                    None => finding,
                })
            })
            .collect()
    }

    fn listing_conflict(&self, listed: &Entry) -> Option<Finding> {
        let path = format!("{CHECKPOINT}/{}", listed.path);
        let conflict = |field: &str, expected: String, found: String| {
            Some(Finding::new(FindingKind::Conflict, field, expected, found))
        };
        match self.release().inventory.entry(&path) {
            None => conflict(
                "file",
                format!("{path:?} in {RELEASE_FILE}"),
                "no entry".to_owned(),
            ),
            Some(entry) if entry.bytes != listed.bytes => {
                let expected = format!("{} for {path:?} as in {RELEASE_FILE}", entry.bytes);
                conflict("bytes", expected, listed.bytes.to_string())
            }
            Some(entry) if entry.sha256 != listed.sha256 => {
                let expected = format!("{} for {path:?} as in {RELEASE_FILE}", entry.sha256);
                conflict("sha256", expected, listed.sha256.to_string())
            }
            Some(_) => None,
        }
    }

    /// The summary, where there is one, counts what the manifest lists.
    fn summary_findings(&self) -> Vec<Finding> {
        let Ok(path) = PackagePath::parse(PRECISION_SUMMARY_FILE) else {
            return Vec::new();
        };
        if self.release().inventory.entry(path.as_str()).is_none() {
            return Vec::new();
        }
        // A file that cannot be read is found when it is hashed.
        let Ok(json) = self.files.small(&path, crate::json::MAX_JSON_BYTES) else {
            return Vec::new();
        };
        let summary = match PrecisionSummary::parse(&json) {
            Ok(summary) => summary,
            Err(error) => {
                return vec![
                    Finding::new(FindingKind::Schema, "content", "a precision summary", error)
                        .in_file(path),
                ];
            }
        };
        let counted = PrecisionSummary::of(self.manifest()).types;
        if summary.types == counted {
            return Vec::new();
        }
        let text = |types: &[crate::schema::TypeTotals]| {
            let lines = types
                .iter()
                .map(|line| format!("{} {} {}", line.dtype, line.tensors, line.bytes));
            lines.collect::<Vec<_>>().join(", ")
        };
        let finding = Finding::new(
            FindingKind::Total,
            "types",
            text(&counted),
            text(&summary.types),
        );
        vec![finding.in_file(path)]
    }
}

fn totals_findings(manifest: &NativeManifest) -> Vec<Finding> {
    let (claimed, counted) = (manifest.totals, TensorTotals::of(manifest));
    let fields = [
        (
            "totals.target_tensors",
            claimed.target_tensors,
            counted.target_tensors,
        ),
        (
            "totals.target_bytes",
            claimed.target_bytes,
            counted.target_bytes,
        ),
        (
            "totals.target_parameters",
            claimed.target_parameters,
            counted.target_parameters,
        ),
        (
            "totals.mtp_tensors",
            claimed.mtp_tensors,
            counted.mtp_tensors,
        ),
        ("totals.mtp_bytes", claimed.mtp_bytes, counted.mtp_bytes),
        (
            "totals.mtp_parameters",
            claimed.mtp_parameters,
            counted.mtp_parameters,
        ),
    ];
    let wrong = fields
        .into_iter()
        .filter(|(_, claimed, counted)| claimed != counted);
    wrong
        .map(|(field, claimed, counted)| Finding::new(FindingKind::Total, field, counted, claimed))
        .collect()
}

/// Sizes that the file of a tensor can have: its elements, stored, and a header.
fn plausible_bytes(tensor: &TensorRecord) -> Result<RangeInclusive<u64>, FormatError> {
    let data = tensor
        .layout
        .layout()
        .data_bytes(tensor.dtype.data_type(), &tensor.shape)? as u64;
    Ok(data.saturating_add(8)..=data.saturating_add(MAX_HEADER_BYTES))
}

/// Whether a tensor's file is worth reading: a size that its shape cannot have may be that of a file of terabytes that
/// takes no place on the disk.
pub(super) fn is_plausible(tensor: &TensorRecord) -> bool {
    plausible_bytes(tensor).is_ok_and(|range| range.contains(&tensor.bytes))
}

/// What a record may not say, whatever its file holds.
fn record_findings(tensor: &TensorRecord) -> Vec<Finding> {
    let schema = |field: &str, expected: &str, found: String| {
        Finding::new(FindingKind::Schema, field, expected, found).of_tensor(&tensor.name)
    };
    let mut findings = Vec::new();
    if tensor.name.is_empty()
        || tensor.name.len() > 255
        || tensor.name.chars().any(char::is_control)
    {
        findings.push(schema(
            "name",
            "1 to 255 bytes of visible text",
            format!("{:?}", tensor.name),
        ));
    }
    let Some(count) = elements(&tensor.shape) else {
        findings.push(schema(
            "shape",
            "elements that 64 bits count",
            format!("{:?}", tensor.shape),
        ));
        return findings;
    };
    if tensor.dtype.block_format().is_some() && tensor.layout != StoredLayout::Tile {
        findings.push(schema(
            "layout",
            "tile-32x32 for a block format",
            tensor.layout.to_string(),
        ));
        return findings;
    }
    match plausible_bytes(tensor) {
        Err(error) => findings.push(schema("shape", "one that can be stored", error.to_string())),
        Ok(range) if !range.contains(&tensor.bytes) => {
            let expected = format!(
                "{} to {}, the elements and a header",
                range.start(),
                range.end()
            );
            findings.push(schema("bytes", &expected, tensor.bytes.to_string()));
        }
        Ok(_) => {}
    }
    let source = &tensor.source;
    let rows = source.shape.first().copied().unwrap_or(1);
    if source
        .first_row
        .checked_add(source.rows)
        .is_none_or(|end| end > rows)
    {
        let found = format!(
            "rows {} and {} more of shape {:?}",
            source.first_row, source.rows, source.shape
        );
        findings.push(schema("source.rows", "rows that the source has", found));
    } else {
        let row = elements(source.shape.get(1..).unwrap_or_default());
        let taken = row.and_then(|row| row.checked_mul(source.rows as u64));
        if taken != Some(count) {
            let expected = format!("{count} elements, those of shape {:?}", tensor.shape);
            let found = format!("{} rows of shape {:?}", source.rows, source.shape);
            findings.push(schema("source.shape", &expected, found));
        }
    }
    findings
}

fn duplicate_findings(manifest: &NativeManifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names = HashSet::new();
    let mtp = manifest
        .mtp
        .iter()
        .flat_map(|mtp| mtp.tensors.iter().map(|tensor| &tensor.name));
    for name in manifest
        .tensors
        .iter()
        .map(|tensor| &tensor.name)
        .chain(mtp)
    {
        if !names.insert(name) {
            findings.push(
                Finding::new(
                    FindingKind::Duplicate,
                    "name",
                    "each name once",
                    "the name twice",
                )
                .of_tensor(name),
            );
        }
    }
    let mut files = HashMap::new();
    for tensor in &manifest.tensors {
        if let Some(other) = files.insert(tensor.file.fold(), &tensor.name) {
            let found = format!("{:?}, which tensor {other:?} has too", tensor.file.as_str());
            let finding = Finding::new(FindingKind::Duplicate, "file", "a file of its own", found);
            findings.push(finding.of_tensor(&tensor.name));
        }
    }
    findings
}
