//! The bytes of ttnn's host packer and unpacker, both ways, on every instruction set present.

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic like the test"
)]

use std::fs;
use std::path::PathBuf;

use bfp_format::{BlockFormat, Codec, Isa, Packing, TileShape, first_not_canonical};
use half::bf16;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testdata/bfp/vectors")
}

/// A file that the index names, with its digest checked.
fn load(entry: &Value) -> Vec<u8> {
    let name = entry["file"].as_str().unwrap();
    let bytes = fs::read(folder().join(name)).unwrap();
    let digest: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digest, entry["sha256"].as_str().unwrap(), "{name}");
    bytes
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&word| f32::from_le_bytes(word))
        .collect()
}

fn sizes(value: &Value) -> Vec<usize> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|n| usize::try_from(n.as_u64().unwrap()).unwrap())
        .collect()
}

struct Case {
    name: String,
    input: Option<Vec<f32>>,
    shape: Vec<usize>,
    stored_shape: Vec<usize>,
    packing: Packing,
    packed: Vec<u8>,
    decoded: Vec<u8>,
    bf16_first: bool,
    transposed: bool,
}

fn cases() -> Vec<Case> {
    let index: Value =
        serde_json::from_slice(&fs::read(folder().join("index.json")).unwrap()).unwrap();
    let mut cases = Vec::new();
    for case in index["cases"].as_array().unwrap() {
        let shape = sizes(&case["shape"]);
        let tile = sizes(&case["tile"]);
        for (format, output) in case["outputs"].as_object().unwrap() {
            let format: BlockFormat = format!("{format}_b").parse().unwrap();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the padding values are small integers"
            )]
            let pad_value = case["pad_value"].as_f64().unwrap() as f32;
            let tile = TileShape::new(tile[0], tile[1]).unwrap();
            cases.push(Case {
                name: format!("{} {format}", case["name"].as_str().unwrap()),
                input: case.get("input").map(|entry| floats(&load(entry))),
                stored_shape: case
                    .get("stored_shape")
                    .map_or_else(|| shape.clone(), sizes),
                shape: shape.clone(),
                packing: Packing::new(format).tile(tile).pad_value(pad_value),
                packed: load(&output["packed"]),
                decoded: load(&output["decoded"]),
                bf16_first: case.get("rounded_to_bf16_first").is_some()
                    || case["source_dtype"] == "bf16",
                transposed: case.get("transposed_before_tiling").is_some(),
            });
        }
    }
    cases
}

#[test]
fn every_case_packs_to_the_bytes_of_ttnn() {
    let cases = cases();
    let names: std::collections::BTreeSet<_> = cases
        .iter()
        .map(|case| case.name.split(' ').next().unwrap())
        .collect();
    assert_eq!(names.len(), 42);
    for codec in Isa::present().filter_map(Codec::with_isa) {
        for case in &cases {
            let Some(input) = &case.input else { continue };
            let packed = match (case.transposed, case.bf16_first) {
                (true, _) => {
                    codec.pack_transposed(input, case.shape[0], case.shape[1], case.packing)
                }
                (false, true) => {
                    let halves: Vec<bf16> = input.iter().map(|&x| bf16::from_f32(x)).collect();
                    codec.pack(&halves, &case.shape, case.packing)
                }
                (false, false) => codec.pack(input, &case.shape, case.packing),
            };
            assert!(
                packed.unwrap() == case.packed,
                "{} on {}",
                case.name,
                codec.isa()
            );
        }
    }
}

#[test]
fn every_case_decodes_to_the_bits_of_ttnn() {
    for codec in Isa::present().filter_map(Codec::with_isa) {
        for case in cases() {
            let Packing { format, tile, .. } = case.packing;
            let values = codec
                .unpack(&case.packed, &case.stored_shape, format, tile)
                .unwrap();
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            assert!(bytes == case.decoded, "{} on {}", case.name, codec.isa());
        }
    }
}

#[test]
fn what_ttnn_packs_is_canonical_and_stays_as_it_is() {
    for case in cases() {
        let Packing { format, tile, .. } = case.packing;
        let found = first_not_canonical(&case.packed, &case.stored_shape, format, tile).unwrap();
        // The decode-only cases hold every code, those that no encoder writes too.
        assert_eq!(
            found.is_none(),
            case.input.is_some(),
            "{}: {found:?}",
            case.name
        );
    }
}
