//! The package that is kept in the repository: made by the quantizer, with a trained model in it.

use std::path::Path;

use native_manifest::Snapshot;

use crate::harness::strict;

#[test]
fn the_demo_package_passes_the_strictest_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/demo-package");
    let (package, _) = Snapshot::open(&folder)
        .unwrap()
        .verify(&strict(), &())
        .unwrap();
    let manifest = package.manifest();
    assert_eq!(
        (manifest.totals.target_tensors, manifest.totals.mtp_tensors),
        (62, 15)
    );
    for record in &manifest.tensors {
        assert_eq!(package.tensor(&record.name).unwrap().shape, record.shape);
    }
}
