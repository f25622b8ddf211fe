//! A complete small package, and the means to spoil it. For tests, behind the feature `testing`.

use std::fs;
use std::path::{Path, PathBuf};

use bfp_format::tensorbin::Header;
use bfp_format::{pack, tilize};
use serde_json::{Map, Value, json};

use crate::counting::elements;
use crate::digest::Sha256Digest;
use crate::error::ManifestError;
use crate::inventory::{Entry, Inventory};
use crate::json::to_json;
use crate::schema::{
    CHECKPOINT, FORMAT, LosslessTensor, MANIFEST_FILE, ModelIdentity, MtpRecord, NativeManifest,
    PRECISION_SUMMARY_FILE, PUBLICATION_FILE, PrecisionSummary, RELEASE_FILE, RuntimeRelease,
    SUMS_FILE, TensorOrigin, TensorRecord, TensorTotals,
};
use crate::stored::{StoredLayout, StoredType};
use crate::writer::{Colophon, PackageWriter};

/// The target tensors of the package: name, shape, type, layout.
pub const TENSORS: [(&str, &[usize], StoredType, StoredLayout); 6] = [
    (
        "embed.weight",
        &[10, 16],
        StoredType::Bf16,
        StoredLayout::RowMajor,
    ),
    (
        "layers.0.attn.q.weight",
        &[40, 48],
        StoredType::Bfp8,
        StoredLayout::Tile,
    ),
    (
        "layers.0.attn.k.weight",
        &[40, 16],
        StoredType::Bfp8,
        StoredLayout::Tile,
    ),
    (
        "layers.0.mlp.up.weight",
        &[33, 65],
        StoredType::Bfp4,
        StoredLayout::Tile,
    ),
    (
        "layers.0.a_log",
        &[8],
        StoredType::F32,
        StoredLayout::RowMajor,
    ),
    (
        "layers.0.gate.weight",
        &[5, 7],
        StoredType::F32,
        StoredLayout::Tile,
    ),
];

/// Writes the package to `target`, which must not exist: six tensors of all kinds, an MTP file of two, a config, a
/// tokenizer and a measurement outside `checkpoint/`. About 12 KB; the same bytes each time.
///
/// # Errors
/// Those of [`PackageWriter`].
pub fn write_package(target: &Path) -> Result<(), ManifestError> {
    let mut writer = PackageWriter::open(target)?;
    let mut files = Vec::new();
    let mut tensors = Vec::new();
    for (name, shape, dtype, layout) in TENSORS {
        let values = values(name, shape);
        let bytes = tensor_file(&values, shape, dtype, layout)?;
        let entry = writer.add_bytes(
            format!("{CHECKPOINT}/tensors/{name}.tensorbin").parse()?,
            &bytes,
        )?;
        tensors.push(record(name, shape, dtype, layout, &entry)?);
        files.push(entry);
    }
    let (mtp_bytes, mtp_tensors) = mtp_file();
    let entry = writer.add_bytes(format!("{CHECKPOINT}/mtp.safetensors").parse()?, &mtp_bytes)?;
    let mtp = MtpRecord {
        file: "mtp.safetensors".parse()?,
        bytes: entry.bytes,
        sha256: entry.sha256,
        tensors: mtp_tensors,
    };
    files.push(entry);
    let mut carried = Vec::new();
    for (name, text) in [
        ("config.json", "{\"model_type\": \"qwen3_5\"}\n"),
        ("tokenizer.json", "{}\n"),
    ] {
        let entry = writer.add_bytes(format!("{CHECKPOINT}/{name}").parse()?, text.as_bytes())?;
        carried.push(Entry {
            path: name.parse()?,
            ..entry.clone()
        });
        files.push(entry);
    }
    files.push(writer.add_bytes(
        "evidence/speed.json".parse()?,
        b"{\"tokens_per_second\": 1}\n",
    )?);
    let mut manifest = NativeManifest {
        format: FORMAT.to_owned(),
        model: ModelIdentity {
            architecture: "qwen3_5".to_owned(),
            name: "tiny".to_owned(),
            ..ModelIdentity::default()
        },
        rounding: bfp_format::Rounding::HostNearestEven.as_str().to_owned(),
        norm_offset: 1.0,
        producer: None,
        files: Inventory::new(carried)?,
        tensors,
        mtp: Some(mtp),
        totals: TensorTotals::default(),
        other: Map::new(),
    };
    manifest.totals = TensorTotals::of(&manifest);
    let summary = to_json(&PrecisionSummary::of(&manifest))?;
    files.push(writer.add_bytes(PRECISION_SUMMARY_FILE.parse()?, &summary)?);
    let release = RuntimeRelease {
        format: FORMAT.to_owned(),
        release: "tiny-1".to_owned(),
        repository: None,
        revision: None,
        image: None,
        inventory: Inventory::default(),
        totals: None,
        other: Map::new(),
    };
    writer.finish(files, Colophon { release, manifest })?;
    Ok(())
}

/// A `.tensorbin` file of these values: `[..shape]`, row-major.
///
/// # Errors
/// [`ManifestError::Header`] for a shape or type that cannot be stored so.
pub fn tensor_file(
    values: &[f32],
    shape: &[usize],
    dtype: StoredType,
    layout: StoredLayout,
) -> Result<Vec<u8>, ManifestError> {
    let refused = |source| ManifestError::Header {
        path: "new file".to_owned(),
        tensor: format!("{shape:?}"),
        source,
    };
    let data: Vec<u8> = match (dtype.block_format(), layout) {
        (Some(format), _) => pack(values, shape, format).map_err(refused)?,
        (None, StoredLayout::Tile) => {
            let tiled = tilize(values, shape, bfp_format::TileShape::T32, 0.0).map_err(refused)?;
            tiled
                .iter()
                .flat_map(|value| element(*value, dtype))
                .collect()
        }
        (None, StoredLayout::RowMajor) => values
            .iter()
            .flat_map(|value| element(*value, dtype))
            .collect(),
    };
    let header = Header::new(dtype.data_type(), layout.layout(), shape).map_err(refused)?;
    header.to_file(&data).map_err(refused)
}

/// Values between -1 and 1 that depend on the name alone; all are exact in bf16.
pub fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut state = name.bytes().fold(1_u32, |state, byte| {
        state.wrapping_mul(31).wrapping_add(byte.into())
    });
    let count = elements(shape)
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(0);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [.., byte] = state.to_be_bytes().map(f32::from);
            (byte - 128.0) / 128.0
        })
        .collect()
}

/// Changes a JSON file of the package in `root`.
///
/// # Panics
/// When the file is not there or is no JSON.
#[expect(clippy::unwrap_used, reason = "for tests")]
pub fn edit_json(root: &Path, file: &str, edit: impl FnOnce(&mut Value)) {
    let path = root.join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut value);
    fs::write(&path, to_json(&value).unwrap()).unwrap();
}

/// Makes all lists of the package in `root` agree with its files again, as an attacker would who can write them all:
/// sizes and digests of the manifest's tensors, of the inventories, and `SHA256SUMS`. Totals that were right stay
/// right, and what was wrong stays wrong.
///
/// # Panics
/// When a listed file is not there or a list cannot be read.
pub fn reseal(root: &Path) {
    let checkpoint = root.join(CHECKPOINT);
    edit_json(root, MANIFEST_FILE, |manifest| {
        let sums = [
            sum(&manifest["tensors"]),
            manifest["mtp"]["bytes"].as_u64().unwrap_or(0),
        ];
        for list in ["tensors", "files"] {
            for entry in manifest[list].as_array_mut().into_iter().flatten() {
                let file = entry
                    .get("file")
                    .or_else(|| entry.get("path"))
                    .and_then(Value::as_str)
                    .map(str::to_owned);
                restate(entry, file.map(|file| checkpoint.join(file)));
            }
        }
        let mtp = manifest["mtp"]["file"]
            .as_str()
            .map(|file| checkpoint.join(file));
        if let Some(entry) = manifest.get_mut("mtp").filter(|entry| entry.is_object()) {
            restate(entry, mtp);
        }
        let now = [
            sum(&manifest["tensors"]),
            manifest["mtp"]["bytes"].as_u64().unwrap_or(0),
        ];
        for ((field, was), now) in ["target_bytes", "mtp_bytes"].into_iter().zip(sums).zip(now) {
            keep_right(&mut manifest["totals"][field], was, now);
        }
    });
    for file in [RELEASE_FILE, PUBLICATION_FILE] {
        edit_json(root, file, |list| {
            let was = sum(&list["inventory"]);
            for entry in list["inventory"].as_array_mut().into_iter().flatten() {
                let path = entry["path"].as_str().map(|path| root.join(path));
                restate(entry, path);
            }
            let now = sum(&list["inventory"]);
            keep_right(&mut list["totals"]["bytes"], was, now);
        });
    }
    reseal_sums(root);
}

fn sum(entries: &Value) -> u64 {
    entries
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["bytes"].as_u64())
        .sum()
}

fn keep_right(total: &mut Value, was: u64, now: u64) {
    if total.as_u64() == Some(was) {
        *total = now.into();
    }
}

/// Makes `SHA256SUMS` agree with `release-manifest.json` again.
///
/// # Panics
/// When either cannot be read or written.
#[expect(clippy::unwrap_used, reason = "for tests")]
pub fn reseal_sums(root: &Path) {
    let json = fs::read(root.join(PUBLICATION_FILE)).unwrap();
    let list: Value = serde_json::from_slice(&json).unwrap();
    let entries = list["inventory"].as_array().into_iter().flatten();
    let mut lines: Vec<(String, String)> = entries
        .filter_map(|entry| {
            Some((
                entry["path"].as_str()?.to_owned(),
                entry["sha256"].as_str()?.to_owned(),
            ))
        })
        .collect();
    lines.push((
        PUBLICATION_FILE.to_owned(),
        Sha256Digest::of(&json).to_string(),
    ));
    lines.sort();
    let text: String = lines
        .iter()
        .map(|(path, digest)| format!("{digest}  {path}\n"))
        .collect();
    fs::write(root.join(SUMS_FILE), text).unwrap();
}

/// What cannot be read keeps what was said of it.
fn restate(entry: &mut Value, path: Option<PathBuf>) {
    if let Some(bytes) = path.and_then(|path| fs::read(path).ok()) {
        entry["bytes"] = bytes.len().into();
        entry["sha256"] = Sha256Digest::of(&bytes).to_string().into();
    }
}

fn record(
    name: &str,
    shape: &[usize],
    dtype: StoredType,
    layout: StoredLayout,
    entry: &Entry,
) -> Result<TensorRecord, ManifestError> {
    // A matrix is stored transposed; q and k are rows of one fused tensor.
    let (rows, columns) = match *shape {
        [inputs, outputs] if layout == StoredLayout::Tile => (outputs, Some(inputs)),
        [rows, columns] => (rows, Some(columns)),
        [rows] => (rows, None),
        _ => (1, None),
    };
    let (source, source_rows, first_row) = match name {
        "layers.0.attn.q.weight" => ("layers.0.attn.qk.weight", 64, 0),
        "layers.0.attn.k.weight" => ("layers.0.attn.qk.weight", 64, 48),
        _ => (name, rows, 0),
    };
    Ok(TensorRecord {
        name: name.to_owned(),
        shape: shape.to_vec(),
        dtype,
        layout,
        file: format!("tensors/{name}.tensorbin").parse()?,
        bytes: entry.bytes,
        sha256: entry.sha256,
        source: TensorOrigin {
            name: source.to_owned(),
            shape: std::iter::once(source_rows).chain(columns).collect(),
            dtype: "BF16".to_owned(),
            first_row,
            rows,
            sha256: Sha256Digest::of(name.as_bytes()),
        },
        other: Map::new(),
    })
}

fn element(value: f32, dtype: StoredType) -> Vec<u8> {
    match dtype {
        // The values are exact in bf16: its upper half is the whole of them.
        StoredType::Bf16 => value.to_le_bytes()[2..].to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

/// A safetensors file of two tensors.
fn mtp_file() -> (Vec<u8>, Vec<LosslessTensor>) {
    let payload = [[1_u8; 12].as_slice(), &[2; 8]];
    let header = json!({
        "mtp.fc.weight": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
        "mtp.norm.weight": {"dtype": "F32", "shape": [2], "data_offsets": [12, 20]},
    });
    let mut text = header.to_string();
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(text.as_bytes());
    file.extend(payload.concat());
    let tensor = |name: &str, shape: &[usize], dtype: &str, bytes: &[u8]| LosslessTensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        dtype: dtype.to_owned(),
        sha256: Sha256Digest::of(bytes),
    };
    let tensors = vec![
        tensor("mtp.fc.weight", &[2, 3], "BF16", payload[0]),
        tensor("mtp.norm.weight", &[2], "F32", payload[1]),
    ];
    (file, tensors)
}
