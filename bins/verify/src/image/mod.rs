//! The files of a container image against a listing.

mod layers;
mod listing;
mod oci;
mod rootfs;

use std::path::PathBuf;

use native_manifest::{Finding, FindingKind, Progress, Report, Sha256Digest};

use crate::args::ImageArgs;
use crate::image::listing::{Listed, Listing};
use crate::outcome::Outcome;

/// Why an image was not checked, or why it is refused as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// Something cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not have the form it must have.
    #[error("{}: {reason}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The image is not the one asked for, or one of its own parts is not what it says.
    #[error("{0}")]
    Refused(Box<Finding>),
}

impl ImageError {
    fn refused(finding: Finding) -> Self {
        Self::Refused(Box::new(finding))
    }
}

/// What an image has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A regular file.
    File {
        /// Its size.
        bytes: u64,
        /// Its digest.
        sha256: Sha256Digest,
    },
    /// Nothing.
    Absent,
    /// A folder, a device, a link in a circle.
    Other,
}

pub(crate) fn check(args: &ImageArgs, progress: &dyn Progress) -> Outcome {
    let is_layout = args.image.join("oci-layout").is_file();
    let kind = if is_layout {
        "OCI layout"
    } else {
        "root file system"
    };
    let outcome = match compare(args, is_layout, progress) {
        Ok(report) => Outcome::checked(report),
        Err(ImageError::Refused(finding)) => {
            let mut report = Report::default();
            report.findings.push(*finding);
            Outcome::checked(report)
        }
        Err(error) => Outcome::unreadable(error.to_string()),
    };
    outcome
        .with("image", args.image.display().to_string())
        .with("kind", kind)
        .with("listing", args.listing.display().to_string())
}

fn compare(
    args: &ImageArgs,
    is_layout: bool,
    progress: &dyn Progress,
) -> Result<Report, ImageError> {
    let listing = Listing::read(&args.listing)?;
    let contents = if is_layout {
        oci::contents(args, &listing, progress)?
    } else if args.digest.is_some() {
        let reason = "an unpacked file system has no manifest to compare a digest with".to_owned();
        return Err(ImageError::Form {
            path: args.image.clone(),
            reason,
        });
    } else {
        rootfs::contents(&args.image, &listing, progress)?
    };
    let mut report = Report::default();
    for (listed, content) in listing.files.iter().zip(contents) {
        if let Content::File { bytes, .. } = content {
            report.files += 1;
            report.bytes += bytes;
        }
        report
            .findings
            .extend(difference(listed, &content).map(|finding| finding.in_file(&listed.path)));
    }
    report.findings.sort();
    Ok(report)
}

fn difference(listed: &Listed, content: &Content) -> Option<Finding> {
    let expected = format!("{} bytes", listed.bytes);
    match *content {
        Content::Absent => Some(Finding::new(
            FindingKind::Missing,
            "file",
            expected,
            "nothing",
        )),
        Content::Other => Some(Finding::new(
            FindingKind::Unreadable,
            "file",
            expected,
            "no regular file",
        )),
        Content::File { bytes, .. } if bytes != listed.bytes => Some(Finding::new(
            FindingKind::Size,
            "size",
            expected,
            format!("{bytes} bytes"),
        )),
        Content::File { sha256, .. } if sha256 != listed.sha256 => Some(Finding::new(
            FindingKind::Digest,
            "sha256",
            listed.sha256,
            sha256,
        )),
        Content::File { .. } => None,
    }
}
