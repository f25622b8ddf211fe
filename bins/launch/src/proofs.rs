//! Proofs that lie beside weights they were not made with.

use std::fs;

use native_manifest::Sha256Digest;
use native_manifest::proof::{PROOF_OFF_FILE, PROOF_ON_FILE, Proof};
use native_manifest::schema::MANIFEST_FILE;

use crate::error::LaunchError;
use crate::prepare::Package;

/// Refuses a package whose proof records name another manifest. That the bytes of all these files are those of the
/// inventory says only that the publisher put them together, not that they belong together.
pub(crate) fn refuse_foreign(package: &Package) -> Result<(), LaunchError> {
    let read = |name: &str| {
        let path = package.folder.join(name);
        fs::read(&path).map_err(|source| LaunchError::Io {
            doing: "reading",
            path,
            source,
        })
    };
    let listed = |name: &&str| package.release.inventory.entry(name).is_some();
    let mut found = None;
    for name in [PROOF_OFF_FILE, PROOF_ON_FILE].into_iter().filter(listed) {
        let proof = Proof::parse(name, &read(name)?).map_err(|source| LaunchError::Package {
            package: package.folder.clone(),
            source,
        })?;
        let found = match found {
            Some(found) => found,
            None => *found.insert(Sha256Digest::of(&read(MANIFEST_FILE)?)),
        };
        let expected = proof.evidence.manifest_sha256;
        if expected != found {
            let (expected, found) = (expected.to_string(), found.to_string());
            return Err(LaunchError::ForeignProof {
                proof: name.to_owned(),
                expected,
                found,
            });
        }
    }
    Ok(())
}
