//! Where the files of one commit are.
//!
//! ```text
//! <cache_root>/<owner>/<name>/
//!     <commit>/                      the snapshot: exists only when every file in it is verified
//!     <commit>.inventory             what belongs into it
//!     <commit>.verified              size, time and inode of each verified file
//!     .incomplete/<commit>/files/    verified files of a snapshot that is not whole yet
//!     .incomplete/<commit>/parts/    begun files, each with a journal
//!     .locks/<commit>  .refs/<revision>
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use native_manifest::{CommitId, PackagePath, RepoId, Revision, Sha256Digest};

use crate::error::{FetchError, IoContext};

/// Paths of one commit of one repository.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    package: PathBuf,
    commit: String,
}

impl Layout {
    pub(crate) fn new(cache_root: &Path, repo: &RepoId, commit: &CommitId) -> Self {
        Self {
            package: package_folder(cache_root, repo),
            commit: commit.to_string(),
        }
    }

    pub(crate) fn package(&self) -> &Path {
        &self.package
    }

    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.package.join(&self.commit)
    }

    pub(crate) fn inventory(&self) -> PathBuf {
        self.package.join(format!("{}.inventory", self.commit))
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.package.join(format!("{}.verified", self.commit))
    }

    pub(crate) fn incomplete(&self) -> PathBuf {
        self.package.join(".incomplete").join(&self.commit)
    }

    /// Folder of verified files while the snapshot is not whole.
    pub(crate) fn files(&self) -> PathBuf {
        self.incomplete().join("files")
    }

    /// A begun file and its journal. They are named by the digest of the path: a path that is as long as a file system
    /// allows has no room for an ending, and `a` and `a.part/b` may stand in one package.
    pub(crate) fn part(&self, path: &PackagePath) -> (PathBuf, PathBuf) {
        let name = &Sha256Digest::of(path.as_str().as_bytes()).to_string()[..32];
        let parts = self.incomplete().join("parts");
        (
            parts.join(format!("{name}.part")),
            parts.join(format!("{name}.journal")),
        )
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.package.join(".locks").join(&self.commit)
    }
}

pub(crate) fn package_folder(cache_root: &Path, repo: &RepoId) -> PathBuf {
    cache_root.join(repo.owner()).join(repo.name())
}

/// File that remembers which commit a revision was when it was last resolved. Slashes become `%2F`.
pub(crate) fn reference(cache_root: &Path, repo: &RepoId, revision: &Revision) -> PathBuf {
    let name = revision.as_str().replace('%', "%25").replace('/', "%2F");
    package_folder(cache_root, repo).join(".refs").join(name)
}

/// Creates the folders above `file` that lie below `root`. A symbolic link among them is refused: it could lead
/// anywhere.
pub(crate) fn make_folders(root: &Path, file: &Path) -> Result<(), FetchError> {
    fs::create_dir_all(root).at("creating", root)?;
    let Some(below) = file
        .parent()
        .and_then(|parent| parent.strip_prefix(root).ok())
    else {
        return Err(FetchError::Obstacle {
            path: file.to_owned(),
            reason: "lies outside of the cache",
        });
    };
    let mut folder = root.to_owned();
    for part in below.components() {
        folder.push(part);
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(&folder).at("looking at", &folder)?;
                if !found.is_dir() {
                    return Err(FetchError::Obstacle {
                        path: folder,
                        reason: "is in the way of a folder",
                    });
                }
            }
            Err(e) => return Err(e).at("creating", &folder),
        }
    }
    Ok(())
}

/// Makes the names in a folder survive a power loss.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), FetchError> {
    fs::File::open(folder)
        .and_then(|f| f.sync_all())
        .at("syncing", folder)
}

/// Writes a small file so that its name never stands for half of it.
pub(crate) fn write_whole(root: &Path, path: &Path, bytes: &[u8]) -> Result<(), FetchError> {
    use std::io::Write as _;
    make_folders(root, path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let write = || {
        let mut file = fs::File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().at("writing", &new)?;
    fs::rename(&new, path).at("renaming to", path)
}
