//! An unpacked root file system. Links are followed as the container would: inside the root, and never out of it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use native_manifest::{Digester, Progress};
use rayon::prelude::*;

use crate::image::listing::Listing;
use crate::image::{Content, ImageError};

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;
const PIECE: usize = 1 << 20;

/// What the file system has for each listed path, in the order of the list.
pub(crate) fn contents(
    root: &Path,
    listing: &Listing,
    progress: &dyn Progress,
) -> Result<Vec<Content>, ImageError> {
    let failed = |path: &Path, source| ImageError::Read {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(root)
        .map_err(|source| failed(root, source))?
        .is_dir()
    {
        return Err(ImageError::Form {
            path: root.to_owned(),
            reason: "is no folder".to_owned(),
        });
    }
    let bytes = listing
        .files
        .iter()
        .fold(0_u64, |sum, listed| sum.saturating_add(listed.bytes));
    progress.started(listing.files.len() as u64, bytes);
    let contents = listing.files.par_iter().with_max_len(1).map(|listed| {
        let resolved =
            resolve(root, listed.path.as_str()).map_err(|source| failed(root, source))?;
        let Resolved::Path(path) = resolved else {
            return Ok(Content::Other);
        };
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                hash(&path, listed.bytes, metadata.len(), progress)
                    .map_err(|source| failed(&path, source))
            }
            Ok(_) => Ok(Content::Other),
            Err(error) if is_absent(&error) => Ok(Content::Absent),
            Err(error) => Err(failed(&path, error)),
        }
    });
    contents.collect()
}

/// A file of another size than listed is not read: its digest would say nothing more.
fn hash(path: &Path, listed: u64, bytes: u64, progress: &dyn Progress) -> io::Result<Content> {
    let mut digester = Digester::new();
    if bytes == listed {
        let mut file = File::open(path)?;
        let mut piece = vec![0; PIECE];
        loop {
            let read = io::Read::read(&mut file, &mut piece)?;
            if read == 0 {
                break;
            }
            digester.update(&piece[..read]);
            progress.advanced(read as u64);
        }
        return Ok(Content::File {
            bytes: digester.bytes(),
            sha256: digester.finish(),
        });
    }
    Ok(Content::File {
        bytes,
        sha256: digester.finish(),
    })
}

enum Resolved {
    /// A path with no link in it, which may have nothing at it.
    Path(PathBuf),
    Circle,
}

/// Walks `relative` from `root` as a process would whose root it is: an absolute link starts at `root` again, and `..`
/// stays there.
fn resolve(root: &Path, relative: &str) -> io::Result<Resolved> {
    let mut rest: VecDeque<OsString> = relative.split('/').map(OsString::from).collect();
    let mut at: Vec<OsString> = Vec::new();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let here: PathBuf = root
            .iter()
            .map(OsString::from)
            .chain(at.iter().cloned())
            .chain([part.clone()])
            .collect();
        match fs::symlink_metadata(&here) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(Resolved::Circle);
                }
                let target = fs::read_link(&here)?;
                if target.has_root() {
                    at.clear();
                }
                for component in target.components().rev() {
                    match component {
                        Component::Normal(part) => rest.push_front(part.to_owned()),
                        Component::ParentDir => rest.push_front("..".into()),
                        Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
                    }
                }
            }
            Ok(_) => at.push(part),
            Err(error) if is_absent(&error) => at.push(part),
            Err(error) => return Err(error),
        }
    }
    Ok(Resolved::Path(
        root.iter().map(OsString::from).chain(at).collect(),
    ))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_inside_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("usr/lib")).unwrap();
        fs::write(root.join("usr/lib/a"), "inside").unwrap();
        fs::write(folder.path().join("a"), "outside").unwrap();
        symlink("/usr/lib", root.join("lib")).unwrap();
        symlink("../../../../../a", root.join("usr/lib/up")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        let path = |text| match resolve(&root, text).unwrap() {
            Resolved::Path(path) => path,
            Resolved::Circle => PathBuf::from("circle"),
        };
        assert_eq!(path("lib/a"), root.join("usr/lib/a"));
        assert_eq!(path("usr/lib/up"), root.join("a"));
        assert_eq!(path("lib/up"), root.join("a"));
        assert_eq!(path("circle"), PathBuf::from("circle"));
        assert_eq!(path("no/such"), root.join("no/such"));
    }
}
