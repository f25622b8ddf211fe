//! Verifies a native package and says what is in it: identity, tensors, and what each element type costs.
//!
//! ```sh
//! cargo run --example inspect_package                 # the demo package of this repository
//! cargo run --example inspect_package -- FOLDER NAME  # and the first values of tensor NAME
//! ```

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use bfp_format::{TileShape, unpack};
use native_manifest::{PrecisionSummary, Snapshot, Tensor, Verified, VerifyOptions};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let demo = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/demo-package");
    let folder = arguments.next().map_or_else(demo, PathBuf::from);
    let name = arguments.next();

    // Until it is verified, a snapshot gives no tensor.
    let claimed = Snapshot::open(&folder)?;
    let (package, _) = claimed.verify(&VerifyOptions::default(), &())?;
    describe(&package);
    let first = package
        .manifest()
        .tensors
        .iter()
        .find(|record| record.dtype.block_format().is_some());
    let name = name
        .or_else(|| first.map(|record| record.name.clone()))
        .context("no tensor to show")?;
    show(&package.tensor(&name)?)
}

fn describe(package: &Snapshot<Verified>) {
    let manifest = package.manifest();
    println!(
        "package   {} ({})",
        package.release().release,
        package.origin()
    );
    println!(
        "model     {} ({})",
        manifest.model.name, manifest.model.architecture
    );
    println!("manifest  sha256:{}", package.manifest_digest());
    println!(
        "rounding  {}, norm offset {}",
        manifest.rounding, manifest.norm_offset
    );
    println!(
        "\n{:8} {:>7} {:>12} {:>12} {:>11}",
        "type", "tensors", "parameters", "bytes", "bits/value"
    );
    for line in PrecisionSummary::of(manifest).types {
        let bits = 8.0 * line.bytes as f64 / line.parameters as f64;
        println!(
            "{:8} {:7} {:12} {:12} {bits:11.2}",
            line.dtype, line.tensors, line.parameters, line.bytes
        );
    }
    let totals = manifest.totals;
    println!(
        "{:8} {:7} {:12} {:12}",
        "mtp", totals.mtp_tensors, totals.mtp_parameters, totals.mtp_bytes
    );
}

/// The first values of the first row: of input 0 to each output, for a linear.
fn show(tensor: &Tensor) -> Result<()> {
    println!(
        "\n{} {:?} {} {}, {} bytes",
        tensor.name,
        tensor.shape,
        tensor.dtype,
        tensor.layout,
        tensor.bytes.len()
    );
    let Some(format) = tensor.dtype.block_format() else {
        return Ok(());
    };
    let values = unpack(&tensor.bytes, &tensor.shape, format, TileShape::T32)?;
    println!("{:?} ..", &values[..values.len().min(8)]);
    Ok(())
}
