//! Faults that other block float codecs had, each as the behaviour that was wrong.

#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic like the test"
)]

use bfp_format::definition::{decode_value, encode_group, pack_codes};
use bfp_format::{
    BlockFormat, FormatError, GROUP, NonFinite, NonFiniteKind, NotCanonical, Packing, Rounding,
    TileShape, coordinates, first_non_finite, first_not_canonical, pack, unpack,
};
use half::bf16;

fn group(values: &[f32]) -> [f32; GROUP] {
    let mut group = [0.0; GROUP];
    group[..values.len()].copy_from_slice(values);
    group
}

fn round_trip(values: &[f32], format: BlockFormat) -> Vec<f32> {
    let shape = [1, values.len()];
    unpack(
        &pack(values, &shape, format).unwrap(),
        &shape,
        format,
        TileShape::T32,
    )
    .unwrap()
}

// tenstorrent/tt-metal#15889
#[test]
fn ties_go_to_the_even_magnitude() {
    // Beside 1.0 the unit of BFP8 is 1/64.
    let values = [
        1.0,
        1.0 + 1.0 / 128.0,
        1.0 + 3.0 / 128.0,
        -1.0 - 1.0 / 128.0,
        -1.0 - 3.0 / 128.0,
    ];
    let expected = [1.0, 1.0, 1.0 + 4.0 / 128.0, -1.0, -1.0 - 4.0 / 128.0];
    assert_eq!(round_trip(&values, BlockFormat::Bfp8), expected);
}

// tenstorrent/tt-metal#51831
#[test]
fn padding_does_not_touch_the_last_columns() {
    for format in BlockFormat::ALL {
        let mut row = vec![1e-3f32; 17];
        row[16] = 0.0078125;
        let packed = pack(&row, &[1, 17], format).unwrap();
        // The group of column 16 is the first of the right face: its exponent is that of its only element.
        assert_eq!(packed[16], 127 - 7);
        assert_eq!(
            unpack(&packed, &[1, 17], format, TileShape::T32).unwrap()[16],
            0.0078125
        );
    }
}

// tenstorrent/tt-metal#51831
#[test]
fn an_infinity_would_wipe_its_group_and_is_found_first() {
    let mut row = [1.0f32; 16];
    row[9] = f32::INFINITY;
    let kind = NonFiniteKind::Infinity;
    assert_eq!(first_non_finite(&row), Some(NonFinite { index: 9, kind }));
    let wiped = round_trip(&row, BlockFormat::Bfp8);
    assert!(wiped.iter().enumerate().all(|(i, &x)| if i == 9 {
        x == f32::INFINITY
    } else {
        x == 0.0
    }));
}

// tenstorrent/tt-metal#14032
#[test]
fn a_nan_is_named_with_its_index() {
    let mut values = vec![0.5f32; 8 * 7];
    values[3 * 7 + 5] = f32::NAN;
    let found = first_non_finite(&values).unwrap();
    assert_eq!(
        (found.kind, coordinates(found.index, &[8, 7])),
        (NonFiniteKind::Nan, vec![3, 5])
    );
}

// tenstorrent/tt-metal#4198
#[test]
fn every_representable_value_survives_a_round_trip() {
    for format in BlockFormat::ALL {
        for exponent in [7u8, 60, 127, 200, 254] {
            for magnitude in 0..=format.max_magnitude() {
                for sign in [1.0f32, -1.0] {
                    let unit = decode_value(format, exponent, 1);
                    let top = unit * f32::from(1u8 << (format.magnitude_bits() - 1));
                    let value = sign * f32::from(magnitude) * unit;
                    let values = group(&[top, value]);
                    for rounding in Rounding::ALL {
                        let (shared, codes) = encode_group(&values, format, rounding);
                        assert_eq!(shared, exponent);
                        assert_eq!(
                            decode_value(format, shared, codes[1]),
                            value,
                            "{format} {rounding} {exponent}"
                        );
                    }
                }
            }
        }
    }
}

// tenstorrent/tt-metal#51975
#[test]
fn encoding_what_was_decoded_gives_the_same_codes() {
    for format in BlockFormat::ALL {
        let width = format.magnitude_bits();
        let leading = 1u8 << (width - 1);
        for exponent in 1..=254u8 {
            // Canonical: the first element carries the shared exponent, and no leading one lies below exponent 1.
            for code in 0..=u8::MAX >> (7 - width) {
                let magnitude = code & format.max_magnitude();
                let missing = magnitude.leading_zeros().saturating_sub(8 - width);
                if (magnitude == 0 && code != 0)
                    || (magnitude != 0 && missing >= u32::from(exponent))
                {
                    continue;
                }
                let mut codes = [0; GROUP];
                (codes[0], codes[7]) = (leading, code);
                let values = codes.map(|code| decode_value(format, exponent, code));
                for rounding in Rounding::ALL {
                    assert_eq!(
                        encode_group(&values, format, rounding),
                        (exponent, codes),
                        "{format} {rounding}"
                    );
                }
            }
        }
    }
}

#[test]
fn zeros_denormals_and_carries_have_one_encoding() {
    for format in BlockFormat::ALL {
        for rounding in Rounding::ALL {
            let none = (0, [0; GROUP]);
            assert_eq!(encode_group(&[0.0; GROUP], format, rounding), none);
            assert_eq!(encode_group(&[-0.0; GROUP], format, rounding), none);
            assert_eq!(encode_group(&[-1e-40; GROUP], format, rounding), none);
        }
        // 0.9999 rounds up to 1.0, which its exponent cannot hold: it saturates, the exponent stays.
        let (exponent, codes) = encode_group(
            &group(&[0.9999, -0.9999]),
            format,
            Rounding::HostNearestEven,
        );
        let max = format.max_magnitude();
        assert_eq!(
            (exponent, codes[0], codes[1]),
            (126, max, max | 1 << format.magnitude_bits())
        );
        let (exponent, codes) =
            encode_group(&group(&[f32::MAX]), format, Rounding::HostNearestEven);
        assert_eq!((exponent, codes[0]), (254, max));
        assert!(decode_value(format, exponent, codes[0]).is_finite());
    }
}

// tenstorrent/tt-metal#6277
#[test]
fn shapes_that_are_no_multiple_of_a_tile_keep_their_elements() {
    for shape in [[1, 1], [33, 17], [32, 1], [1, 33]] {
        let count = shape[0] * shape[1];
        let values: Vec<f32> = (0..count).map(|i| 1.0 + (i % 64) as f32 / 64.0).collect();
        let packed = pack(&values, &shape, BlockFormat::Bfp8).unwrap();
        assert_eq!(
            packed.len(),
            shape[0].div_ceil(32) * shape[1].div_ceil(32) * 1088
        );
        assert_eq!(
            unpack(&packed, &shape, BlockFormat::Bfp8, TileShape::T32).unwrap(),
            values
        );
    }
    let error = pack(&[1.0f32; 5], &[2, 3], BlockFormat::Bfp8).unwrap_err();
    assert_eq!(
        error,
        FormatError::ValueCount {
            shape: vec![2, 3],
            expected: 6,
            found: 5
        }
    );
}

// tenstorrent/tt-metal#17018
#[test]
fn f32_becomes_bf16_to_nearest_even() {
    assert_eq!(bf16::from_f32(1.003_906_3), bf16::ONE);
    assert_eq!(bf16::from_f32(1.011_718_8).to_f32(), 1.015_625);
}

// tenstorrent/tt-metal#52155
#[test]
fn the_two_roundings_differ_and_each_is_what_its_name_says() {
    // 65,536 bf16 numbers, roughly normal, from a fixed generator.
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    let values: Vec<f32> = (0..65_536)
        .map(|_| bf16::from_f32((0..6).map(|_| uniform()).sum()).to_f32())
        .collect();
    for format in BlockFormat::ALL {
        let mut differing = 0;
        for values in values.as_chunks::<GROUP>().0 {
            let [host, device] =
                Rounding::ALL.map(|rounding| encode_group(values, format, rounding));
            let largest = values.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            assert_eq!(
                (host.0, device.0),
                (exponent_field(largest), exponent_field(largest))
            );
            let max = f64::from(format.max_magnitude());
            for ((&value, host), device) in values.iter().zip(host.1).zip(device.1) {
                // In units of the last place, as exact reals.
                let unit = |width: i32| {
                    2.0f64.powi(i32::from(exponent_field(largest)) - 127 - (width - 1))
                };
                let exact = f64::from(value.abs());
                let width = i32::try_from(format.magnitude_bits()).unwrap();
                let once = (exact / unit(width)).round_ties_even().min(max);
                let twice = ((exact / unit(7)).round().min(127.0) / 2.0f64.powi(7 - width)).floor();
                assert_eq!(
                    f64::from(host & format.max_magnitude()),
                    once,
                    "{value} {format}"
                );
                assert_eq!(
                    f64::from(device & format.max_magnitude()),
                    twice,
                    "{value} {format}"
                );
                differing += usize::from(host != device);
            }
        }
        assert!(differing > 0, "{format}");
        println!("{format}: {differing} of 65536 codes differ between the roundings");
    }
}

fn exponent_field(value: f32) -> u8 {
    u8::try_from(value.to_bits() >> 23 & 0xff).unwrap()
}

#[test]
fn codes_that_no_encoder_writes_are_found_where_they_lie() {
    let values: Vec<f32> = (0..64 * 64).map(|i| (i as f32 * 0.7).sin() + 1.5).collect();
    for format in BlockFormat::ALL {
        let packed = pack(&values, &[64, 64], format).unwrap();
        let check =
            |bytes: &[u8]| first_not_canonical(bytes, &[64, 64], format, TileShape::T32).unwrap();
        assert_eq!(check(&packed), None);
        // A shared exponent above every element's, in group 5 of tile 2.
        let tile = format.tile_bytes(TileShape::T32);
        let mut raised = packed.clone();
        for code in raised[2 * tile + 64..][5 * format.group_code_bytes()..]
            [..format.group_code_bytes()]
            .iter_mut()
        {
            *code = 0;
        }
        let exponent = raised[2 * tile + 5];
        let found = NotCanonical::Group {
            tile: 2,
            group: 5,
            exponent,
            canonical: 0,
        };
        assert_eq!(check(&raised), Some(found));
        // A sign without a magnitude.
        let mut negative_zero = packed.clone();
        let mut codes = [1u8 << (format.magnitude_bits() - 1); GROUP];
        codes[3] = 1 << format.magnitude_bits();
        pack_codes(format, &codes, &mut negative_zero[3 * tile + 64..]);
        let exponent = negative_zero[3 * tile];
        let found = NotCanonical::Group {
            tile: 3,
            group: 0,
            exponent,
            canonical: exponent,
        };
        assert_eq!(check(&negative_zero), Some(found));
    }
    let small = TileShape::new(4, 32).unwrap();
    let mut packed = pack(
        &values[..128],
        &[4, 32],
        Packing::new(BlockFormat::Bfp8).tile(small),
    )
    .unwrap();
    packed[11] = 9;
    let found = first_not_canonical(&packed, &[4, 32], BlockFormat::Bfp8, small).unwrap();
    assert_eq!(
        found,
        Some(NotCanonical::Padding {
            tile: 0,
            byte: 11,
            found: 9
        })
    );
}
