//! Every kernel of every instruction set present equals the scalar definition, bit for bit.

use bfp_format::definition::{decode_value, encode_group, pack_codes};
use bfp_format::{
    BlockFormat, Codec, GROUP, Isa, Packing, Rounding, Source, TileGrid, TileShape,
    first_not_canonical, pack, unpack,
};
use half::bf16;
use proptest::prelude::*;

fn codecs() -> impl Iterator<Item = Codec> {
    Isa::present().filter_map(Codec::with_isa)
}

/// Any bits: among them NaN, infinities, denormals, zeros of both signs, and numbers at every distance from a
/// common exponent, many of them ties.
fn number() -> impl Strategy<Value = f32> {
    let near = (any::<bool>(), 100u32..140, any::<u32>(), 0u32..24).prop_map(
        |(negative, exponent, fraction, zeros)| {
            let fraction = (fraction & 0x007f_ffff) >> zeros << zeros;
            f32::from_bits(u32::from(negative) << 31 | exponent << 23 | fraction)
        },
    );
    let special = prop::sample::select(vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::from_bits(0x807f_ffff),
        f32::from_bits(0x7f80_0001),
        f32::from_bits(0xffff_ffff),
    ]);
    prop_oneof![4 => near, 2 => any::<u32>().prop_map(f32::from_bits), 1 => special]
}

fn packing() -> impl Strategy<Value = Packing> {
    let format = prop::sample::select(BlockFormat::ALL.to_vec());
    let tile = prop::sample::select(TileShape::ALL.to_vec());
    let rounding = prop::sample::select(Rounding::ALL.to_vec());
    (format, tile, rounding, prop_oneof![Just(0.0), number()]).prop_map(
        |(format, tile, rounding, pad_value)| {
            Packing::new(format)
                .tile(tile)
                .rounding(rounding)
                .pad_value(pad_value)
        },
    )
}

fn matrix() -> impl Strategy<Value = (usize, usize, Vec<f32>)> {
    (1usize..70, 1usize..70).prop_flat_map(|(rows, columns)| {
        prop::collection::vec(number(), rows * columns)
            .prop_map(move |values| (rows, columns, values))
    })
}

/// Packing straight from the specification: group by group, without the library's walk over faces.
fn packed_by_definition(
    value: impl Fn(usize, usize) -> f32,
    rows: usize,
    columns: usize,
    packing: Packing,
) -> Vec<u8> {
    let Packing {
        format,
        tile,
        rounding,
        pad_value,
        ..
    } = packing;
    let mut bytes = Vec::new();
    for tile_row in (0..rows).step_by(tile.rows()) {
        for tile_column in (0..columns).step_by(tile.columns()) {
            let (mut exponents, mut codes) = (Vec::new(), Vec::new());
            for face_row in (0..tile.rows()).step_by(16) {
                for face_column in (0..tile.columns()).step_by(16) {
                    for row in 0..tile.rows().min(16) {
                        let group: [f32; GROUP] = std::array::from_fn(|i| {
                            let at = (tile_row + face_row + row, tile_column + face_column + i);
                            if at.0 < rows && at.1 < columns {
                                value(at.0, at.1)
                            } else {
                                pad_value
                            }
                        });
                        let (exponent, group) = encode_group(&group, format, rounding);
                        exponents.push(exponent);
                        let mut packed = [0; GROUP];
                        pack_codes(format, &group, &mut packed);
                        codes.extend_from_slice(&packed[..format.group_code_bytes()]);
                    }
                }
            }
            exponents.resize(exponents.len().max(16), 0);
            bytes.extend(exponents);
            bytes.extend(codes);
        }
    }
    bytes
}

proptest! {
    #[test]
    fn packing_equals_the_definition((rows, columns, values) in matrix(), packing in packing()) {
        let expected = packed_by_definition(|r, c| values[r * columns + c], rows, columns, packing);
        let halves: Vec<bf16> = values.iter().map(|&x| truncated(x)).collect();
        let expected_halves = packed_by_definition(|r, c| halves[r * columns + c].widen(), rows, columns, packing);
        for codec in codecs() {
            let isa = codec.isa();
            prop_assert!(codec.pack(&values, &[rows, columns], packing).unwrap() == expected, "f32 on {isa}");
            prop_assert!(codec.pack(&halves, &[rows, columns], packing).unwrap() == expected_halves, "bf16 on {isa}");
        }
    }

    #[test]
    fn packing_a_transpose_equals_the_definition((rows, columns, values) in matrix(), packing in packing()) {
        let expected = packed_by_definition(|r, c| values[c * columns + r], columns, rows, packing);
        let halves: Vec<bf16> = values.iter().map(|&x| truncated(x)).collect();
        let expected_halves = packed_by_definition(|r, c| halves[c * columns + r].widen(), columns, rows, packing);
        for codec in codecs() {
            let isa = codec.isa();
            prop_assert!(codec.pack_transposed(&values, rows, columns, packing).unwrap() == expected, "f32 on {isa}");
            let packed = codec.pack_transposed(&halves, rows, columns, packing).unwrap();
            prop_assert!(packed == expected_halves, "bf16 on {isa}");
        }
    }

    #[test]
    fn unpacking_any_bytes_equals_the_definition(
        rows in 1usize..70,
        columns in 1usize..70,
        packing in packing(),
        seed in any::<u64>(),
    ) {
        let Packing { format, tile, .. } = packing;
        let grid = TileGrid::new(&[rows, columns], tile).unwrap();
        let bytes = random_bytes(seed, grid.packed_bytes(format));
        let scalar = Codec::with_isa(Isa::Scalar).unwrap().unpack(&bytes, &[rows, columns], format, tile).unwrap();
        for codec in codecs() {
            let values = codec.unpack(&bytes, &[rows, columns], format, tile).unwrap();
            prop_assert!(bits(&values) == bits(&scalar), "{}", codec.isa());
        }
    }

    #[test]
    fn canonical_is_what_packing_again_keeps(
        format in prop::sample::select(BlockFormat::ALL.to_vec()),
        values in prop::collection::vec(number(), 64 * 32),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let (shape, tile) = ([64, 32], TileShape::T32);
        let mut bytes = pack(&values, &shape, format).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let found = first_not_canonical(&bytes, &shape, format, tile).unwrap();
        let again = pack(&unpack(&bytes, &shape, format, tile).unwrap(), &shape, format).unwrap();
        prop_assert_eq!(found.is_none(), again == bytes, "{:?}", found);
    }

    #[test]
    fn bands_are_the_pieces_of_the_whole((outputs, inputs, values) in matrix(), packing in packing(), cut in any::<prop::sample::Index>()) {
        let codec = Codec::default();
        let whole = codec.pack_transposed(&values, outputs, inputs, packing).unwrap();
        let grid = TileGrid::new(&[inputs, outputs], packing.tile).unwrap();
        let cut = cut.index(grid.tile_rows() + 1);
        let row = grid.tile_columns() * packing.format.tile_bytes(packing.tile);
        let mut bytes = vec![0xaa; whole.len()];
        let (first, second) = bytes.split_at_mut(cut * row);
        codec.pack_transposed_band(&values, outputs, inputs, 0..cut, packing, first).unwrap();
        codec.pack_transposed_band(&values, outputs, inputs, cut..grid.tile_rows(), packing, second).unwrap();
        prop_assert!(bytes == whole);
    }
}

/// The upper half, so that any bits are possible, signalling NaNs too.
fn truncated(value: f32) -> bf16 {
    let [high, low, ..] = value.to_be_bytes();
    bf16::from_bits(u16::from_be_bytes([high, low]))
}

fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_exponent_with_every_code_decodes_as_defined() {
    for format in BlockFormat::ALL {
        let codes_per_exponent = 1usize << format.bits();
        let groups = codes_per_exponent.div_ceil(GROUP) * 256;
        let tiles = groups.div_ceil(64);
        let mut bytes = Vec::new();
        let mut expected = vec![0u32; tiles * 1024];
        for tile in 0..tiles {
            let (mut exponents, mut packed) = (Vec::new(), Vec::new());
            for group in 0..64 {
                let number = tile * 64 + group;
                let exponent = u8::try_from(number % 256).unwrap();
                let codes: [u8; GROUP] = std::array::from_fn(|i| {
                    u8::try_from((number / 256 * GROUP + i) % codes_per_exponent).unwrap()
                });
                exponents.push(exponent);
                let mut group_bytes = [0; GROUP];
                pack_codes(format, &codes, &mut group_bytes);
                packed.extend_from_slice(&group_bytes[..format.group_code_bytes()]);
                let (face, row) = (group / 16, group % 16);
                let at = (tile * 32 + face / 2 * 16 + row) * 32 + face % 2 * 16;
                for (i, code) in codes.into_iter().enumerate() {
                    expected[at + i] = decode_value(format, exponent, code).to_bits();
                }
            }
            bytes.extend(exponents);
            bytes.extend(packed);
        }
        for codec in codecs() {
            let values = codec
                .unpack(&bytes, &[tiles * 32, 32], format, TileShape::T32)
                .unwrap();
            assert!(bits(&values) == expected, "{format} on {}", codec.isa());
        }
    }
}

#[test]
fn every_bf16_beside_exponents_of_every_distance_encodes_as_defined() {
    // One group a bf16 value: the value itself, and others that raise the shared exponent above it.
    for distance in 0..=26u32 {
        let mut values = Vec::with_capacity(65_536 * 16);
        for half in 0..=u16::MAX {
            let bits = u32::from(half) << 16 | (u32::from(half).wrapping_mul(0x9e37_79b9) >> 16);
            let raised = (bits >> 23 & 0xff).saturating_add(distance).min(254) << 23;
            let mut group = [f32::from_bits(bits); GROUP];
            group[usize::from(half % 16)] = f32::from_bits(raised);
            values.extend(group);
        }
        for format in BlockFormat::ALL {
            for rounding in Rounding::ALL {
                let packing = Packing::new(format).rounding(rounding);
                let shape = [65_536 * 16 / 64, 64];
                let expected = Codec::with_isa(Isa::Scalar)
                    .unwrap()
                    .pack(&values, &shape, packing)
                    .unwrap();
                for codec in codecs().filter(|codec| codec.isa() != Isa::Scalar) {
                    let packed = codec.pack(&values, &shape, packing).unwrap();
                    assert!(
                        packed == expected,
                        "{format} {rounding} distance {distance} on {}",
                        codec.isa()
                    );
                }
            }
        }
    }
}

#[test]
fn the_default_codec_is_the_fastest_present() {
    assert_eq!(Some(Codec::default().isa()), Isa::present().last());
    assert_eq!(Isa::present().next(), Some(Isa::Scalar));
}
