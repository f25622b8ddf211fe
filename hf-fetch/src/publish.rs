//! The moment at which verified files become a snapshot.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::contents::Contents;
use crate::error::{FetchError, IoContext};
use crate::layout::{Layout, make_folders, sync_folder};
use crate::records::Records;

/// Renames the folder of verified files to the snapshot. Before that, all names in it are made to last.
pub(crate) fn publish(
    root: &Path,
    layout: &Layout,
    contents: &Contents,
    records: &Mutex<Records>,
) -> Result<PathBuf, FetchError> {
    let snapshot = layout.snapshot();
    let files = layout.files();
    records
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .compact(root)?;
    if fs::symlink_metadata(&snapshot).is_ok_and(|found| found.is_dir()) {
        return Ok(snapshot);
    }
    make_folders(root, &files.join("x"))?;
    for folder in folders(contents, &files) {
        sync_folder(&folder)?;
    }
    fs::rename(&files, &snapshot).at("renaming to", &snapshot)?;
    sync_folder(layout.package())?;
    // Empty but for parts that nobody needs any more.
    let incomplete = layout.incomplete();
    fs::remove_dir_all(&incomplete).at("removing", &incomplete)?;
    Ok(snapshot)
}

/// Makes a snapshot that lost a file into an incomplete one again, so that a snapshot folder is whole or absent.
pub(crate) fn take_back(root: &Path, layout: &Layout) -> Result<(), FetchError> {
    let files = layout.files();
    make_folders(root, &files)?;
    match fs::remove_dir_all(&files) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e).at("removing", &files),
        _ => {}
    }
    let snapshot = layout.snapshot();
    tracing::warn!(
        commit = layout.commit(),
        "the snapshot lost files; it is withdrawn until they are back"
    );
    fs::rename(&snapshot, &files).at("renaming to", &files)
}

/// All folders that hold files of the package.
fn folders(contents: &Contents, files: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::from([files.to_owned()]);
    for file in &contents.files {
        let path = file.path.join_to(files);
        let above = path
            .ancestors()
            .skip(1)
            .take_while(|folder| *folder != files);
        folders.extend(above.map(Path::to_owned));
    }
    folders
}
