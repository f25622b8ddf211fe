//! What a good package gives.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bfp_format::tensorbin::TensorFile;
use native_manifest::schema::{MANIFEST_FILE, RELEASE_FILE};
use native_manifest::testing::{TENSORS, tensor_file, values};
use native_manifest::{
    EmbeddedFile, ManifestError, PackagePath, Progress, Sha256Digest, Snapshot, VerifiedRecord,
    VerifyOptions,
};

use crate::harness::{Package, strict};

#[test]
fn a_good_package_is_verified_and_gives_its_tensors() {
    let package = Package::new();
    let (verified, _) = package.open().unwrap().verify(&strict(), &()).unwrap();
    assert_eq!(verified.manifest().tensors.len(), TENSORS.len());
    for (name, shape, dtype, layout) in TENSORS {
        let tensor = verified.tensor(name).unwrap();
        assert_eq!(
            (tensor.name.as_str(), tensor.shape.as_slice()),
            (name, shape)
        );
        assert_eq!((tensor.dtype, tensor.layout), (dtype, layout));
        // The same file, read by the format crate alone.
        let file = tensor_file(&values(name, shape), shape, dtype, layout).unwrap();
        let judge = TensorFile::parse(file).unwrap();
        assert_eq!(tensor.bytes, judge.shard_bytes(0).unwrap(), "{name}");
    }
    assert!(
        matches!(verified.tensor("x"), Err(ManifestError::UnknownTensor { name }) if name == "x")
    );
}

#[test]
fn files_of_the_checkpoint_are_given_and_others_are_not() {
    let package = Package::new();
    let (verified, _) = package
        .open()
        .unwrap()
        .verify(&VerifyOptions::default(), &())
        .unwrap();
    let config: PackagePath = "config.json".parse().unwrap();
    assert_eq!(
        verified.checkpoint_file(&config).unwrap(),
        package.read("checkpoint/config.json")
    );
    assert_eq!(
        verified.checkpoint_named("chat_template.jinja").unwrap(),
        None
    );
    let other: PackagePath = "other".parse().unwrap();
    assert!(matches!(
        verified.checkpoint_file(&other),
        Err(ManifestError::UnknownFile { .. })
    ));
    assert!(matches!(
        verified.checkpoint_named("../SHA256SUMS"),
        Err(ManifestError::Path { .. })
    ));
}

#[test]
fn the_manifest_is_known_by_the_digest_of_its_bytes() {
    let package = Package::new();
    let digest = Sha256Digest::of(&package.read(MANIFEST_FILE));
    assert_eq!(package.open().unwrap().manifest_digest(), digest);
}

#[test]
fn a_file_that_is_replaced_after_the_check_changes_nothing() {
    let package = Package::new();
    let (verified, _) = package
        .open()
        .unwrap()
        .verify(&VerifyOptions::default(), &())
        .unwrap();
    let before = verified.tensor("embed.weight").unwrap().bytes.to_vec();
    let path = package.path("checkpoint/tensors/embed.weight.tensorbin");
    let other = package.parent().join("other");
    fs::write(&other, vec![0; 4096]).unwrap();
    fs::rename(other, path).unwrap();
    assert_eq!(verified.tensor("embed.weight").unwrap().bytes, before);
}

#[test]
fn a_package_compiled_in_is_verified_the_same_way() {
    let package = Package::new();
    let files = embedded(&package);
    let (verified, _) = Snapshot::from_embedded(&files)
        .unwrap()
        .verify(&strict(), &())
        .unwrap();
    let (judge, _) = package.open().unwrap().verify(&strict(), &()).unwrap();
    for (name, ..) in TENSORS {
        assert_eq!(
            verified.tensor(name).unwrap().bytes,
            judge.tensor(name).unwrap().bytes
        );
    }
    assert_eq!(verified.origin(), "the embedded package");

    let spoilt: Vec<EmbeddedFile> = files
        .iter()
        .map(|&(path, bytes)| {
            let mut bytes = bytes.to_vec();
            if path.ends_with("config.json") {
                bytes[0] ^= 1;
            }
            (path, &*bytes.leak())
        })
        .collect();
    let error = Snapshot::from_embedded(&spoilt)
        .unwrap()
        .verify(&strict(), &())
        .unwrap_err();
    assert!(matches!(error, ManifestError::Rejected { .. }), "{error}");
    let without: Vec<_> = files
        .into_iter()
        .filter(|(path, _)| *path != RELEASE_FILE)
        .collect();
    let error = Snapshot::from_embedded(&without).unwrap_err();
    assert!(matches!(error, ManifestError::Absent { path } if path == RELEASE_FILE));
}

#[test]
fn a_runtime_needs_only_what_the_release_lists() {
    let package = Package::new();
    for file in ["release-manifest.json", "SHA256SUMS", "evidence/speed.json"] {
        fs::remove_file(package.path(file)).unwrap();
    }
    package
        .open()
        .unwrap()
        .verify(&VerifyOptions::default(), &())
        .unwrap();
    let report = package.report();
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.file.as_deref() == Some("release-manifest.json"))
    );
}

#[cfg(unix)]
#[test]
fn a_hugging_face_cache_of_links_is_a_good_package() {
    let package = Package::new();
    let blobs = package.parent().join("blobs");
    fs::create_dir(&blobs).unwrap();
    let (verified, _) = package.open().unwrap().verify(&strict(), &()).unwrap();
    let files: Vec<_> = verified
        .release()
        .inventory
        .iter()
        .map(|entry| entry.path.clone())
        .collect();
    for path in files
        .iter()
        .map(PackagePath::as_str)
        .chain(["runtime-release.json", "SHA256SUMS"])
    {
        let blob = blobs.join(Sha256Digest::of(path.as_bytes()).to_string());
        fs::rename(package.path(path), &blob).unwrap();
        std::os::unix::fs::symlink(&blob, package.path(path)).unwrap();
    }
    let options = VerifyOptions {
        refuse_links_out: false,
        ..strict()
    };
    package.open().unwrap().verify(&options, &()).unwrap();
}

#[cfg(unix)]
#[test]
fn nothing_is_written_into_a_package() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let package = Package::new();
    let stat = |package: &Package| {
        let mut found = BTreeMap::new();
        let mut folders = vec![package.root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let metadata = entry.metadata().unwrap();
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
                found.insert(
                    entry.path(),
                    (metadata.mtime_nsec(), metadata.ctime_nsec(), metadata.len()),
                );
            }
        }
        found
    };
    for folder in ["checkpoint/tensors", "checkpoint", "evidence", ""] {
        fs::set_permissions(package.path(folder), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let before = stat(&package);
    let (verified, _) = package.open().unwrap().verify(&strict(), &()).unwrap();
    verified.tensor("embed.weight").unwrap();
    assert_eq!(stat(&package), before);
    for folder in ["", "evidence", "checkpoint", "checkpoint/tensors"] {
        fs::set_permissions(package.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn fields_of_later_versions_are_kept() {
    let package = Package::new();
    native_manifest::testing::edit_json(&package.root(), MANIFEST_FILE, |manifest| {
        manifest["zz_new"] = serde_json::json!({"b": 1, "a": [2]});
        manifest["tensors"][0]["hint"] = "x".into();
    });
    native_manifest::testing::reseal(&package.root());
    let (verified, _) = package.open().unwrap().verify(&strict(), &()).unwrap();
    let written = native_manifest::to_json(verified.manifest()).unwrap();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        String::from_utf8(package.read(MANIFEST_FILE)).unwrap()
    );
}

#[test]
fn what_is_written_is_the_same_each_time() {
    let first = Package::new();
    let second = first.parent().join("second");
    native_manifest::testing::write_package(&second).unwrap();
    for (path, bytes) in embedded(&first) {
        assert_eq!(fs::read(second.join(path)).unwrap(), bytes, "{path}");
        assert!(
            !path.ends_with(".json") || bytes.ends_with(b"}\n"),
            "{path}"
        );
    }
}

#[test]
fn a_warm_start_skips_what_looks_unchanged_and_nothing_else() {
    let package = Package::new();
    let counter = Counter::default();
    let (_, record) = package
        .open()
        .unwrap()
        .verify(&VerifyOptions::default(), &counter)
        .unwrap();
    let record: VerifiedRecord =
        serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(record.manifest(), package.open().unwrap().manifest_digest());
    let options = VerifyOptions {
        known: Some(record),
        ..VerifyOptions::default()
    };
    package.open().unwrap().verify(&options, &()).unwrap();
    // The same bytes under another inode and time are hashed, and found right; other bytes are found wrong.
    let path = package.path("checkpoint/tokenizer.json");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    package.open().unwrap().verify(&options, &()).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, vec![b' '; bytes.len()]).unwrap();
    let error = package.open().unwrap().verify(&options, &()).unwrap_err();
    assert!(
        error.to_string().contains("checkpoint/tokenizer.json"),
        "{error}"
    );
}

#[derive(Default)]
struct Counter {
    announced: Mutex<Option<(u64, u64)>>,
    bytes: AtomicU64,
    files: AtomicU64,
    cancel: AtomicBool,
}

impl Progress for Counter {
    fn started(&self, files: u64, bytes: u64) {
        *self.announced.lock().unwrap() = Some((files, bytes));
    }
    fn advanced(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    fn file_done(&self, _: &PackagePath) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }
    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

#[test]
fn progress_ends_where_it_was_announced() {
    let package = Package::new();
    let counter = Counter::default();
    let report = package
        .open()
        .unwrap()
        .examine(&strict(), &counter)
        .unwrap();
    let announced = counter.announced.lock().unwrap().unwrap();
    assert_eq!(
        (counter.files.into_inner(), counter.bytes.into_inner()),
        announced
    );
    assert_eq!((report.files, report.bytes), announced);
    assert_eq!(report.tensors, TENSORS.len() as u64);
}

#[test]
fn a_cancelled_check_says_so() {
    let package = Package::new();
    let counter = Counter {
        cancel: AtomicBool::new(true),
        ..Counter::default()
    };
    let error = package
        .open()
        .unwrap()
        .verify(&strict(), &counter)
        .unwrap_err();
    assert!(matches!(error, ManifestError::Cancelled));
}

/// All files of the package as a program would have them compiled in.
fn embedded(package: &Package) -> Vec<EmbeddedFile> {
    let sums = String::from_utf8(package.read("SHA256SUMS")).unwrap();
    let listed = sums
        .lines()
        .map(|line| line.split("  ").nth(1).unwrap().to_owned());
    listed
        .chain(["SHA256SUMS".to_owned()])
        .map(|path| (&*path.clone().leak(), &*package.read(&path).leak()))
        .collect()
}
