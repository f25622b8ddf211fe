//! What a check found.

use std::fmt;

use serde::Serialize;

/// The outcome of a check: what was looked at, and everything that was wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Files whose bytes were hashed.
    pub files: u64,
    /// Bytes hashed.
    pub bytes: u64,
    /// Tensors whose headers were compared.
    pub tensors: u64,
    /// Everything wrong, ordered by file, tensor, kind and field.
    pub findings: Vec<Finding>,
}

/// One thing that is not as claimed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The file it is about, relative to the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The tensor it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// The kind of fault.
    pub kind: FindingKind,
    /// The field or property that differs.
    pub field: String,
    /// What the package claims, or the rules ask for.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// Kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Stored codes that no encoder writes.
    Codes,
    /// Two manifests of the package disagree.
    Conflict,
    /// The digest of a file or tensor differs.
    Digest,
    /// Something is named twice.
    Duplicate,
    /// There is a file that no inventory lists.
    Extra,
    /// The header of a tensor file does not fit its manifest entry.
    Header,
    /// A link leads out of the package.
    Link,
    /// A file or tensor that must be there is not.
    Missing,
    /// A manifest entry contradicts itself or the format.
    Schema,
    /// The size of a file differs.
    Size,
    /// A total is not the sum of its parts.
    Total,
    /// A file cannot be read, or is no regular file.
    Unreadable,
}

/// Coarse grouping of [`FindingKind`], as download tools report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingClass {
    /// A file that should not be there.
    Extra,
    /// There, and not as claimed.
    Mismatch,
    /// Not there.
    Missing,
}

impl FindingKind {
    /// The group that this kind belongs to.
    pub const fn class(self) -> FindingClass {
        match self {
            Self::Extra => FindingClass::Extra,
            Self::Missing => FindingClass::Missing,
            _ => FindingClass::Mismatch,
        }
    }

    /// The name used in JSON and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Codes => "codes",
            Self::Conflict => "conflict",
            Self::Digest => "digest",
            Self::Duplicate => "duplicate",
            Self::Extra => "extra",
            Self::Header => "header",
            Self::Link => "link",
            Self::Missing => "missing",
            Self::Schema => "schema",
            Self::Size => "size",
            Self::Total => "total",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Finding {
    /// A finding about no file or tensor in particular.
    pub fn new(
        kind: FindingKind,
        field: impl Into<String>,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        Self {
            file: None,
            tensor: None,
            kind,
            field: field.into(),
            expected,
            found,
        }
    }

    /// The same, about this file.
    #[must_use]
    pub fn in_file(mut self, file: impl fmt::Display) -> Self {
        self.file = Some(file.to_string());
        self
    }

    /// The same, about this tensor.
    #[must_use]
    pub fn of_tensor(mut self, tensor: impl Into<String>) -> Self {
        self.tensor = Some(tensor.into());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind.name())?;
        if let Some(file) = &self.file {
            write!(f, " file {file:?}")?;
        }
        if let Some(tensor) = &self.tensor {
            write!(f, " tensor {tensor:?}")?;
        }
        write!(
            f,
            " {}: expected {}, found {}",
            self.field, self.expected, self.found
        )
    }
}

impl Report {
    /// True when nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// The number of findings of a group.
    pub fn count(&self, class: FindingClass) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.kind.class() == class)
            .count()
    }

    /// The number of findings and the first of them, on one line.
    pub fn summary(&self) -> String {
        match self.findings.as_slice() {
            [] => "no findings".to_owned(),
            [only] => only.to_string(),
            [first, rest @ ..] => format!("{first}; and {} more", rest.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_tensor_field_and_both_sides() {
        let finding = Finding::new(FindingKind::Header, "dtype", "bfp4", "bfp8")
            .in_file("a.tensorbin")
            .of_tensor("w");
        assert_eq!(
            finding.to_string(),
            "header: file \"a.tensorbin\" tensor \"w\" dtype: expected bfp4, found bfp8"
        );
    }

    #[test]
    fn findings_are_counted_by_class() {
        let of = |kind| Finding::new(kind, "f", 1, 2);
        let findings = vec![
            of(FindingKind::Extra),
            of(FindingKind::Missing),
            of(FindingKind::Digest),
        ];
        let report = Report {
            findings,
            ..Report::default()
        };
        assert_eq!(report.count(FindingClass::Mismatch), 1);
        assert!(report.summary().ends_with("and 2 more"));
    }

    #[test]
    fn names_in_json_and_text_agree() {
        for kind in [
            FindingKind::Codes,
            FindingKind::Extra,
            FindingKind::Unreadable,
            FindingKind::Total,
        ] {
            assert_eq!(
                serde_json::to_string(&kind).unwrap(),
                format!("\"{}\"", kind.name())
            );
        }
    }
}
