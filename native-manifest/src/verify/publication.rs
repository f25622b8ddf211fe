//! The publication's list against the runtime's, against `SHA256SUMS`, and against what is there.

use std::collections::{BTreeMap, BTreeSet};

use super::with_cause;
use crate::digest::Sha256Digest;
use crate::error::ManifestError;
use crate::json::MAX_JSON_BYTES;
use crate::report::{Finding, FindingKind};
use crate::schema::{PUBLICATION_FILE, Publication, RELEASE_FILE, SUMS_FILE};
use crate::snapshot::{Claimed, Snapshot};
use crate::sums::Sha256Sums;

/// `release-manifest.json` as it was read.
pub(super) struct ReadPublication {
    pub(super) claims: Publication,
    digest: Sha256Digest,
}

impl Snapshot<Claimed> {
    /// Reads the list; what stops that is a finding.
    pub(super) fn read_publication(&self, findings: &mut Vec<Finding>) -> Option<ReadPublication> {
        let read = || {
            let json = self
                .files
                .small(&PUBLICATION_FILE.parse()?, MAX_JSON_BYTES)?;
            Ok(ReadPublication {
                claims: Publication::parse(&json)?,
                digest: Sha256Digest::of(&json),
            })
        };
        read()
            .map_err(|error| findings.push(content_finding(PUBLICATION_FILE, &error)))
            .ok()
    }

    pub(super) fn publication_findings(
        &self,
        read: &ReadPublication,
    ) -> Result<Vec<Finding>, ManifestError> {
        let mut findings = self.list_findings(&read.claims);
        let mut expected: BTreeMap<&str, Sha256Digest> = read
            .claims
            .inventory
            .iter()
            .map(|entry| (entry.path.as_str(), entry.sha256))
            .collect();
        expected.insert(PUBLICATION_FILE, read.digest);
        match self.sums() {
            Ok(sums) => findings.extend(sums_findings(&sums, &expected)),
            Err(error) => findings.push(content_finding(SUMS_FILE, &error)),
        }
        let known: BTreeSet<&str> = expected.keys().copied().chain([SUMS_FILE]).collect();
        for path in self
            .files
            .all()?
            .into_iter()
            .filter(|path| !known.contains(path.as_str()))
        {
            findings.push(
                Finding::new(
                    FindingKind::Extra,
                    "file",
                    "nothing",
                    "a file that no list names",
                )
                .in_file(path),
            );
        }
        Ok(findings)
    }

    /// The publication lists all that the release lists, and the release itself, alike.
    fn list_findings(&self, publication: &Publication) -> Vec<Finding> {
        let mut findings = Vec::new();
        let found = publication.inventory.totals();
        if found != publication.totals {
            let text = |totals: crate::inventory::Totals| {
                format!("{} files of {} bytes", totals.files, totals.bytes)
            };
            findings.push(Finding::new(
                FindingKind::Total,
                "totals",
                text(found),
                text(publication.totals),
            ));
        }
        let conflict = |field: &str, expected: String, found: String| {
            Finding::new(FindingKind::Conflict, field, expected, found)
        };
        for entry in &self.release().inventory {
            let expected = format!(
                "{} bytes and sha256 {} as in {RELEASE_FILE}",
                entry.bytes, entry.sha256
            );
            match publication.inventory.entry(entry.path.as_str()) {
                Some(listed) if listed == entry => {}
                Some(listed) => {
                    let found = format!("{} bytes and sha256 {}", listed.bytes, listed.sha256);
                    findings.push(conflict(entry.path.as_str(), expected, found));
                }
                None => findings.push(conflict(
                    entry.path.as_str(),
                    expected,
                    "no entry".to_owned(),
                )),
            }
        }
        match publication.inventory.entry(RELEASE_FILE) {
            Some(entry) if entry.sha256 == self.release_digest => {}
            Some(entry) => findings.push(conflict(
                RELEASE_FILE,
                self.release_digest.to_string(),
                entry.sha256.to_string(),
            )),
            None => findings.push(conflict(
                RELEASE_FILE,
                self.release_digest.to_string(),
                "no entry".to_owned(),
            )),
        }
        findings
            .into_iter()
            .map(|finding| finding.in_file(PUBLICATION_FILE))
            .collect()
    }

    fn sums(&self) -> Result<Sha256Sums, ManifestError> {
        let bytes = self.files.small(&SUMS_FILE.parse()?, MAX_JSON_BYTES)?;
        let text = std::str::from_utf8(&bytes).map_err(|error| ManifestError::SumsLine {
            line: 1,
            reason: error.to_string(),
        })?;
        Sha256Sums::parse(text)
    }
}

fn sums_findings(sums: &Sha256Sums, expected: &BTreeMap<&str, Sha256Digest>) -> Vec<Finding> {
    let conflict = |path: &str, expected: String, found: String| {
        Finding::new(FindingKind::Conflict, path, expected, found).in_file(SUMS_FILE)
    };
    let listed: BTreeMap<&str, Sha256Digest> = sums
        .lines()
        .iter()
        .map(|(path, digest)| (path.as_str(), *digest))
        .collect();
    let mut findings = Vec::new();
    for (path, sha256) in expected {
        match listed.get(path) {
            Some(found) if found == sha256 => {}
            Some(found) => findings.push(conflict(path, sha256.to_string(), found.to_string())),
            None => findings.push(conflict(path, sha256.to_string(), "no line".to_owned())),
        }
    }
    for path in listed.keys().filter(|path| !expected.contains_key(*path)) {
        findings.push(conflict(path, "no line".to_owned(), "a line".to_owned()));
    }
    findings
}

/// A file that should hold a list and does not.
fn content_finding(file: &str, error: &ManifestError) -> Finding {
    let finding = match error {
        ManifestError::Absent { .. } => Finding::new(
            FindingKind::Missing,
            "file",
            "a list of the publication",
            "nothing",
        ),
        ManifestError::Io { .. } => Finding::new(
            FindingKind::Unreadable,
            "file",
            "a readable file",
            with_cause(error),
        ),
        _ => Finding::new(
            FindingKind::Schema,
            "content",
            "a list of the publication",
            error,
        ),
    };
    finding.in_file(file)
}
