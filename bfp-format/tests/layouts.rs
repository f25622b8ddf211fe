//! Plain elements in tiles, and values of every type.

use bfp_format::tensorbin::{DataType, Header, Layout, Placement, TensorFile, Topology};
use bfp_format::{FormatError, TileGrid, TileShape, tilize, untilize, untilize_into};
use proptest::prelude::*;

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![]),
        prop::collection::vec(1usize..80, 1..3),
        prop::collection::vec(1usize..5, 3..5).prop_map(|mut shape| {
            let last = shape.len() - 1;
            shape[last] *= 17;
            shape
        }),
    ]
}

proptest! {
    #[test]
    fn tiles_hold_every_element_at_its_place(shape in shapes(), tile in prop::sample::select(TileShape::ALL.to_vec())) {
        let count: usize = shape.iter().product();
        let values: Vec<u32> = (0..).take(count).collect();
        let tiled = tilize(&values, &shape, tile, u32::MAX).unwrap();
        let grid = TileGrid::new(&shape, tile).unwrap();
        prop_assert_eq!(tiled.len(), grid.padded_elements());
        // The place of element (matrix, row, column) by the layout's description.
        let (rows, columns) = (grid.rows(), grid.columns());
        let mut expected = vec![u32::MAX; tiled.len()];
        for (index, value) in values.iter().enumerate() {
            let (matrix, row, column) = (index / (rows * columns), index / columns % rows, index % columns);
            let tile_index = (matrix * grid.tile_rows() + row / tile.rows()) * grid.tile_columns() + column / tile.columns();
            let (row, column) = (row % tile.rows(), column % tile.columns());
            let face = row / 16 * (tile.columns() / 16) + column / 16;
            let in_face = row % 16 * 16 + column % 16;
            expected[tile_index * tile.elements() + face * tile.face_rows() * 16 + in_face] = *value;
        }
        prop_assert_eq!(&tiled, &expected);
        prop_assert_eq!(untilize(&tiled, &shape, tile).unwrap(), values);
    }
}

#[test]
fn empty_tensors_have_no_tiles() {
    for shape in [vec![0], vec![0, 5], vec![5, 0], vec![3, 0, 5]] {
        let tiled = tilize::<f32>(&[], &shape, TileShape::T32, 0.0).unwrap();
        assert_eq!(tiled, [0.0; 0]);
        assert_eq!(
            untilize(&tiled, &shape, TileShape::T32).unwrap(),
            [0.0f32; 0]
        );
    }
}

#[test]
fn uncountable_shapes_are_refused_even_when_empty() {
    let half = usize::MAX / 2;
    for shape in [
        vec![half, half],
        vec![half, 3],
        vec![usize::MAX],
        vec![half, 2, 0],
        vec![0, half, 4],
        vec![half, 0, half],
    ] {
        let error = TileGrid::new(&shape, TileShape::T32).unwrap_err();
        assert_eq!(
            error,
            FormatError::ShapeOverflow {
                shape: shape.clone()
            }
        );
    }
}

#[test]
fn wrong_counts_are_named() {
    let mut values = [0u8; 35];
    let error = untilize_into(&[0u8; 1023], &[5, 7], TileShape::T32, &mut values).unwrap_err();
    assert_eq!(
        error,
        FormatError::ValueCount {
            shape: vec![5, 7],
            expected: 1024,
            found: 1023
        }
    );
    let error = untilize_into(&[0u8; 1024], &[5, 7], TileShape::T32, &mut values[1..]).unwrap_err();
    assert_eq!(
        error,
        FormatError::ValueCount {
            shape: vec![5, 7],
            expected: 35,
            found: 34
        }
    );
}

#[test]
fn values_of_every_plain_type_are_read() {
    let cases: [(DataType, Vec<u8>, f32); 7] = [
        (DataType::BFloat16, vec![0xc0, 0xbf], -1.5),
        (DataType::Float32, (-0.1f32).to_le_bytes().to_vec(), -0.1),
        (
            DataType::UInt32,
            4_000_000_000u32.to_le_bytes().to_vec(),
            4e9,
        ),
        (DataType::UInt8, vec![255], 255.0),
        (DataType::UInt16, vec![1, 2], 513.0),
        (DataType::Int32, (-7i32).to_le_bytes().to_vec(), -7.0),
        (DataType::Int8, vec![0x80], -128.0),
    ];
    for (dtype, element, value) in cases {
        assert_eq!(dtype.element_bytes(), Some(element.len()));
        for layout in [Layout::RowMajor, Layout::TILE] {
            let header = Header::new(dtype, layout, &[3, 4]).unwrap();
            let count = usize::try_from(header.data_bytes()).unwrap() / element.len();
            let file = header.to_file(&element.repeat(count)).unwrap();
            let read = TensorFile::parse(file).unwrap();
            assert_eq!(read.values().unwrap().elements, [value; 12], "{dtype}");
        }
    }
}

#[test]
fn a_tensor_cut_along_two_dimensions_is_put_together() {
    // A [4, 6] tensor over a 2 x 3 mesh: rows along the first axis of the mesh, columns along the second.
    let whole: Vec<f32> = (0..24u8).map(f32::from).collect();
    let mut header = Header::placed(
        DataType::Float32,
        Layout::RowMajor,
        &[2, 2],
        6,
        Placement::Shard(0),
    )
    .unwrap();
    header.mesh_shape = vec![2, 3];
    let coordinates: Vec<Vec<u32>> = (0..6).map(|device| vec![device / 3, device % 3]).collect();
    for (shard, coordinate) in header.shards.iter_mut().zip(&coordinates) {
        shard.coordinate.clone_from(coordinate);
    }
    let placements = vec![Placement::Shard(0), Placement::Shard(-1)];
    header.topology = Some(Topology {
        shape: vec![2, 3],
        placements,
        coordinates,
    });
    let mut data = vec![0; usize::try_from(header.data_bytes()).unwrap()];
    for (device, offset) in header
        .shards
        .iter()
        .map(|shard| usize::try_from(shard.offset).unwrap())
        .enumerate()
    {
        let (top, left) = (device / 3 * 2, device % 3 * 2);
        for (place, (row, column)) in [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().enumerate() {
            let value = whole[(top + row) * 6 + left + column];
            data[offset + 4 * place..][..4].copy_from_slice(&value.to_le_bytes());
        }
    }
    let file = header.to_file(&data).unwrap();
    let values = TensorFile::parse(file).unwrap().values().unwrap();
    assert_eq!((values.shape, values.elements), (vec![4, 6], whole));
}
