//! The files that ttnn wrote, read and written again.

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic like the test"
)]

use std::fs;
use std::path::PathBuf;

use bfp_format::tensorbin::{
    BufferType, Core, CoreRange, DataType, Header, Layout, MemoryLayout, NdShardSpec, Placement,
    Shard, ShardSpec, TensorFile,
};
use bfp_format::{Packing, TileShape, pack, tilize};
use bytes::Bytes;
use half::bf16;
use serde_json::Value;
use sha2::{Digest, Sha256};

struct Sample {
    name: String,
    file: Vec<u8>,
    values: Vec<f32>,
    header: Value,
}

fn samples() -> Vec<Sample> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testdata/bfp/tensorbin");
    let mut samples = Vec::new();
    for folder in [root.clone(), root.join("v0.76.0")] {
        let index: Value =
            serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
        for sample in index["samples"].as_array().unwrap() {
            let load = |entry: &Value| {
                let bytes = fs::read(folder.join(entry["file"].as_str().unwrap())).unwrap();
                let digest: String = Sha256::digest(&bytes)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                assert_eq!(digest, entry["sha256"].as_str().unwrap());
                bytes
            };
            samples.push(Sample {
                name: sample["file"].as_str().unwrap().to_owned(),
                file: load(sample),
                values: words(&load(&sample["values"])),
                header: sample["header"].clone(),
            });
        }
    }
    assert_eq!(samples.len(), 20);
    samples
}

fn words(bytes: &[u8]) -> Vec<f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|&word| f32::from_le_bytes(word))
        .collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn numbers<T: TryFrom<i64, Error: std::fmt::Debug>>(value: &Value) -> Vec<T> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|n| T::try_from(n.as_i64().unwrap()).unwrap())
        .collect()
}

fn grid(value: &Value) -> Vec<CoreRange> {
    let core = |value: &Value| {
        let at = numbers::<i32>(value);
        Core { x: at[0], y: at[1] }
    };
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|range| CoreRange {
            start: core(&range[0]),
            end: core(&range[1]),
        })
        .collect()
}

#[test]
fn every_header_is_read_as_it_was_meant() {
    for Sample {
        name, file, header, ..
    } in samples()
    {
        let read = TensorFile::parse(&file).unwrap();
        let found = read.header();
        assert_eq!(
            read.data_start() as u64,
            header["data_offset"].as_u64().unwrap(),
            "{name}"
        );
        assert_eq!(read.trailing_bytes(), 0, "{name}");
        assert_eq!(found.shape, numbers::<usize>(&header["shape"]), "{name}");
        assert_eq!(
            u64::from(found.dtype.code()),
            header["dtype_code"].as_u64().unwrap(),
            "{name}"
        );
        assert_eq!(
            found.dtype.name(),
            header["dtype"].as_str().unwrap(),
            "{name}"
        );
        let layout = if header["layout"] == "tile" {
            let tile = numbers::<usize>(&header["tile"]);
            let transposed = header["transpose_tile"].as_bool().unwrap();
            Layout::Tile {
                shape: TileShape::new(tile[0], tile[1]).unwrap(),
                transposed,
            }
        } else {
            Layout::RowMajor
        };
        assert_eq!(found.layout, layout, "{name}");
        let memory = match header["memory_layout"].as_str().unwrap() {
            "interleaved" => MemoryLayout::Interleaved,
            "width_sharded" => MemoryLayout::WidthSharded,
            other => panic!("{other}"),
        };
        assert_eq!(
            (found.memory.layout, found.memory.buffer),
            (memory, BufferType::Dram),
            "{name}"
        );
        assert_eq!(
            found.memory.made_with_nd,
            header["created_with_nd_shard_spec"].as_bool().unwrap(),
            "{name}"
        );
        let shard_spec = header.get("shard_spec").map(|spec| ShardSpec {
            grid: grid(&spec["grid"]),
            height: numbers(&spec["shape"])[0],
            width: numbers(&spec["shape"])[1],
            orientation: u8::try_from(spec["orientation"].as_u64().unwrap()).unwrap(),
        });
        assert_eq!(found.memory.shard_spec, shard_spec, "{name}");
        let nd_shard_spec = header.get("nd_shard_spec").map(|spec| NdShardSpec {
            shape: numbers(&spec["shard_shape"]),
            grid: grid(&spec["grid"]),
            orientation: u8::try_from(spec["orientation"].as_u64().unwrap()).unwrap(),
            distribution: u8::try_from(spec["distribution"].as_u64().unwrap()).unwrap(),
        });
        assert_eq!(found.memory.nd_shard_spec, nd_shard_spec, "{name}");
        assert_eq!(
            found.alignment,
            numbers::<u32>(&header["alignment"]),
            "{name}"
        );
        assert_eq!(
            found.mesh_shape,
            numbers::<u32>(&header["mesh_shape"]),
            "{name}"
        );
        let shard = |shard: &Value| Shard {
            coordinate: numbers(&shard["mesh_coordinate"]),
            offset: shard["offset"].as_u64().unwrap(),
            size: shard["size"].as_u64().unwrap(),
        };
        assert_eq!(
            found.shards,
            header["shards"]
                .as_array()
                .unwrap()
                .iter()
                .map(shard)
                .collect::<Vec<_>>(),
            "{name}"
        );
        let topology = found.topology.as_ref().unwrap();
        assert_eq!(
            topology.shape,
            numbers::<u32>(&header["topology"]["distribution_shape"]),
            "{name}"
        );
        let placement = |placement: &Value| {
            let dimension = i32::try_from(placement["dim"].as_i64().unwrap()).unwrap();
            if placement["kind"] == "shard" {
                Placement::Shard(dimension)
            } else {
                Placement::Replicate
            }
        };
        let placements = header["topology"]["placements"].as_array().unwrap();
        assert_eq!(
            topology.placements,
            placements.iter().map(placement).collect::<Vec<_>>(),
            "{name}"
        );
        let coordinates = header["topology"]["mesh_coords"].as_array().unwrap();
        assert_eq!(
            topology.coordinates,
            coordinates.iter().map(numbers::<u32>).collect::<Vec<_>>(),
            "{name}"
        );
    }
}

#[test]
fn every_file_gives_the_values_of_ttnn() {
    for Sample {
        name, file, values, ..
    } in samples()
    {
        let read = TensorFile::parse(&file).unwrap().values().unwrap();
        assert_eq!(bits(&read.elements), bits(&values), "{name}");
        assert_eq!(read.shape.iter().product::<usize>(), values.len(), "{name}");
    }
    let wide = samples()
        .into_iter()
        .find(|sample| sample.name.starts_with("bfp8_mesh1x4"))
        .unwrap();
    assert_eq!(
        TensorFile::parse(wide.file)
            .unwrap()
            .values()
            .unwrap()
            .shape,
        [32, 128]
    );
}

/// The bytes that a shard of the values has, made by our own encoders.
fn stored(values: &[f32], header: &Header) -> Vec<u8> {
    let elements = |values: Vec<f32>| -> Vec<u8> {
        match header.dtype {
            DataType::BFloat16 => values
                .iter()
                .flat_map(|&x| bf16::from_f32(x).to_le_bytes())
                .collect(),
            DataType::Float32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the samples hold small integers"
            )]
            DataType::Int32 => values
                .iter()
                .flat_map(|&x| (x as i32).to_le_bytes())
                .collect(),
            other => panic!("{other}"),
        }
    };
    match (header.layout, header.dtype.block_format()) {
        (Layout::Tile { shape, .. }, Some(format)) => {
            pack(values, &header.shape, Packing::new(format).tile(shape)).unwrap()
        }
        (Layout::Tile { shape, .. }, None) => {
            elements(tilize(values, &header.shape, shape, 0.0).unwrap())
        }
        (Layout::RowMajor, _) => elements(values.to_vec()),
    }
}

#[test]
fn every_file_is_written_again_with_the_same_data_and_meaning() {
    for Sample { name, file, .. } in samples() {
        let read = TensorFile::parse(&file).unwrap();
        let header = read.header();
        let mut data = vec![0; usize::try_from(header.data_bytes()).unwrap()];
        for index in 0..header.shards.len() {
            let range = read.shard_range(index).unwrap();
            let range = range.start - read.data_start()..range.end - read.data_start();
            data[range].copy_from_slice(&stored(&read.shard_values(index).unwrap(), header));
        }
        assert!(data == file[read.data_start()..], "{name}");
        let written = header.to_file(&data).unwrap();
        let again = TensorFile::parse(&written).unwrap();
        assert_eq!(again.header(), header, "{name}");
        assert_eq!(again.data_start() % 64, 0, "{name}");
        assert_eq!(written[again.data_start()..], data, "{name}");
    }
}

#[test]
fn plain_and_placed_headers_are_those_of_ttnn() {
    for Sample { name, file, .. } in samples() {
        let read = TensorFile::parse(&file).unwrap();
        let found = read.header();
        let placement = found.topology.as_ref().unwrap().placements[0];
        let devices = found.mesh_shape[1];
        let mut made =
            Header::placed(found.dtype, found.layout, &found.shape, devices, placement).unwrap();
        made.memory = found.memory.clone();
        assert_eq!(&made, found, "{name}");
    }
}

#[test]
fn bytes_storage_shares_the_memory_of_the_file() {
    let sample = samples()
        .into_iter()
        .find(|sample| sample.name.starts_with("bf16_mesh1x3"))
        .unwrap();
    let bytes = Bytes::from(sample.file);
    let read = TensorFile::parse(bytes.clone()).unwrap();
    for index in 0..3 {
        let range = read.shard_range(index).unwrap();
        let shard = read.shard_slice(index).unwrap();
        assert_eq!(shard.as_ptr(), bytes[range].as_ptr());
        assert_eq!(shard, read.shard_bytes(index).unwrap());
    }
    assert!(read.shard_slice(3).is_err());
}
