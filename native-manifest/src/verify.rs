//! Whether a package is what it says.

mod codes;
mod manifest;
mod publication;
mod tensors;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use rayon::prelude::*;

use crate::digest::Digester;
use crate::error::ManifestError;
use crate::files::Found;
use crate::inventory::{Entry, Totals};
use crate::path::PackagePath;
use crate::progress::Progress;
use crate::record::{Stamp, VerifiedRecord};
use crate::report::{Finding, FindingKind, Report};
use crate::schema::{CHECKPOINT, MANIFEST_FILE, Publication, RELEASE_FILE};
use crate::snapshot::{Claimed, Snapshot, Verified};

/// Bytes of a mapped file that are hashed between two reports of progress.
const PIECE: usize = 4 << 20;

/// How far to go.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Also check what a runtime does not need: `release-manifest.json` and its files, `SHA256SUMS`, and that nothing
    /// else is there.
    pub publication: bool,
    /// Also check that block codes are those an encoder writes.
    pub canonical: bool,
    /// Refuse links that lead out of the folder. A Hugging Face cache is made of such links; a package on its own is not.
    pub refuse_links_out: bool,
    /// Files hashed before: one whose size, time and inode are unchanged is not hashed again.
    pub known: Option<VerifiedRecord>,
}

/// The files that were right, and what a warm start may remember of them.
struct Whole {
    bytes: Bytes,
    stamp: Stamp,
}

impl Snapshot<Claimed> {
    /// Checks every file that the release lists: size, SHA-256, tensor headers against the manifest, totals, and
    /// what the options add. Runs in the current rayon pool. Also returns what to remember for a warm start.
    ///
    /// # Errors
    /// [`ManifestError::Rejected`] with all findings; [`ManifestError::Cancelled`]; [`ManifestError::Io`] when the
    /// folder cannot be listed.
    pub fn verify(
        self,
        options: &VerifyOptions,
        progress: &dyn Progress,
    ) -> Result<(Snapshot<Verified>, VerifiedRecord), ManifestError> {
        let Outcome {
            report,
            whole,
            publication,
        } = self.check(options, progress)?;
        if !report.is_clean() {
            return Err(ManifestError::Rejected {
                report: Box::new(report),
            });
        }
        let mut record = VerifiedRecord::new(self.manifest_digest);
        for entry in self.release().inventory.entries() {
            if let Some(found) = whole.get(&entry.path) {
                record.remember(entry.path.clone(), found.stamp, entry.sha256);
            }
        }
        let bytes = whole
            .into_iter()
            .map(|(path, whole)| (path, whole.bytes))
            .collect();
        Ok((self.into_verified(bytes, publication, report), record))
    }

    /// What [`verify`](Self::verify) finds, as a report.
    ///
    /// # Errors
    /// [`ManifestError::Cancelled`]; [`ManifestError::Io`] when the folder cannot be listed.
    pub fn examine(
        &self,
        options: &VerifyOptions,
        progress: &dyn Progress,
    ) -> Result<Report, ManifestError> {
        Ok(self.check(options, progress)?.report)
    }

    fn check(
        &self,
        options: &VerifyOptions,
        progress: &dyn Progress,
    ) -> Result<Outcome, ManifestError> {
        let mut report = Report::default();
        report.findings.extend(self.manifest_findings());
        let mut wanted: BTreeMap<&str, &Entry> = self
            .release()
            .inventory
            .iter()
            .map(|entry| (entry.path.as_str(), entry))
            .collect();
        let publication = if options.publication {
            self.read_publication(&mut report.findings)
        } else {
            None
        };
        if let Some(publication) = &publication {
            for entry in &publication.claims.inventory {
                // Where the two lists differ, that is a finding already; the runtime's is the one that is checked.
                wanted.entry(entry.path.as_str()).or_insert(entry);
            }
        }
        for tensor in self
            .manifest()
            .tensors
            .iter()
            .filter(|tensor| !manifest::is_plausible(tensor))
        {
            wanted.remove(format!("{CHECKPOINT}/{}", tensor.file).as_str());
        }
        if options.refuse_links_out {
            for own in [RELEASE_FILE, MANIFEST_FILE] {
                report.findings.extend(self.link_finding(&own.parse()?));
            }
        }
        let whole = self.check_files(
            wanted.into_values().collect(),
            options,
            progress,
            &mut report,
        )?;
        report.tensors = self.manifest().tensors.len() as u64;
        report
            .findings
            .extend(self.tensor_findings(&whole, options.canonical, progress)?);
        if let Some(publication) = &publication {
            report
                .findings
                .extend(self.publication_findings(publication)?);
        }
        report.findings.sort();
        report.findings.dedup();
        let publication = publication.map(|read| read.claims);
        Ok(Outcome {
            report,
            whole,
            publication,
        })
    }

    /// Hashes files in parallel, the largest first so that none is left for the end.
    fn check_files(
        &self,
        mut entries: Vec<&Entry>,
        options: &VerifyOptions,
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<HashMap<PackagePath, Whole>, ManifestError> {
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.bytes));
        let totals = Totals {
            files: entries.len() as u64,
            bytes: entries
                .iter()
                .fold(0_u64, |sum, entry| sum.saturating_add(entry.bytes)),
        };
        progress.started(totals.files, totals.bytes);
        let checked: Vec<_> = entries
            .par_iter()
            .with_max_len(1)
            .map(|entry| {
                let checked = self.check_file(entry, options, progress);
                progress.file_done(&entry.path);
                checked
            })
            .collect();
        let mut whole = HashMap::new();
        for (entry, checked) in entries.into_iter().zip(checked) {
            match checked? {
                Ok(found) => {
                    report.files += 1;
                    report.bytes += entry.bytes;
                    whole.insert(entry.path.clone(), found);
                }
                Err(finding) => report.findings.push(finding.in_file(&entry.path)),
            }
        }
        Ok(whole)
    }

    /// One listed file: the outer error stops the check, the inner one is a finding.
    fn check_file(
        &self,
        entry: &Entry,
        options: &VerifyOptions,
        progress: &dyn Progress,
    ) -> Result<Result<Whole, Finding>, ManifestError> {
        if options.refuse_links_out
            && let Some(finding) = self.link_finding(&entry.path)
        {
            return Ok(Err(finding));
        }
        let listed = format!("{} bytes", entry.bytes);
        match self.files.look(&entry.path) {
            Ok(Found::File { bytes }) if bytes == entry.bytes => {}
            Ok(Found::File { bytes }) => {
                return Ok(Err(Finding::new(
                    FindingKind::Size,
                    "size",
                    listed,
                    format!("{bytes} bytes"),
                )));
            }
            Ok(Found::Nothing) => {
                return Ok(Err(Finding::new(
                    FindingKind::Missing,
                    "file",
                    listed,
                    "nothing",
                )));
            }
            Ok(Found::NotAFile) => {
                let found = "something that is no regular file";
                return Ok(Err(Finding::new(
                    FindingKind::Unreadable,
                    "file",
                    listed,
                    found,
                )));
            }
            Err(error) => return Ok(Err(unreadable(&error))),
        }
        let stamp = self.files.stamp(&entry.path);
        let bytes = match self.files.bytes(&entry.path) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(unreadable(&error))),
        };
        if options
            .known
            .as_ref()
            .is_some_and(|known| known.holds(&entry.path, &stamp, &entry.sha256))
        {
            progress.advanced(entry.bytes);
            return Ok(Ok(Whole { bytes, stamp }));
        }
        let mut digester = Digester::new();
        for piece in bytes.chunks(PIECE) {
            if progress.is_cancelled() {
                return Err(ManifestError::Cancelled);
            }
            digester.update(piece);
            progress.advanced(piece.len() as u64);
        }
        // Between the look and the map the file may have changed its size; the map is what counts.
        let (found, read) = (digester.bytes(), digester.finish());
        if found != entry.bytes {
            return Ok(Err(Finding::new(
                FindingKind::Size,
                "size",
                listed,
                format!("{found} bytes"),
            )));
        }
        if read != entry.sha256 {
            return Ok(Err(Finding::new(
                FindingKind::Digest,
                "sha256",
                entry.sha256,
                read,
            )));
        }
        Ok(Ok(Whole { bytes, stamp }))
    }

    fn link_finding(&self, path: &PackagePath) -> Option<Finding> {
        let inside = self.files.stays_inside(path);
        let finding = || {
            Finding::new(
                FindingKind::Link,
                "link",
                "a file of this package",
                "a link out of it",
            )
        };
        (!inside).then(|| finding().in_file(path))
    }
}

struct Outcome {
    report: Report,
    whole: HashMap<PackagePath, Whole>,
    publication: Option<Publication>,
}

fn unreadable(error: &ManifestError) -> Finding {
    Finding::new(
        FindingKind::Unreadable,
        "file",
        "a readable file",
        with_cause(error),
    )
}

/// The error and what the system says, on one line.
fn with_cause(error: &ManifestError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
