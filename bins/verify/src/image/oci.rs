//! An OCI layout folder: index, manifest and layers, each checked against the digest that names it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use native_manifest::{Digester, Finding, FindingKind, Progress, Sha256Digest};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::args::ImageArgs;
use crate::image::layers::Tree;
use crate::image::listing::{Listing, below};
use crate::image::{Content, ImageError};

/// The limit that registries put on manifests.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// Indexes within indexes.
const MAX_DEPTH: usize = 4;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Clone, Debug, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    layers: Vec<Descriptor>,
}

/// What the image has for each listed path, in the order of the list.
pub(crate) fn contents(
    args: &ImageArgs,
    listing: &Listing,
    progress: &dyn Progress,
) -> Result<Vec<Content>, ImageError> {
    let layout = Layout { root: &args.image };
    let index: Index = layout.index()?;
    let chosen = layout.choose(&index, args)?;
    let manifest: Manifest = layout.document(&chosen)?;
    let bytes = manifest
        .layers
        .iter()
        .fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    progress.started(manifest.layers.len() as u64, bytes);
    let mut tree = Tree::default();
    for layer in &manifest.layers {
        layout.apply(layer, &mut tree, progress)?;
    }
    Ok(listing
        .files
        .iter()
        .map(|listed| tree.content(listed.path.as_str()))
        .collect())
}

struct Layout<'a> {
    root: &'a Path,
}

impl Layout<'_> {
    fn index(&self) -> Result<Index, ImageError> {
        let path = self.root.join("index.json");
        let text = read(&path, MAX_MANIFEST_BYTES)?;
        parse(&path, &text)
    }

    /// The manifest of the image: the one of the digest asked for, or the only one, or the one of the platform.
    fn choose(&self, index: &Index, args: &ImageArgs) -> Result<Descriptor, ImageError> {
        let mut found = match args.digest {
            None => self.of_platform(&index.manifests, args)?,
            Some(digest) => {
                let wanted = format!("sha256:{digest}");
                self.find(&index.manifests, &wanted, 0)?.ok_or_else(|| {
                    let there: Vec<&str> = index
                        .manifests
                        .iter()
                        .map(|found| found.digest.as_str())
                        .collect();
                    let finding = Finding::new(
                        FindingKind::Digest,
                        "image digest",
                        wanted,
                        there.join(", "),
                    );
                    ImageError::refused(finding.in_file("index.json"))
                })?
            }
        };
        for _ in 0..MAX_DEPTH {
            if !is_index(&found) {
                return Ok(found);
            }
            let inner: Index = self.document(&found)?;
            found = self.of_platform(&inner.manifests, args)?;
        }
        Err(self.form("index.json", "indexes lie in each other too deep"))
    }

    /// The descriptor with this digest, here or in an inner index.
    fn find(
        &self,
        manifests: &[Descriptor],
        wanted: &str,
        depth: usize,
    ) -> Result<Option<Descriptor>, ImageError> {
        if let Some(found) = manifests.iter().find(|found| found.digest == wanted) {
            return Ok(Some(found.clone()));
        }
        for inner in manifests
            .iter()
            .filter(|found| is_index(found) && depth < MAX_DEPTH)
        {
            let index: Index = self.document(inner)?;
            if let Some(found) = self.find(&index.manifests, wanted, depth + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn of_platform(
        &self,
        manifests: &[Descriptor],
        args: &ImageArgs,
    ) -> Result<Descriptor, ImageError> {
        if let [only] = manifests {
            return Ok(only.clone());
        }
        let is_wanted = |found: &&Descriptor| {
            found
                .platform
                .as_ref()
                .is_some_and(|p| format!("{}/{}", p.os, p.architecture) == args.platform)
        };
        let mut wanted = manifests.iter().filter(is_wanted);
        match (wanted.next(), wanted.next()) {
            (Some(found), None) => Ok(found.clone()),
            (None, _) => {
                Err(self.form("index.json", &format!("has no image for {}", args.platform)))
            }
            (Some(_), Some(_)) => Err(self.form(
                "index.json",
                &format!(
                    "has several images for {}: name one by --digest",
                    args.platform
                ),
            )),
        }
    }

    /// A JSON blob, after its size and digest were found right.
    fn document<T: DeserializeOwned>(&self, descriptor: &Descriptor) -> Result<T, ImageError> {
        let (name, path) = self.blob(descriptor)?;
        let text = match read(&path, MAX_MANIFEST_BYTES) {
            Err(ImageError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(missing(&name, descriptor));
            }
            read => read?,
        };
        compare(
            &name,
            descriptor,
            text.len() as u64,
            Sha256Digest::of(&text),
        )?;
        parse(&path, &text)
    }

    fn apply(
        &self,
        layer: &Descriptor,
        tree: &mut Tree,
        progress: &dyn Progress,
    ) -> Result<(), ImageError> {
        let (name, path) = self.blob(layer)?;
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(missing(&name, layer));
            }
            opened => opened.map_err(|source| ImageError::Read {
                path: path.clone(),
                source,
            })?,
        };
        let mut blob = Hashing {
            file,
            digester: Digester::new(),
            progress,
        };
        let media_type = layer.media_type.as_str();
        let applied = if media_type.ends_with("+gzip") || media_type.ends_with(".tar.gzip") {
            tree.apply(MultiGzDecoder::new(&mut blob))
        } else if media_type.ends_with(".tar") {
            tree.apply(&mut blob)
        } else {
            return Err(self.form(
                &name,
                &format!("layers of type {media_type} are not read, only tar and tar+gzip"),
            ));
        };
        // A wrong digest says more than the archive error that comes of it.
        io::copy(&mut blob, &mut io::sink()).map_err(|source| ImageError::Read { path, source })?;
        compare(&name, layer, blob.digester.bytes(), blob.digester.finish())?;
        applied.map_err(|error| {
            let finding = Finding::new(
                FindingKind::Schema,
                "layer",
                "an archive that stays in the image",
                error,
            );
            ImageError::refused(finding.in_file(&name))
        })
    }

    /// Name and place of a blob. The digest is checked to be one before it becomes a path.
    fn blob(&self, descriptor: &Descriptor) -> Result<(String, PathBuf), ImageError> {
        let digest = descriptor
            .digest
            .strip_prefix("sha256:")
            .and_then(|text| text.parse::<Sha256Digest>().ok());
        let digest = digest.ok_or_else(|| {
            self.form(
                "index.json",
                &format!(
                    "digest {:?} is not sha256: and 64 digits",
                    descriptor.digest
                ),
            )
        })?;
        let name = format!("blobs/sha256/{digest}");
        let path = below(self.root, &name);
        Ok((name, path))
    }

    fn form(&self, file: &str, reason: &str) -> ImageError {
        ImageError::Form {
            path: below(self.root, file),
            reason: reason.to_owned(),
        }
    }
}

fn is_index(descriptor: &Descriptor) -> bool {
    descriptor.media_type.contains("image.index") || descriptor.media_type.contains("manifest.list")
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ImageError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut text));
    read.map_err(|source| ImageError::Read {
        path: path.to_owned(),
        source,
    })?;
    if text.len() as u64 > limit {
        return Err(ImageError::Form {
            path: path.to_owned(),
            reason: format!("over the limit of {limit} bytes"),
        });
    }
    Ok(text)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(text).map_err(|error| ImageError::Form {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn missing(name: &str, descriptor: &Descriptor) -> ImageError {
    let expected = format!("{} bytes", descriptor.size);
    ImageError::refused(
        Finding::new(FindingKind::Missing, "blob", expected, "nothing").in_file(name),
    )
}

fn compare(
    name: &str,
    descriptor: &Descriptor,
    bytes: u64,
    sha256: Sha256Digest,
) -> Result<(), ImageError> {
    let found = format!("sha256:{sha256}");
    let finding = if bytes != descriptor.size {
        let (expected, found) = (
            format!("{} bytes", descriptor.size),
            format!("{bytes} bytes"),
        );
        Finding::new(FindingKind::Size, "size", expected, found)
    } else if found != descriptor.digest {
        Finding::new(FindingKind::Digest, "sha256", &descriptor.digest, found)
    } else {
        return Ok(());
    };
    Err(ImageError::refused(finding.in_file(name)))
}

/// A file that is hashed as it is read.
struct Hashing<'a> {
    file: File,
    digester: Digester,
    progress: &'a dyn Progress,
}

impl Read for Hashing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.digester.update(&buffer[..read]);
        self.progress.advanced(read as u64);
        Ok(read)
    }
}
