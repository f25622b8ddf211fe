//! The files of a package: a folder, or bytes compiled into a program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::ManifestError;
use crate::map::map_file;
use crate::path::PackagePath;

/// A file compiled into a program: its path in the package, and its bytes.
pub type EmbeddedFile = (&'static str, &'static [u8]);

/// Where a package's files are.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    Folder(PathBuf),
    Embedded(BTreeMap<&'static str, &'static [u8]>),
}

/// What stands at a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// A folder, a pipe, a device.
    NotAFile,
    File {
        bytes: u64,
    },
}

impl Files {
    pub(crate) fn origin(&self) -> String {
        match self {
            Self::Folder(root) => root.display().to_string(),
            Self::Embedded(_) => "the embedded package".to_owned(),
        }
    }

    /// The bytes of a file, mapped where it is on disk.
    pub(crate) fn bytes(&self, path: &PackagePath) -> Result<Bytes, ManifestError> {
        match self {
            Self::Folder(root) => map_file(&path.join_to(root)),
            Self::Embedded(files) => embedded(files, path),
        }
    }

    /// The bytes of a file of at most `limit` bytes, read into memory of their own.
    pub(crate) fn small(&self, path: &PackagePath, limit: u64) -> Result<Bytes, ManifestError> {
        let Self::Folder(root) = self else {
            return self.bytes(path);
        };
        let too_large = |bytes| ManifestError::TooLarge {
            path: path.to_string(),
            bytes,
            limit,
        };
        let full = path.join_to(root);
        match self.look(path)? {
            Found::Nothing => {
                return Err(ManifestError::Absent {
                    path: path.to_string(),
                });
            }
            Found::NotAFile => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
                return Err(ManifestError::io("read", full)(source));
            }
            Found::File { bytes } if bytes > limit => return Err(too_large(bytes)),
            Found::File { .. } => {}
        }
        let mut bytes = Vec::new();
        let file = File::open(&full).map_err(ManifestError::io("open", &full))?;
        // It may have grown since it was looked at.
        let read = file
            .take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(ManifestError::io("read", &full))?;
        if read as u64 > limit {
            return Err(too_large(read as u64));
        }
        Ok(bytes.into())
    }

    pub(crate) fn look(&self, path: &PackagePath) -> Result<Found, ManifestError> {
        match self {
            Self::Folder(root) => {
                let full = path.join_to(root);
                match fs::metadata(&full) {
                    Ok(metadata) if metadata.is_file() => Ok(Found::File {
                        bytes: metadata.len(),
                    }),
                    Ok(_) => Ok(Found::NotAFile),
                    Err(error) if is_absent(&error) => Ok(Found::Nothing),
                    Err(error) => Err(ManifestError::io("look at", full)(error)),
                }
            }
            Self::Embedded(files) => Ok(match files.get(path.as_str()) {
                Some(bytes) => Found::File {
                    bytes: bytes.len() as u64,
                },
                None => Found::Nothing,
            }),
        }
    }

    /// Whether the path, links followed, is still below the package's root. True for what is not there.
    pub(crate) fn stays_inside(&self, path: &PackagePath) -> bool {
        let Self::Folder(root) = self else {
            return true;
        };
        match (root.canonicalize(), path.join_to(root).canonicalize()) {
            (Ok(root), Ok(file)) => file.starts_with(root),
            _ => true,
        }
    }

    /// Every file there is, as text, sorted. Links to folders are listed, not followed.
    pub(crate) fn all(&self) -> Result<Vec<String>, ManifestError> {
        match self {
            Self::Folder(root) => {
                let mut found = Vec::new();
                walk(root, "", &mut found)?;
                found.sort();
                Ok(found)
            }
            Self::Embedded(files) => Ok(files.keys().map(|path| (*path).to_owned()).collect()),
        }
    }
}

fn embedded(
    files: &BTreeMap<&'static str, &'static [u8]>,
    path: &PackagePath,
) -> Result<Bytes, ManifestError> {
    let found = files.get(path.as_str()).copied();
    found
        .map(Bytes::from_static)
        .ok_or_else(|| ManifestError::Absent {
            path: path.to_string(),
        })
}

/// A name below a file is as absent as one that was never there.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn walk(folder: &Path, name: &str, found: &mut Vec<String>) -> Result<(), ManifestError> {
    let failed = || ManifestError::io("list", folder);
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let part = entry.file_name();
        let path = if name.is_empty() {
            part.to_string_lossy().into_owned()
        } else {
            format!("{name}/{}", part.to_string_lossy())
        };
        if entry.file_type().map_err(failed())?.is_dir() {
            walk(&entry.path(), &path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}
