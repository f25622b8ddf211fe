//! Container images.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use native_manifest::Sha256Digest;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use crate::program::{Run, verify};

/// Paths and texts that the listing asks for.
const PAYLOAD: [(&str, &str); 3] = [
    ("/app/run", "run"),
    ("/app/lib/a::b.so", "library"),
    ("/etc/conf", ""),
];

struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let entries: Vec<Value> = PAYLOAD
            .iter()
            .map(|(path, text)| entry(path, text))
            .collect();
        scene.write("listing.json", json!({"payload": entries}).to_string());
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn root_file_system(&self) {
        for (path, text) in PAYLOAD {
            self.write(&format!("image{path}"), text);
        }
    }

    fn verify(&self, options: &[&str]) -> Run {
        let (image, listing) = (self.path("image"), self.path("listing.json"));
        let fixed = [
            "image",
            image.to_str().unwrap(),
            "--listing",
            listing.to_str().unwrap(),
            "--json",
        ];
        verify(fixed.iter().chain(options))
    }

    #[track_caller]
    fn expect(&self, options: &[&str], findings: &[(&str, &str)]) -> Run {
        let run = self.verify(options);
        let expected: Vec<_> = findings
            .iter()
            .map(|(kind, file)| ((*kind).to_owned(), (*file).to_owned()))
            .collect();
        assert_eq!(run.findings(), expected, "{}", run.out);
        assert_eq!(run.code, i32::from(!findings.is_empty()), "{}", run.out);
        run
    }
}

fn entry(path: &str, text: &str) -> Value {
    json!({"path": path, "size": text.len(), "sha256": Sha256Digest::of(text.as_bytes()).to_string()})
}

#[test]
fn an_unpacked_file_system_is_compared_file_by_file() {
    let scene = Scene::new();
    scene.root_file_system();
    let run = scene.expect(&[], &[]);
    assert_eq!(
        (run.json()["files"].as_u64(), run.json()["bytes"].as_u64()),
        (Some(3), Some(10))
    );
    // What is not listed is no matter.
    scene.write("image/app/more", "x");
    scene.expect(&[], &[]);
    scene.write("image/app/run", "ruN");
    scene.write("image/app/lib/a::b.so", "longer library");
    fs::remove_file(scene.path("image/etc/conf")).unwrap();
    scene.expect(
        &[],
        &[
            ("size", "/app/lib/a::b.so"),
            ("digest", "/app/run"),
            ("missing", "/etc/conf"),
        ],
    );
    fs::create_dir(scene.path("image/etc/conf")).unwrap();
    let findings = scene.verify(&[]).findings();
    assert!(
        findings.contains(&("unreadable".to_owned(), "/etc/conf".to_owned())),
        "{findings:?}"
    );
}

#[cfg(unix)]
#[test]
fn links_of_a_file_system_lead_to_its_own_root() {
    let scene = Scene::new();
    scene.root_file_system();
    fs::rename(scene.path("image/app"), scene.path("image/usr")).unwrap();
    std::os::unix::fs::symlink("/usr", scene.path("image/app")).unwrap();
    scene.expect(&[], &[]);
    // The file that the link means on this machine is not the file that it means in the container.
    scene.write("outside", "run");
    fs::remove_file(scene.path("image/usr/run")).unwrap();
    std::os::unix::fs::symlink(scene.path("outside"), scene.path("image/usr/run")).unwrap();
    scene.expect(&[], &[("missing", "/app/run")]);
}

/// Writes an OCI layout of these layers, gzipped where asked for; gives the digest of the image's manifest.
fn layout(root: &Path, layers: &[(Vec<u8>, bool)]) -> String {
    fs::create_dir_all(root.join("blobs/sha256")).unwrap();
    fs::write(
        root.join("oci-layout"),
        r#"{"imageLayoutVersion": "1.0.0"}"#,
    )
    .unwrap();
    let descriptors: Vec<Value> = layers
        .iter()
        .map(|(archive, gzip)| {
            let media = if *gzip {
                "application/vnd.oci.image.layer.v1.tar+gzip"
            } else {
                "application/vnd.oci.image.layer.v1.tar"
            };
            let bytes = if *gzip {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(archive).unwrap();
                encoder.finish().unwrap()
            } else {
                archive.clone()
            };
            blob(root, media, &bytes)
        })
        .collect();
    let config = blob(root, "application/vnd.oci.image.config.v1+json", b"{}");
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": descriptors});
    let mut manifest = blob(
        root,
        "application/vnd.oci.image.manifest.v1+json",
        manifest.to_string().as_bytes(),
    );
    manifest["platform"] = json!({"os": "linux", "architecture": "amd64"});
    let other = json!({
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 1, "digest": format!("sha256:{}", "0".repeat(64)),
        "platform": {"os": "linux", "architecture": "arm64"},
    });
    let index = json!({"schemaVersion": 2, "manifests": [other, manifest.clone()]});
    fs::write(root.join("index.json"), index.to_string()).unwrap();
    manifest["digest"].as_str().unwrap().to_owned()
}

fn blob(root: &Path, media: &str, bytes: &[u8]) -> Value {
    let digest = Sha256Digest::of(bytes);
    fs::write(root.join("blobs/sha256").join(digest.to_string()), bytes).unwrap();
    json!({"mediaType": media, "digest": format!("sha256:{digest}"), "size": bytes.len()})
}

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_size(text.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn good_layers() -> Vec<(Vec<u8>, bool)> {
    vec![
        (
            archive(&[
                ("app/run", "old"),
                ("app/lib/a::b.so", "library"),
                ("etc/gone", "x"),
            ]),
            true,
        ),
        (
            archive(&[("./app/run", "run"), ("etc/conf", ""), ("etc/.wh.gone", "")]),
            false,
        ),
    ]
}

#[test]
fn layers_of_a_layout_are_put_over_each_other() {
    let scene = Scene::new();
    let digest = layout(&scene.path("image"), &good_layers());
    let run = scene.expect(&[], &[]);
    assert_eq!(run.json()["kind"], "OCI layout");
    scene.expect(&["--digest", &digest], &[]);
    let gone = json!([entry("/etc/gone", "x"), entry("app/run", "old")]);
    scene.write("listing.json", gone.to_string());
    scene.expect(&[], &[("digest", "/app/run"), ("missing", "/etc/gone")][..]);
}

#[test]
fn another_image_than_the_one_asked_for_is_refused() {
    let scene = Scene::new();
    layout(&scene.path("image"), &good_layers());
    let run = scene.expect(
        &["--digest", &format!("sha256:{}", "1".repeat(64))],
        &[("digest", "index.json")],
    );
    assert!(run.out.contains("image digest"), "{}", run.out);
    let run = scene.verify(&["--platform", "linux/riscv64"]);
    assert_eq!(run.code, 3);
    assert!(
        run.json()["error"]
            .as_str()
            .unwrap()
            .contains("no image for linux/riscv64")
    );
}

#[test]
fn each_blob_is_checked_against_its_digest() {
    let scene = Scene::new();
    let root = scene.path("image");
    layout(&root, &good_layers());
    let blobs: Vec<PathBuf> = fs::read_dir(root.join("blobs/sha256"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let mut refused = 0;
    for path in blobs {
        let good = fs::read(&path).unwrap();
        if good == b"{}" {
            // The config decides no file.
            continue;
        }
        let name = format!(
            "blobs/sha256/{}",
            path.file_name().unwrap().to_str().unwrap()
        );
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        fs::write(&path, &bad).unwrap();
        scene.expect(&[], &[("digest", &name)]);
        fs::write(&path, &good[..good.len() - 1]).unwrap();
        scene.expect(&[], &[("size", &name)]);
        fs::remove_file(&path).unwrap();
        scene.expect(&[], &[("missing", &name)]);
        fs::write(&path, &good).unwrap();
        refused += 1;
    }
    assert_eq!(refused, 3);
    scene.expect(&[], &[]);
}

#[test]
fn hostile_layers_and_layouts_are_refused() {
    let scene = Scene::new();
    let root = scene.path("image");
    layout(&root, &[(archive(&[("../../outside", "x")]), false)]);
    let run = scene.verify(&[]);
    assert_eq!(
        (run.code, run.findings()[0].0.as_str()),
        (1, "schema"),
        "{}",
        run.out
    );
    assert!(run.out.contains("leads out of the image"), "{}", run.out);
    assert!(!scene.path("outside").exists());

    // A digest that is a path.
    let index = json!({"manifests": [{"mediaType": "m", "digest": "sha256:../../../etc/passwd", "size": 1}]});
    fs::write(root.join("index.json"), index.to_string()).unwrap();
    let run = scene.verify(&[]);
    assert_eq!(run.code, 3);
    assert!(
        run.out.contains("is not sha256: and 64 digits"),
        "{}",
        run.out
    );

    // A kind of layer that is not read is said to be so, not skipped.
    let zstd = blob(&root, "application/vnd.oci.image.layer.v1.tar+zstd", b"x");
    let manifest = json!({"layers": [zstd]}).to_string();
    let manifest = blob(
        &root,
        "application/vnd.oci.image.manifest.v1+json",
        manifest.as_bytes(),
    );
    fs::write(
        root.join("index.json"),
        json!({"manifests": [manifest]}).to_string(),
    )
    .unwrap();
    let run = scene.verify(&[]);
    assert_eq!(run.code, 3);
    assert!(run.out.contains("tar+zstd are not read"), "{}", run.out);
}

#[test]
fn a_listing_that_cannot_be_used_ends_with_3() {
    let scene = Scene::new();
    scene.root_file_system();
    for (listing, reason) in [
        ("", "EOF"),
        ("[]", "lists no file"),
        ("{}", "neither"),
        (r#"[{"path": "a"}]"#, "missing field"),
        (
            r#"{"payload": [{"path": "../a", "size": 1, "sha256": ""}]}"#,
            "must name a file below the root",
        ),
        (
            &json!([entry("/a", ""), entry("a", "")]).to_string(),
            "listed twice",
        ),
    ] {
        scene.write("listing.json", listing);
        let run = scene.verify(&[]);
        assert_eq!(run.code, 3, "{listing}");
        assert!(
            run.json()["error"].as_str().unwrap().contains(reason),
            "{listing}: {}",
            run.out
        );
    }
    fs::remove_file(scene.path("listing.json")).unwrap();
    assert_eq!(scene.verify(&[]).code, 3);
}

#[test]
fn a_digest_for_an_unpacked_file_system_means_nothing() {
    let scene = Scene::new();
    scene.root_file_system();
    let run = scene.verify(&["--digest", &"0".repeat(64)]);
    assert_eq!(run.code, 3);
    assert!(run.out.contains("has no manifest"), "{}", run.out);
}
