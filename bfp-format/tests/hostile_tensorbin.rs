//! Files that are broken, or lie: each is one error that names the fact, and costs no memory.

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic like the test"
)]

use bfp_format::tensorbin::{
    BufferType, DataType, Header, Layout, MemoryConfig, MemoryLayout, Placement, Shard, TensorFile,
};
use bfp_format::{BlockFormat, FormatError, TileShape, pack};
use proptest::prelude::*;

fn bfp8_file() -> Vec<u8> {
    let values: Vec<f32> = (0..35u8).map(f32::from).collect();
    let header = Header::new(DataType::BFloat8B, Layout::TILE, &[5, 7]).unwrap();
    header
        .to_file(&pack(&values, &[5, 7], BlockFormat::Bfp8).unwrap())
        .unwrap()
}

fn mesh_file() -> Vec<u8> {
    let header = Header::placed(
        DataType::BFloat16,
        Layout::RowMajor,
        &[5, 7],
        3,
        Placement::Shard(0),
    )
    .unwrap();
    header
        .to_file(&vec![1; usize::try_from(header.data_bytes()).unwrap()])
        .unwrap()
}

fn error_of(file: &[u8]) -> FormatError {
    TensorFile::parse(file).unwrap_err()
}

#[test]
fn every_truncation_is_refused() {
    for file in [bfp8_file(), mesh_file()] {
        for length in 0..file.len() {
            let error = TensorFile::parse(&file[..length]).unwrap_err();
            if (8..256).contains(&length) {
                assert!(
                    matches!(error, FormatError::HeaderSize { file, .. } if file == length),
                    "{error}"
                );
            }
        }
    }
    let file = bfp8_file();
    let missing = error_of(&file[..file.len() - 1]);
    assert_eq!(
        missing,
        FormatError::ShardRange {
            shard: 0,
            offset: 0,
            size: 1088,
            data: 1087
        }
    );
}

#[test]
fn trailing_bytes_are_accepted_and_counted() {
    let mut file = bfp8_file();
    file.extend([7; 100]);
    let read = TensorFile::parse(&file).unwrap();
    assert_eq!(read.trailing_bytes(), 100);
    assert_eq!(read.shard_bytes(0).unwrap().len(), 1088);
    assert_eq!(read.values().unwrap().elements[34], 34.0);
}

#[test]
fn a_few_bytes_that_promise_gigabytes_cost_nothing() {
    for size in [1u64, 8, 1 << 32, u64::MAX - 7, u64::MAX] {
        let file = size.to_le_bytes();
        assert_eq!(
            error_of(&file),
            FormatError::HeaderSize {
                header: size,
                file: 8
            }
        );
    }
    // A vector of 2^32 - 1 shapes in 24 bytes: root table, vtable with one field, vector length.
    let mut header = vec![8, 0, 0, 0, 6, 0, 8, 0];
    header.extend(4i32.to_le_bytes());
    header.extend([0xff; 12]);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    assert!(matches!(
        error_of(&file),
        FormatError::HeaderBounds { .. } | FormatError::MissingField { .. }
    ));
}

#[test]
fn a_shape_that_cannot_be_counted_is_refused() {
    let huge = Header {
        shape: vec![1 << 31; 3],
        ..Header::new(DataType::Float32, Layout::RowMajor, &[1]).unwrap()
    };
    assert_eq!(
        huge.to_bytes().unwrap_err(),
        FormatError::ShapeOverflow {
            shape: vec![1 << 31; 3]
        }
    );
    // The same in the bytes of a file: the dimension 5 of [5, 7] becomes 2^32 - 1, then both.
    let file = bfp8_file();
    let shape: Vec<u8> = [2u32, 5, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
    let at = file.windows(12).position(|window| window == shape).unwrap();
    let mut wide = file.clone();
    wide[at + 4..at + 8].copy_from_slice(&[0xff; 4]);
    assert!(matches!(
        error_of(&wide),
        FormatError::ShardBytes {
            shard: 0,
            found: 1088,
            ..
        }
    ));
    let mut wider = wide.clone();
    wider[at + 8..at + 12].copy_from_slice(&[0xff; 4]);
    assert!(matches!(
        error_of(&wider),
        FormatError::ShapeOverflow { .. } | FormatError::ShardBytes { .. }
    ));
}

#[test]
fn a_shape_or_type_that_does_not_fit_the_data_is_refused() {
    let header = Header::new(DataType::BFloat8B, Layout::TILE, &[5, 7]).unwrap();
    let wrong = Header {
        shape: vec![33, 7],
        ..header.clone()
    };
    assert_eq!(
        wrong.to_bytes().unwrap_err(),
        FormatError::ShardBytes {
            shard: 0,
            expected: 2176,
            found: 1088
        }
    );
    let wrong = Header {
        dtype: DataType::BFloat4B,
        ..header.clone()
    };
    assert_eq!(
        wrong.to_bytes().unwrap_err(),
        FormatError::ShardBytes {
            shard: 0,
            expected: 576,
            found: 1088
        }
    );
    let rows = Header {
        layout: Layout::RowMajor,
        ..header
    };
    let error = rows.to_bytes().unwrap_err();
    assert!(
        matches!(
            error,
            FormatError::HeaderField {
                field: "spec.layout.page",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn overlapping_shards_are_refused_and_replicas_are_not() {
    let mut header = Header::placed(
        DataType::BFloat16,
        Layout::RowMajor,
        &[5, 7],
        3,
        Placement::Shard(0),
    )
    .unwrap();
    header.shards[2].offset = 64;
    assert_eq!(
        header.to_bytes().unwrap_err(),
        FormatError::ShardOverlap {
            first: 0,
            second: 2
        }
    );
    header.shards[2].offset = 0;
    header.to_bytes().unwrap();
    header.shards[2].offset = u64::MAX - 63;
    let error = header.to_bytes().unwrap_err();
    assert!(
        matches!(error, FormatError::ShardRange { shard: 2, .. }),
        "{error}"
    );
    header.shards[2].offset = 72;
    let error = header.to_bytes().unwrap_err();
    assert!(matches!(
        error,
        FormatError::HeaderField {
            field: "shards.storage",
            ..
        } | FormatError::ShardOverlap { .. }
    ));
}

#[test]
fn coordinates_outside_the_mesh_or_twice_are_refused() {
    let header = Header::placed(
        DataType::BFloat16,
        Layout::RowMajor,
        &[5, 7],
        3,
        Placement::Shard(0),
    )
    .unwrap();
    for coordinate in [vec![0, 3], vec![1, 0], vec![0], vec![0, 0, 0], vec![0, 1]] {
        let mut wrong = header.clone();
        wrong.shards[0].coordinate = coordinate;
        let error = wrong.to_bytes().unwrap_err();
        assert!(
            matches!(
                error,
                FormatError::HeaderField {
                    field: "shards.coordinate",
                    ..
                }
            ),
            "{error}"
        );
    }
    let mut wrong = header.clone();
    wrong.topology.as_mut().unwrap().coordinates[1] = vec![0, 9];
    let error = wrong.to_bytes().unwrap_err();
    assert!(
        matches!(
            error,
            FormatError::HeaderField {
                field: "topology.coordinates",
                ..
            }
        ),
        "{error}"
    );
    let wrong = Header {
        shards: Vec::new(),
        ..header
    };
    let error = wrong.to_bytes().unwrap_err();
    assert!(
        matches!(
            error,
            FormatError::HeaderField {
                field: "shards",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn parts_that_share_bytes_do_not_multiply_into_a_large_tensor() {
    let mut header = Header::placed(
        DataType::BFloat16,
        Layout::RowMajor,
        &[5, 7],
        3,
        Placement::Shard(0),
    )
    .unwrap();
    header.shards.iter_mut().for_each(|shard| shard.offset = 0);
    let file = header.to_file(&[0; 70]).unwrap();
    let error = TensorFile::parse(file).unwrap().values().unwrap_err();
    assert!(
        matches!(
            error,
            FormatError::HeaderField {
                field: "shards",
                ..
            }
        ),
        "{error}"
    );
    // A distribution far larger than the shards that are there.
    let mut header = Header::new(DataType::BFloat16, Layout::RowMajor, &[5, 7]).unwrap();
    let topology = header.topology.as_mut().unwrap();
    topology.shape = vec![u32::MAX];
    topology.placements = vec![Placement::Shard(1)];
    let file = header.to_file(&[0; 70]).unwrap();
    let error = TensorFile::parse(file).unwrap().values().unwrap_err();
    assert!(
        matches!(
            error,
            FormatError::HeaderField {
                field: "shards",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn placements_outside_the_tensor_or_twice_are_refused() {
    for dimension in [2, -3, i32::MIN, i32::MAX] {
        let placement = Placement::Shard(dimension);
        let header =
            Header::placed(DataType::BFloat16, Layout::RowMajor, &[5, 7], 2, placement).unwrap();
        let file = header
            .to_file(&vec![0; usize::try_from(header.data_bytes()).unwrap()])
            .unwrap();
        let error = TensorFile::parse(file).unwrap().values().unwrap_err();
        assert!(
            matches!(
                error,
                FormatError::HeaderField {
                    field: "topology.placements",
                    ..
                }
            ),
            "{error}"
        );
    }
}

/// The codes of a file, found by writing it with two values that differ in nothing else.
fn place_of(one: &Header, other: &Header) -> usize {
    let (one, other) = (one.to_bytes().unwrap(), other.to_bytes().unwrap());
    assert_eq!(one.len(), other.len());
    let differing: Vec<_> = (0..one.len()).filter(|&at| one[at] != other[at]).collect();
    assert_eq!(differing.len(), 1);
    differing[0]
}

#[test]
fn unknown_codes_are_refused_by_name() {
    let with = |dtype, placement, tile| {
        Header::placed(
            dtype,
            Layout::Tile {
                shape: tile,
                transposed: false,
            },
            &[5, 7],
            1,
            placement,
        )
        .unwrap()
    };
    let float = with(DataType::Float32, Placement::Shard(0), TileShape::T32);
    let int = with(DataType::Int32, Placement::Shard(0), TileShape::T32);
    let mut file = float.to_bytes().unwrap();
    file.resize(file.len() + 4096, 0);
    TensorFile::parse(&file).unwrap();
    let mut unknown = file.clone();
    unknown[place_of(&float, &int)] = 9;
    assert_eq!(
        error_of(&unknown),
        FormatError::UnknownCode {
            field: "spec.layout.dtype",
            found: 9
        }
    );

    let transposed = Header {
        layout: Layout::Tile {
            shape: TileShape::T32,
            transposed: true,
        },
        ..float.clone()
    };
    let file = transposed.to_file(&[0; 4096]).unwrap();
    let error = TensorFile::parse(&file).unwrap().values().unwrap_err();
    assert!(
        matches!(
            error,
            FormatError::HeaderField {
                field: "spec.layout.page.tile",
                ..
            }
        ),
        "{error}"
    );
    // With another alignment the tile's are the only two sizes of 32.
    let mut file = Header {
        alignment: vec![1],
        ..transposed
    }
    .to_file(&[0; 4096])
    .unwrap();
    let tile: Vec<u8> = [32u32, 32].iter().flat_map(|n| n.to_le_bytes()).collect();
    let at = file.windows(8).position(|window| window == tile).unwrap();
    file[at] = 31;
    assert!(matches!(error_of(&file), FormatError::TileShape { .. }));

    let memory = |layout, buffer| MemoryConfig {
        layout,
        buffer,
        ..MemoryConfig::default()
    };
    let sharded = Header {
        memory: memory(MemoryLayout::WidthSharded, BufferType::L1),
        ..float.clone()
    };
    let block = Header {
        memory: memory(MemoryLayout::BlockSharded, BufferType::L1),
        ..float.clone()
    };
    let host = Header {
        memory: memory(MemoryLayout::WidthSharded, BufferType::SystemMemory),
        ..float
    };
    let mut file = sharded.to_file(&[0; 4096]).unwrap();
    let (layout, buffer) = (place_of(&sharded, &block), place_of(&sharded, &host));
    file[buffer] = 5;
    assert_eq!(
        error_of(&file),
        FormatError::UnknownCode {
            field: "spec.layout.memory_config.buffer",
            found: 5
        }
    );
    file[layout] = 1;
    assert_eq!(
        error_of(&file),
        FormatError::UnknownCode {
            field: "spec.layout.memory_config.layout",
            found: 1
        }
    );
}

#[test]
fn a_shard_that_is_not_there_is_named() {
    let read = TensorFile::parse(mesh_file()).unwrap();
    assert_eq!(
        read.shard_bytes(3).unwrap_err(),
        FormatError::NoSuchShard {
            shard: 3,
            shards: 3
        }
    );
    assert_eq!(
        read.header().shards[2],
        Shard {
            coordinate: vec![0, 2],
            offset: 256,
            size: 70
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_change_of_a_header_makes_the_reader_panic(
        which in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut file = if which { bfp8_file() } else { mesh_file() };
        let header = usize::from(u16::from_le_bytes([file[0], file[1]])) + 8;
        for (at, value) in changes {
            file[at.index(header)] = value;
        }
        if let Ok(read) = TensorFile::parse(&file) {
            let _ = read.values();
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut file = (bytes.len() as u64).to_le_bytes().to_vec();
        file.extend(bytes);
        let _ = TensorFile::parse(&file).map(|read| read.values());
    }
}
