//! A package folder.

use std::error::Error as _;
use std::fs;
use std::path::Path;

use native_manifest::schema::RELEASE_FILE;
use native_manifest::{
    Finding, FindingKind, ManifestError, Progress, Report, Snapshot, Verified, VerifyOptions,
    in_toto_statement, to_json,
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
    let release = claimed.release().release.escape_debug().to_string();
    let manifest = format!("sha256:{}", claimed.manifest_digest());
    let outcome = match claimed.verify(&options, progress) {
        Ok((package, _)) => {
            state(&package, args).unwrap_or_else(|| Outcome::checked(package.report().clone()))
        }
        Err(ManifestError::Rejected { report }) => Outcome::checked(*report),
        Err(error) => refused(&error),
    };
    // The name is escaped, as it may be drawn on a terminal.
    outcome
        .with("package", folder.display().to_string())
        .with("release", release)
        .with("manifest", manifest)
}

/// Writes the statement that was asked for; gives an outcome where that fails.
fn state(package: &Snapshot<Verified>, args: &PackageArgs) -> Option<Outcome> {
    let (path, publication) = (args.statement.as_ref()?, package.publication()?);
    let statement = in_toto_statement(publication, package.manifest(), package.manifest_digest());
    let written = to_json(&statement).map_err(|error| error.to_string());
    let written = written.and_then(|json| fs::write(path, json).map_err(|error| error.to_string()));
    written
        .err()
        .map(|error| Outcome::unreadable(format!("cannot write {}: {error}", path.display())))
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
