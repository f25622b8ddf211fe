//! A package folder.

use std::error::Error as _;
use std::path::Path;

use native_manifest::schema::RELEASE_FILE;
use native_manifest::{
    Finding, FindingKind, ManifestError, Progress, Report, Snapshot, VerifyOptions,
};

use crate::args::PackageArgs;
use crate::outcome::Outcome;

pub(crate) fn check(folder: &Path, args: &PackageArgs, progress: &dyn Progress) -> Outcome {
    let options = VerifyOptions {
        publication: !args.runtime_only,
        canonical: !args.skip_codes,
        refuse_links_out: !args.allow_links,
        known: None,
    };
    let claimed = match Snapshot::open(folder) {
        Ok(claimed) => claimed,
        Err(error) => return refused(&error).with("package", folder.display().to_string()),
    };
    let outcome = match claimed.examine(&options, progress) {
        Ok(report) => Outcome::checked(report),
        Err(error) => refused(&error),
    };
    outcome
        .with("package", folder.display().to_string())
        // Escaped, as it may be drawn on a terminal.
        .with(
            "release",
            claimed.release().release.escape_debug().to_string(),
        )
        .with("manifest", format!("sha256:{}", claimed.manifest_digest()))
}

/// A package whose lists cannot be trusted was read, and something was found; one that is not there was not read.
fn refused(error: &ManifestError) -> Outcome {
    let finding = match error {
        ManifestError::Absent { path } if path == RELEASE_FILE => {
            return Outcome::unreadable(format!("this is no package: {error}"));
        }
        ManifestError::Io { .. } | ManifestError::Version { .. } | ManifestError::Cancelled => {
            return Outcome::unreadable(match error.source() {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            });
        }
        ManifestError::Absent { path } => {
            Finding::new(FindingKind::Missing, "file", "a manifest", "nothing").in_file(path)
        }
        ManifestError::Json {
            path,
            field,
            reason,
        } => Finding::new(
            FindingKind::Schema,
            field,
            "what the format asks for",
            reason,
        )
        .in_file(path),
        ManifestError::TooLarge { path, bytes, limit } => {
            let expected = format!("at most {limit} bytes");
            Finding::new(
                FindingKind::Size,
                "size",
                expected,
                format!("{bytes} bytes"),
            )
            .in_file(path)
        }
        ManifestError::Cycle { inventory, listed } => {
            let found = format!("an entry {listed:?}, whose digest depends on this file");
            Finding::new(
                FindingKind::Schema,
                "inventory",
                "files made before this one",
                found,
            )
            .in_file(inventory)
        }
        other => Finding::new(
            FindingKind::Schema,
            "content",
            "what the format asks for",
            other,
        ),
    };
    let mut report = Report::default();
    report.findings.push(finding);
    Outcome::checked(report)
}
