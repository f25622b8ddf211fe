//! Writing a package: beside its target, file by file, and into place when it is whole.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{Digester, Sha256Digest};
use crate::error::ManifestError;
use crate::inventory::{Entry, Inventory};
use crate::path::PackagePath;
use crate::json::to_json;
use crate::schema::{
    CHECKPOINT, MANIFEST_FILE, NativeManifest, PUBLICATION_FILE, Publication, RELEASE_FILE, RuntimeRelease, SUMS_FILE,
};
use crate::sums::Sha256Sums;

/// The list of finished files, in the folder that is being filled.
const JOURNAL: &str = ".journal";

/// Fills a folder beside the target and renames it when it is whole, so that the target is never a partial package.
///
/// A writer that is opened on what an earlier one left goes on from there: files that were finished from the same input
/// are not made again. Only one writer works on a target at a time.
#[derive(Debug)]
pub struct PackageWriter {
    target: PathBuf,
    staging: PathBuf,
    /// Locked while this lives.
    journal: File,
    done: BTreeMap<PackagePath, Done>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done {
    #[serde(flatten)]
    entry: Entry,
    /// What it was made from, in the words of the caller.
    made_from: String,
}

/// What the package says besides its tensors.
#[derive(Clone, Debug)]
pub struct Colophon {
    /// Release identity; its inventory is filled in.
    pub release: RuntimeRelease,
    /// Tensors and model identity.
    pub manifest: NativeManifest,
}

impl PackageWriter {
    /// Opens the folder beside `target`, new or left by an earlier writer.
    ///
    /// # Errors
    /// [`ManifestError::Writer`] when the target is there already or another writer has it;
    /// [`ManifestError::Io`].
    pub fn open(target: impl AsRef<Path>) -> Result<Self, ManifestError> {
        let target = target.as_ref().to_owned();
        let refused = |reason| ManifestError::Writer { subject: target.display().to_string(), reason };
        if target.symlink_metadata().is_ok() {
            return Err(refused("the target is there already"));
        }
        let Some(name) = target.file_name() else {
            return Err(refused("the target must be a folder that can be made"));
        };
        let mut staging_name = name.to_owned();
        staging_name.push(".partial");
        let staging = target.with_file_name(staging_name);
        fs::create_dir_all(&staging).map_err(ManifestError::io("make", &staging))?;
        let path = staging.join(JOURNAL);
        let options = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let journal = options.map_err(ManifestError::io("open", &path))?;
        if journal.try_lock().is_err() {
            return Err(refused("another process writes the target"));
        }
        let text = fs::read_to_string(&path).map_err(ManifestError::io("read", &path))?;
        let mut done = BTreeMap::new();
        // A line that was cut short by a kill is the last one; its file is made again.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Done>(line).ok()) {
            let there = fs::metadata(line.entry.path.join_to(&staging)).is_ok_and(|m| m.len() == line.entry.bytes);
            if there {
                done.insert(line.entry.path.clone(), line);
            }
        }
        Ok(Self { target, staging, journal, done })
    }

    /// The entry of a file that is finished already, if it was made from the same.
    pub fn finished(&self, path: &PackagePath, made_from: &str) -> Option<&Entry> {
        self.done.get(path).filter(|done| done.made_from == made_from).map(|done| &done.entry)
    }

    /// Adds a file: `write` gets a sink for its bytes. The file appears under its name when it is whole and on disk.
    ///
    /// # Errors
    /// What `write` says, and [`ManifestError::Io`].
    pub fn add<E: From<ManifestError>>(
        &mut self,
        path: PackagePath,
        made_from: &str,
        write: impl FnOnce(&mut FileSink) -> Result<(), E>,
    ) -> Result<Entry, E> {
        let file = path.join_to(&self.staging);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(ManifestError::io("make", folder))?;
        }
        let mut part = file.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let out = File::create(&part).map_err(ManifestError::io("make", &part))?;
        let mut sink = FileSink { out: BufWriter::with_capacity(1 << 20, out), digester: Digester::new() };
        write(&mut sink)?;
        let FileSink { out, digester } = sink;
        let out = out.into_inner().map_err(|error| ManifestError::io("write", &part)(error.into_error()))?;
        out.sync_all().map_err(ManifestError::io("flush", &part))?;
        fs::rename(&part, &file).map_err(ManifestError::io("rename", &part))?;
        let entry = Entry { path: path.clone(), bytes: digester.bytes(), sha256: digester.finish() };
        let done = Done { entry: entry.clone(), made_from: made_from.to_owned() };
        let mut line = serde_json::to_vec(&done).map_err(|error| ManifestError::Json {
            path: JOURNAL.to_owned(),
            field: ".".to_owned(),
            reason: error.to_string(),
        })?;
        line.push(b'\n');
        let journal = self.staging.join(JOURNAL);
        self.journal.write_all(&line).map_err(ManifestError::io("write", &journal))?;
        self.journal.sync_all().map_err(ManifestError::io("flush", &journal))?;
        self.done.insert(path, done);
        Ok(entry)
    }

    /// [`add`](Self::add) of bytes at hand.
    ///
    /// # Errors
    /// [`ManifestError::Io`].
    pub fn add_bytes(&mut self, path: PackagePath, bytes: &[u8]) -> Result<Entry, ManifestError> {
        let made_from = Sha256Digest::of(bytes).to_string();
        if let Some(entry) = self.finished(&path, &made_from) {
            return Ok(entry.clone());
        }
        self.add(path, &made_from, |sink| sink.write(bytes))
    }

    /// Writes the manifests over `files` (what belongs to the package; leftovers of an earlier plan are removed) and
    /// moves the package to its target.
    ///
    /// # Errors
    /// [`ManifestError::Writer`] when a file outside `checkpoint/` is to be run, [`ManifestError::Io`].
    pub fn finish(mut self, files: Vec<Entry>, colophon: Colophon) -> Result<Inventory, ManifestError> {
        let Colophon { mut release, manifest } = colophon;
        let mut files = files;
        files.push(self.add_bytes(MANIFEST_FILE.parse()?, &to_json(&manifest)?)?);
        let below = |entry: &&Entry| entry.path.strip_folder(CHECKPOINT).is_some();
        release.inventory = Inventory::new(files.iter().filter(below).cloned().collect())?.sorted();
        files.push(self.add_bytes(RELEASE_FILE.parse()?, &to_json(&release)?)?);
        let publication = Publication::of(&release.release, Inventory::new(files)?.sorted());
        let json = to_json(&publication)?;
        let listed = self.add_bytes(PUBLICATION_FILE.parse()?, &json)?;
        let sums = Sha256Sums::of(&publication.inventory).with(listed.path.clone(), listed.sha256);
        self.add_bytes(SUMS_FILE.parse()?, sums.to_text().as_bytes())?;
        let mut keep: Vec<PackagePath> = publication.inventory.entries().iter().map(|entry| entry.path.clone()).collect();
        keep.extend([listed.path, SUMS_FILE.parse()?]);
        self.remove_leftovers(&keep)?;
        let journal = self.staging.join(JOURNAL);
        fs::remove_file(&journal).map_err(ManifestError::io("remove", &journal))?;
        sync_folder(&self.staging)?;
        fs::rename(&self.staging, &self.target).map_err(ManifestError::io("rename", &self.staging))?;
        if let Some(parent) = self.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent)?;
        }
        Ok(publication.inventory)
    }

    fn remove_leftovers(&self, keep: &[PackagePath]) -> Result<(), ManifestError> {
        let files = crate::files::Files::Folder(self.staging.clone());
        for path in files.all()? {
            if path != JOURNAL && !keep.iter().any(|kept| kept.as_str() == path) {
                let file = self.staging.join(&path);
                fs::remove_file(&file).map_err(ManifestError::io("remove", &file))?;
            }
        }
        Ok(())
    }
}

/// Where the bytes of one file go; they are hashed on the way.
#[derive(Debug)]
pub struct FileSink {
    out: BufWriter<File>,
    digester: Digester,
}

impl FileSink {
    /// Appends bytes.
    ///
    /// # Errors
    /// [`ManifestError::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ManifestError> {
        self.digester.update(bytes);
        self.out.write_all(bytes).map_err(ManifestError::io("write", "a file of the package"))
    }
}

/// Makes renames in a folder durable, where the system can.
fn sync_folder(folder: &Path) -> Result<(), ManifestError> {
    if cfg!(unix) {
        let opened = File::open(folder).map_err(ManifestError::io("open", folder))?;
        opened.sync_all().map_err(ManifestError::io("flush", folder))?;
    }
    Ok(())
}
