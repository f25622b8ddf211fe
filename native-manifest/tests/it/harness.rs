//! A package in a folder of its own, and short ways to ask about it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use native_manifest::testing::write_package;
use native_manifest::{Finding, FindingKind, ManifestError, Report, Snapshot, VerifyOptions};
use tempfile::TempDir;

/// The small package, in a temporary folder.
pub(crate) struct Package {
    folder: TempDir,
}

impl Package {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files() {
            let path = folder.path().join("package").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("package")
    }

    /// The folder that the package is in.
    pub(crate) fn parent(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root().join(file)
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.path(file)).unwrap()
    }

    pub(crate) fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(file), bytes).unwrap();
    }

    pub(crate) fn open(&self) -> Result<Snapshot<native_manifest::Claimed>, ManifestError> {
        Snapshot::open(self.root())
    }

    /// Everything that the strictest check finds.
    pub(crate) fn report(&self) -> Report {
        self.open().unwrap().examine(&strict(), &()).unwrap()
    }

    /// As [`report`](Self::report), which must be of one finding.
    #[track_caller]
    pub(crate) fn only_finding(&self) -> Finding {
        let report = self.report();
        assert_eq!(report.findings.len(), 1, "{:#?}", report.findings);
        report.findings.into_iter().next().unwrap()
    }

    #[track_caller]
    pub(crate) fn expect_finding(&self, kind: FindingKind, file: &str, field: &str) -> Finding {
        let report = self.report();
        let found = report.findings.iter().find(|finding| {
            finding.kind == kind && finding.file.as_deref() == Some(file) && finding.field == field
        });
        found
            .unwrap_or_else(|| panic!("no {kind:?} of {file} {field} in {:#?}", report.findings))
            .clone()
    }
}

pub(crate) fn strict() -> VerifyOptions {
    VerifyOptions {
        publication: true,
        canonical: true,
        refuse_links_out: true,
        known: None,
    }
}

/// The files of the package. They are written once by the writer, which waits for the disk, and copied from then on.
fn files() -> &'static [(PathBuf, Vec<u8>)] {
    static FILES: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("package");
        write_package(&root).unwrap();
        let mut files = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
            {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push((
                        path.strip_prefix(&root).unwrap().to_owned(),
                        fs::read(&path).unwrap(),
                    ));
                }
            }
        }
        files
    })
}
