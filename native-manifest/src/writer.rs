//! Writing a package: beside its target, file by file, and into place when it is whole.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{Digester, Sha256Digest};
use crate::error::ManifestError;
use crate::files::Files;
use crate::inventory::{Entry, Inventory};
use crate::json::to_json;
use crate::path::PackagePath;
use crate::schema::{
    CHECKPOINT, MANIFEST_FILE, NativeManifest, PUBLICATION_FILE, Publication, RELEASE_FILE,
    RuntimeRelease, SUMS_FILE,
};
use crate::sums::Sha256Sums;

/// In the folder beside the target: the files of the package, and the list of those that are finished.
const PACKAGE: &str = "package";
const JOURNAL: &str = "journal";
/// The file that is being written.
const PART: &str = "part";

/// Fills a folder beside the target and renames it when it is whole, so that the target is never a partial package.
///
/// The folder is `<target>.partial`. A writer that is opened on what an earlier one left goes on from there: files that
/// were finished from the same input are not made again. Only one writer works on a target at a time.
///
/// ```no_run
/// use native_manifest::{Colophon, ManifestError, PackageWriter};
///
/// fn make(colophon: Colophon) -> Result<(), ManifestError> {
///     let mut writer = PackageWriter::open("out/package")?;
///     let config = writer.add_bytes("checkpoint/config.json".parse()?, b"{}\n")?;
///     let (path, made_from) = ("checkpoint/tensors/a.tensorbin".parse()?, "digest of the source");
///     let tensor = match writer.finished(&path, made_from) {
///         Some(entry) => entry.clone(),
///         None => writer.add(path, made_from, |sink| sink.write(b"bytes, piece by piece"))?,
///     };
///     writer.finish(vec![config, tensor], colophon)?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct PackageWriter {
    target: PathBuf,
    folder: PathBuf,
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

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Done(Done),
    /// What was said of this file before no longer holds.
    Void {
        void: PackagePath,
    },
}

/// What the package says besides its files.
#[derive(Clone, Debug)]
pub struct Colophon {
    /// Release identity; inventory and totals are filled in.
    pub release: RuntimeRelease,
    /// Tensors and model identity.
    pub manifest: NativeManifest,
}

impl PackageWriter {
    /// Opens the folder beside `target`, new or left by an earlier writer.
    ///
    /// # Errors
    /// [`ManifestError::Writer`] when the target is there already or another writer has it; [`ManifestError::Io`].
    pub fn open(target: impl AsRef<Path>) -> Result<Self, ManifestError> {
        let target = target.as_ref().to_owned();
        let refused = |reason| ManifestError::Writer {
            subject: target.display().to_string(),
            reason,
        };
        let Some(name) = target.file_name() else {
            return Err(refused("the target must be a folder that can be made"));
        };
        let mut folder_name = name.to_owned();
        folder_name.push(".partial");
        let folder = target.with_file_name(folder_name);
        let staging = folder.join(PACKAGE);
        let is_there = || target.symlink_metadata().is_ok();
        if is_there() {
            return Err(refused("the target is there already"));
        }
        fs::create_dir_all(&staging).map_err(ManifestError::io("make", &staging))?;
        let path = folder.join(JOURNAL);
        let options = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let mut journal = options.map_err(ManifestError::io("open", &path))?;
        match journal.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(refused("another writer works on the target"));
            }
            Err(TryLockError::Error(error)) => return Err(ManifestError::io("lock", &path)(error)),
        }
        // A writer that finished meanwhile has made the target and removed what was opened here.
        if is_there() {
            return Err(refused("the target is there already"));
        }
        let mut text = Vec::new();
        journal
            .read_to_end(&mut text)
            .map_err(ManifestError::io("read", &path))?;
        let done = finished_files(&text, &staging);
        // A line that a kill cut short must not swallow the next one.
        if text.last().is_some_and(|last| *last != b'\n') {
            journal
                .write_all(b"\n")
                .map_err(ManifestError::io("write", &path))?;
        }
        Ok(Self {
            target,
            folder,
            staging,
            journal,
            done,
        })
    }

    /// The entry of a file that is finished already, if it was made from the same.
    pub fn finished(&self, path: &PackagePath, made_from: &str) -> Option<&Entry> {
        self.done
            .get(path)
            .filter(|done| done.made_from == made_from)
            .map(|done| &done.entry)
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
        // From here on until the next line the old word would be about new bytes.
        if self.done.remove(&path).is_some() {
            self.note(&Line::Void { void: path.clone() })?;
        }
        let part = self.folder.join(PART);
        let out = File::create(&part).map_err(ManifestError::io("make", &part))?;
        let out = BufWriter::with_capacity(1 << 20, out);
        let digester = Digester::new();
        let mut sink = FileSink {
            out,
            path: part,
            digester,
        };
        write(&mut sink)?;
        let FileSink {
            out,
            path: part,
            digester,
        } = sink;
        let out = out
            .into_inner()
            .map_err(|error| ManifestError::io("write", &part)(error.into_error()))?;
        out.sync_all().map_err(ManifestError::io("flush", &part))?;
        fs::rename(&part, &file).map_err(ManifestError::io("rename", &part))?;
        let entry = Entry {
            path: path.clone(),
            bytes: digester.bytes(),
            sha256: digester.finish(),
        };
        let done = Done {
            entry: entry.clone(),
            made_from: made_from.to_owned(),
        };
        self.note(&Line::Done(done.clone()))?;
        self.done.insert(path, done);
        Ok(entry)
    }

    /// Adds a line to the journal, and waits until it is on disk.
    fn note(&mut self, line: &Line) -> Result<(), ManifestError> {
        let mut text = serde_json::to_vec(line).map_err(|error| ManifestError::Json {
            path: JOURNAL.to_owned(),
            field: ".".to_owned(),
            reason: error.to_string(),
        })?;
        text.push(b'\n');
        let journal = self.folder.join(JOURNAL);
        self.journal
            .write_all(&text)
            .map_err(ManifestError::io("write", &journal))?;
        self.journal
            .sync_all()
            .map_err(ManifestError::io("flush", &journal))
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
    /// [`ManifestError::SameName`] and kin for files that cannot stand together, [`ManifestError::Io`].
    pub fn finish(
        mut self,
        mut files: Vec<Entry>,
        colophon: Colophon,
    ) -> Result<Inventory, ManifestError> {
        let Colophon {
            mut release,
            manifest,
        } = colophon;
        files.push(self.add_bytes(MANIFEST_FILE.parse()?, &to_json(&manifest)?)?);
        let below = |entry: &&Entry| entry.path.strip_folder(CHECKPOINT).is_some();
        release.inventory = Inventory::new(files.iter().filter(below).cloned().collect())?.sorted();
        release.totals = Some(release.inventory.totals());
        files.push(self.add_bytes(RELEASE_FILE.parse()?, &to_json(&release)?)?);
        let publication = Publication::of(&release.release, Inventory::new(files)?.sorted());
        let json = to_json(&publication)?;
        let listed = self.add_bytes(PUBLICATION_FILE.parse()?, &json)?;
        let sums = Sha256Sums::of(&publication.inventory).with(listed.path.clone(), listed.sha256);
        self.add_bytes(SUMS_FILE.parse()?, sums.to_text().as_bytes())?;
        let mut keep: Vec<PackagePath> = publication
            .inventory
            .entries()
            .iter()
            .map(|entry| entry.path.clone())
            .collect();
        keep.extend([listed.path, SUMS_FILE.parse()?]);
        self.remove_leftovers(&keep)?;
        sync_folders(&self.staging)?;
        fs::rename(&self.staging, &self.target)
            .map_err(ManifestError::io("rename", &self.staging))?;
        if let Some(parent) = self
            .target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            sync_folder(parent)?;
        }
        self.remove_folder();
        Ok(publication.inventory)
    }

    /// The package is whole and in its place. What is left beside it is of no use to anybody, and harms nobody.
    fn remove_folder(&self) {
        for file in [PART, JOURNAL] {
            match fs::remove_file(self.folder.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(folder = %self.folder.display(), file, %error, "cannot remove");
                }
                _ => {}
            }
        }
        if let Err(error) = fs::remove_dir(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot remove");
        }
    }

    fn remove_leftovers(&self, keep: &[PackagePath]) -> Result<(), ManifestError> {
        let files = Files::Folder(self.staging.clone());
        let keep: HashSet<&str> = keep.iter().map(PackagePath::as_str).collect();
        for path in files
            .all()?
            .iter()
            .filter(|path| !keep.contains(path.as_str()))
        {
            let file = self.staging.join(path);
            fs::remove_file(&file).map_err(ManifestError::io("remove", &file))?;
        }
        Ok(())
    }
}

/// The files of a journal that are still there. A line that was cut short by a kill is not one; its file is made again.
fn finished_files(journal: &[u8], staging: &Path) -> BTreeMap<PackagePath, Done> {
    let mut done = BTreeMap::new();
    for line in journal.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Line::Done(line)) => {
                done.insert(line.entry.path.clone(), line);
            }
            Ok(Line::Void { void }) => {
                done.remove(&void);
            }
            Err(_) => {}
        }
    }
    done.retain(|path, done| {
        fs::metadata(path.join_to(staging)).is_ok_and(|found| found.len() == done.entry.bytes)
    });
    done
}

/// Where the bytes of one file go; they are hashed on the way.
#[derive(Debug)]
pub struct FileSink {
    out: BufWriter<File>,
    path: PathBuf,
    digester: Digester,
}

impl FileSink {
    /// Appends bytes.
    ///
    /// # Errors
    /// [`ManifestError::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ManifestError> {
        self.digester.update(bytes);
        self.out
            .write_all(bytes)
            .map_err(ManifestError::io("write", &self.path))
    }
}

/// Makes the renames in a folder and below durable.
fn sync_folders(folder: &Path) -> Result<(), ManifestError> {
    for entry in fs::read_dir(folder).map_err(ManifestError::io("list", folder))? {
        let entry = entry.map_err(ManifestError::io("list", folder))?;
        if entry
            .file_type()
            .map_err(ManifestError::io("look at", entry.path()))?
            .is_dir()
        {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Makes renames in a folder durable, where the system can.
fn sync_folder(folder: &Path) -> Result<(), ManifestError> {
    if cfg!(unix) {
        let opened = File::open(folder).map_err(ManifestError::io("open", folder))?;
        opened
            .sync_all()
            .map_err(ManifestError::io("flush", folder))?;
    }
    Ok(())
}
