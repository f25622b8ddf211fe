//! Tensors that the card's runtime has converted: a folder apart from the packages, one a set of weights, runtime and chip.
//!
//! A converted tensor is only good for the bytes it was made from, as that dtype and layout, by that runtime, for that chip. The
//! manifest's digest names the first three for every tensor, the image's digest the runtime. All of them are in the
//! folder's name, so a change of any finds an empty folder and no stale tensor.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use native_manifest::Sha256Digest;

use crate::error::LaunchError;

/// What a converted tensor depends on.
#[derive(Clone, Debug)]
pub(crate) struct Key<'a> {
    /// SHA-256 of `native-manifest.json`, which names every tensor's bytes, dtype and layout.
    pub(crate) manifest: Sha256Digest,
    /// The runtime image.
    pub(crate) image: &'a str,
    /// The chip.
    pub(crate) architecture: &'a str,
}

impl Key<'_> {
    fn folder_name(&self) -> String {
        let text = format!("{}\n{}\n{}\n", self.manifest, self.image, self.architecture);
        Sha256Digest::of(text.as_bytes()).to_string()[..32].to_owned()
    }

    fn note(&self) -> String {
        let (manifest, image, architecture) =
            (self.manifest.to_string(), self.image, self.architecture);
        serde_json::json!({"manifest_sha256": manifest, "image": image, "architecture": architecture}).to_string()
    }
}

/// The folder for the key, without making it.
pub(crate) fn folder(root: &Path, key: &Key<'_>) -> PathBuf {
    root.join(key.folder_name())
}

/// Makes the folder. `None`, with a warning, when the place cannot be written: the runtime then does without.
pub(crate) fn open(root: &Path, key: &Key<'_>) -> Result<Option<PathBuf>, LaunchError> {
    let folder = folder(root, key);
    let note = folder.join("key.json");
    let make = || -> io::Result<()> {
        fs::create_dir_all(&folder)?;
        if fs::read_to_string(&note).is_ok_and(|text| text == key.note()) {
            // An old folder may have become read-only since.
            drop(tempfile::tempfile_in(&folder)?);
            return Ok(());
        }
        // Not ours, or cut short: whatever is in it has no known source.
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        fs::write(&note, key.note())
    };
    match make() {
        Ok(()) => Ok(Some(folder)),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            eprintln!(
                "warning: {}: {e}; the runtime converts all tensors again",
                root.display()
            );
            Ok(None)
        }
        Err(source) => Err(LaunchError::Io {
            doing: "making",
            path: folder,
            source,
        }),
    }
}

/// Refuses a tensor cache among the packages, and packages in the tensor cache: the former never change, the latter is
/// written by a container.
pub(crate) fn refuse_overlap(tensor_cache: &Path, packages: &Path) -> Result<(), LaunchError> {
    let (a, b) = (resolved(tensor_cache), resolved(packages));
    if a.starts_with(&b) || b.starts_with(&a) {
        return Err(LaunchError::TensorCacheInside {
            tensor_cache: a,
            packages: b,
        });
    }
    Ok(())
}

/// The path with its existing part resolved, so that a link does not hide an overlap.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for existing in absolute.ancestors() {
        if let Ok(real) = fs::canonicalize(existing) {
            return absolute
                .strip_prefix(existing)
                .map_or(real.clone(), |rest| real.join(rest));
        }
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "runtime@sha256:aa";

    fn key(manifest: &[u8]) -> Key<'static> {
        Key {
            manifest: Sha256Digest::of(manifest),
            image: IMAGE,
            architecture: "blackhole",
        }
    }

    /// Fault reports K1 and K3.
    #[test]
    fn weights_runtime_and_chip_each_have_a_folder_of_their_own() {
        let root = Path::new("/cache");
        let one = folder(root, &key(b"bfp4"));
        assert_eq!(one, folder(root, &key(b"bfp4")));
        assert_ne!(one, folder(root, &key(b"bfp8")));
        assert_ne!(
            one,
            folder(
                root,
                &Key {
                    image: "runtime@sha256:bb",
                    ..key(b"bfp4")
                }
            )
        );
        assert_ne!(
            one,
            folder(
                root,
                &Key {
                    architecture: "wormhole",
                    ..key(b"bfp4")
                }
            )
        );
    }

    /// Fault report K2.
    #[test]
    fn tensors_without_a_known_source_are_dropped_and_known_ones_kept() {
        let root = tempfile::tempdir().unwrap();
        let made = open(root.path(), &key(b"x")).unwrap().unwrap();
        fs::write(made.join("tensor"), b"good").unwrap();
        assert_eq!(open(root.path(), &key(b"x")).unwrap().as_ref(), Some(&made));
        assert!(made.join("tensor").exists());
        for note in ["", "{\"manifest_sha256\":"] {
            fs::write(made.join("tensor"), b"of what?").unwrap();
            fs::write(made.join("key.json"), note).unwrap();
            open(root.path(), &key(b"x")).unwrap().unwrap();
            assert!(!made.join("tensor").exists());
        }
    }

    #[test]
    fn neither_cache_may_lie_in_the_other_even_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("packages");
        fs::create_dir(&packages).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&packages, &link).unwrap();
        for inside in [
            packages.clone(),
            packages.join("a/b"),
            link.join("x"),
            folder.path().to_owned(),
        ] {
            assert!(matches!(
                refuse_overlap(&inside, &packages),
                Err(LaunchError::TensorCacheInside { .. })
            ));
        }
        assert!(refuse_overlap(&folder.path().join("packages-2"), &packages).is_ok());
    }
}
