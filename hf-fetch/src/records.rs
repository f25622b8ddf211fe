//! What is known to be verified, so that a warm start need not hash gigabytes.
//!
//! One line of JSON a file: path, size, modification time, inode and digest. Lines are appended as files are finished; a
//! line that was cut by a crash is ignored, and the last line of a path counts.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use native_manifest::PackagePath;
use serde::{Deserialize, Serialize};

use crate::error::{FetchError, IoContext};
use crate::layout::{make_folders, write_whole};

/// The state of a file when its digest was last computed and found right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    path: PackagePath,
    bytes: u64,
    mtime_s: i64,
    mtime_ns: i64,
    inode: u64,
    digest: String,
}

impl Record {
    fn new(path: &PackagePath, found: &Metadata, digest: &str) -> Self {
        Self {
            path: path.clone(),
            bytes: found.len(),
            mtime_s: found.mtime(),
            mtime_ns: found.mtime_nsec(),
            inode: found.ino(),
            digest: digest.to_owned(),
        }
    }
}

/// All records of one commit.
#[derive(Debug)]
pub(crate) struct Records {
    file: PathBuf,
    known: HashMap<PackagePath, Record>,
    appending: Option<File>,
}

impl Records {
    /// Reads the records in `file`. None of them can be read: then all files are hashed again, nothing worse.
    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read(file).unwrap_or_else(|error| {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(file = %file.display(), %error, "the records of verified files cannot be read");
            }
            Vec::new()
        });
        let mut known = HashMap::new();
        for line in text.split(|byte| *byte == b'\n') {
            if let Ok(record) = serde_json::from_slice::<Record>(line) {
                known.insert(record.path.clone(), record);
            }
        }
        Self {
            file: file.to_owned(),
            known,
            appending: None,
        }
    }

    /// Whether the file as found is the one that was verified against `digest`.
    pub(crate) fn vouch_for(&self, path: &PackagePath, found: &Metadata, digest: &str) -> bool {
        self.known
            .get(path)
            .is_some_and(|known| *known == Record::new(path, found, digest))
    }

    /// Takes down that the file as found was verified.
    pub(crate) fn add(
        &mut self,
        root: &Path,
        path: &PackagePath,
        found: &Metadata,
        digest: &str,
    ) -> Result<(), FetchError> {
        let record = Record::new(path, found, digest);
        let mut line = line(&record);
        let appending = match &mut self.appending {
            Some(file) => file,
            none => {
                make_folders(root, &self.file)?;
                let nofollow = crate::part::nofollow();
                let mut file = append(&self.file, nofollow).at("opening", &self.file)?;
                // A line that a crash cut short must not swallow the next one.
                file.write_all(b"\n").at("writing", &self.file)?;
                none.insert(file)
            }
        };
        line.push('\n');
        appending
            .write_all(line.as_bytes())
            .at("writing", &self.file)?;
        self.known.insert(record.path.clone(), record);
        Ok(())
    }

    /// Writes the file anew, one line a path.
    pub(crate) fn compact(&mut self, root: &Path) -> Result<(), FetchError> {
        let mut lines: Vec<String> = self.known.values().map(line).collect();
        lines.sort_unstable();
        self.appending = None;
        write_whole(root, &self.file, (lines.join("\n") + "\n").as_bytes())
    }
}

fn append(file: &Path, nofollow: i32) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(nofollow)
        .open(file)
}

fn line(record: &Record) -> String {
    // A struct of numbers and strings always becomes JSON.
    serde_json::to_string(record).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> PackagePath {
        PackagePath::parse(text).unwrap()
    }

    #[test]
    fn a_record_holds_for_the_very_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, b"one").unwrap();
        let found = fs::metadata(&file).unwrap();
        let mut records = Records::read(&folder.path().join("x.verified"));
        records
            .add(folder.path(), &path("a"), &found, "d1")
            .unwrap();
        assert!(records.vouch_for(&path("a"), &found, "d1"));
        assert!(!records.vouch_for(&path("a"), &found, "d2"));
        assert!(!records.vouch_for(&path("b"), &found, "d1"));
        // The same bytes in another file: another inode.
        let copy = folder.path().join("copy");
        fs::copy(&file, &copy).unwrap();
        assert!(!records.vouch_for(&path("a"), &fs::metadata(&copy).unwrap(), "d1"));
        // The same file with another time.
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        assert!(!records.vouch_for(&path("a"), &fs::metadata(&file).unwrap(), "d1"));
    }

    #[test]
    fn a_line_that_a_crash_cut_is_ignored_and_costs_no_other_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.verified");
        let found = fs::metadata(folder.path()).unwrap();
        let mut records = Records::read(&file);
        records.add(folder.path(), &path("a"), &found, "d").unwrap();
        records.add(folder.path(), &path("b"), &found, "d").unwrap();
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            let mut records = Records::read(&file);
            records.add(folder.path(), &path("c"), &found, "d").unwrap();
            let again = Records::read(&file);
            assert!(again.vouch_for(&path("c"), &found, "d"), "cut at {cut}");
        }
    }

    #[test]
    fn compacting_keeps_the_last_line_of_each_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.verified");
        let found = fs::metadata(folder.path()).unwrap();
        let mut records = Records::read(&file);
        for digest in ["d1", "d2"] {
            records
                .add(folder.path(), &path("a"), &found, digest)
                .unwrap();
        }
        records.compact(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1);
        assert!(Records::read(&file).vouch_for(&path("a"), &found, "d2"));
    }
}
