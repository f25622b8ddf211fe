//! What a package is, in the words of the supply-chain tools: an in-toto statement, not signed.

use serde_json::{Value, json};

use crate::digest::Sha256Digest;
use crate::schema::{NativeManifest, Publication};

/// An in-toto statement (`https://in-toto.io/Statement/v1`) whose subjects are the files of a publication, each by its
/// SHA-256, and whose predicate says which model they are. Whoever wants it signed hands it to a signing tool; this
/// crate signs nothing.
pub fn in_toto_statement(
    publication: &Publication,
    manifest: &NativeManifest,
    manifest_sha256: Sha256Digest,
) -> Value {
    let subjects: Vec<Value> = publication
        .inventory
        .iter()
        .map(|entry| json!({"name": entry.path, "digest": {"sha256": entry.sha256}}))
        .collect();
    let mut model =
        json!({"architecture": manifest.model.architecture, "name": manifest.model.name});
    if let Some(repository) = &manifest.model.repository {
        model["repository"] = json!(repository);
    }
    if let Some(revision) = &manifest.model.revision {
        model["revision"] = json!(revision);
    }
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": concat!(env!("CARGO_PKG_REPOSITORY"), "/native-package/v1"),
        "predicate": {
            "format": publication.format,
            "release": publication.release,
            "manifestSha256": manifest_sha256,
            "rounding": manifest.rounding,
            "source": model,
        },
    })
}
