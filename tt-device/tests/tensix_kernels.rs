//! Every kernel against the definition of `tensix/1`, and the ways to hand it weights and rows.

use std::ops::RangeInclusive;

use bfp_format::definition::{decode_value, encode_group, pack_codes};
use bfp_format::{BlockFormat, GROUP, Rounding};
use proptest::collection::vec;
use proptest::prelude::*;
use tt_device::tensix::packing::{round_to_bf16, truncate_to_bf16};
use tt_device::tensix::{
    Accumulate, ActivationFormat, Columns, Fidelity, Kernel, LinearSettings, MatmulShape,
    MatrixUnit, ResultFormat, Weights, definition,
};
use tt_device::{Isa, MatrixShape, WeightFormat, WeightView};

fn units() -> impl Iterator<Item = MatrixUnit> {
    Fidelity::ALL.into_iter().flat_map(|fidelity| {
        Accumulate::ALL
            .into_iter()
            .map(move |accumulate| MatrixUnit {
                fidelity,
                accumulate,
            })
    })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn defined(unit: MatrixUnit, activations: &[f32], weights: &[f32], shape: MatmulShape) -> Vec<f32> {
    let mut out = vec![f32::NAN; shape.m * shape.n];
    definition::matmul(unit, activations, weights, shape, &mut out);
    out
}

/// A bf16 number, now and then a zero, a subnormal or a number without fraction.
fn operand(exponents: RangeInclusive<u32>) -> impl Strategy<Value = f32> {
    let number = (any::<bool>(), exponents, 0..128u32);
    (number, 0..12u8).prop_map(|((negative, exponent, fraction), kind)| {
        let (exponent, fraction) = match kind {
            0 => (0, 0),
            1 => (0, fraction),
            2 => (exponent, 0),
            3 => (exponent, 0x7f),
            _ => (exponent, fraction),
        };
        f32::from_bits(u32::from(negative) << 31 | exponent << 23 | fraction << 16)
    })
}

/// Where the exponents of a matrix lie: all over, or close together at either end or the middle.
fn exponents() -> impl Strategy<Value = RangeInclusive<u32>> {
    prop_oneof![
        Just(0..=255),
        Just(1..=24),
        Just(230..=255),
        (1..=245u32, 0..=10u32).prop_map(|(low, width)| low..=low + width),
        (100..=130u32, 0..=24u32).prop_map(|(low, width)| low..=low + width),
    ]
}

fn matmuls() -> impl Strategy<Value = (MatmulShape, Vec<f32>, Vec<f32>)> {
    let shapes = (1..=3usize, 1..=100usize, 1..=40usize);
    (shapes, exponents(), exponents()).prop_flat_map(|((m, k, n), a, w)| {
        (
            Just(MatmulShape { m, k, n }),
            vec(operand(a), m * k),
            vec(operand(w), k * n),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn kernels_equal_the_definition((shape, activations, weights) in matmuls()) {
        for unit in units() {
            let expected = bits(&defined(unit, &activations, &weights, shape));
            for kernel in Kernel::available() {
                let mut out = vec![f32::NAN; shape.m * shape.n];
                unit.matmul_with(kernel, &activations, &weights, shape, &mut out);
                prop_assert_eq!(&bits(&out), &expected, "{:?} {:?}", unit, kernel);
            }
        }
    }
}

/// Numbers of a fixed sequence, uniform in [-1, 1) and truncated to bf16.
fn sequence(len: usize, mut state: u64) -> Vec<f32> {
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let [.., low, high] = state.to_le_bytes();
        truncate_to_bf16(f32::from(u16::from_le_bytes([low, high])) / 32768.0 - 1.0)
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn sums_overflow_and_come_back_alike_in_every_kernel() {
    let shape = MatmulShape { m: 2, k: 96, n: 40 };
    let activations: Vec<f32> = sequence(shape.m * shape.k, 1)
        .iter()
        .map(|x| x * 2.0f32.powi(100))
        .collect();
    let weights: Vec<f32> = sequence(shape.k * shape.n, 2)
        .iter()
        .map(|x| x * 2.0f32.powi(26))
        .collect();
    let mut infinite = 0;
    let mut finite = 0;
    for unit in units() {
        let expected = defined(unit, &activations, &weights, shape);
        infinite += expected.iter().filter(|x| x.is_infinite()).count();
        finite += expected.iter().filter(|x| x.is_finite()).count();
        assert!(expected.iter().all(|x| !x.is_nan()));
        for kernel in Kernel::available() {
            let mut out = vec![f32::NAN; expected.len()];
            unit.matmul_with(kernel, &activations, &weights, shape, &mut out);
            assert_eq!(bits(&out), bits(&expected), "{unit:?} {kernel:?}");
        }
    }
    assert!(
        infinite > 0 && finite > 0,
        "{infinite} infinite and {finite} finite results"
    );
}

#[test]
fn neither_threads_nor_other_rows_change_a_bit() {
    let shape = MatmulShape {
        m: 130,
        k: 70,
        n: 100,
    };
    let activations = sequence(shape.m * shape.k, 3);
    let weights = sequence(shape.k * shape.n, 4);
    let unit = MatrixUnit {
        fidelity: Fidelity::HiFi3,
        accumulate: Accumulate::F32,
    };
    let expected = bits(&defined(unit, &activations, &weights, shape));
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let mut out = vec![f32::NAN; expected.len()];
        pool.install(|| unit.matmul(&activations, &weights, shape, &mut out));
        assert_eq!(bits(&out), expected, "{threads} threads");
    }
    let prepared = Weights::from_values(
        &weights,
        MatrixShape {
            inputs: shape.k,
            outputs: shape.n,
        },
    );
    for row in [0, 64, 129] {
        let mut out = vec![f32::NAN; shape.n];
        unit.linear(
            &activations[row * shape.k..][..shape.k],
            &prepared,
            &mut out,
        );
        assert_eq!(
            bits(&out),
            expected[row * shape.n..][..shape.n],
            "row {row}"
        );
    }
}

#[test]
fn low_halves_of_operands_are_not_read() {
    let shape = MatmulShape { m: 1, k: 40, n: 8 };
    let widen = |values: &[f32]| -> Vec<f32> {
        values
            .iter()
            .map(|x| f32::from_bits(x.to_bits() | 0xabcd))
            .collect()
    };
    let (activations, weights) = (sequence(shape.k, 5), sequence(shape.k * shape.n, 6));
    let (wide_activations, wide_weights) = (widen(&activations), widen(&weights));
    for unit in units() {
        let expected = bits(&defined(unit, &activations, &weights, shape));
        assert_eq!(
            bits(&defined(unit, &wide_activations, &wide_weights, shape)),
            expected
        );
        let mut out = vec![f32::NAN; shape.n];
        unit.matmul(&wide_activations, &wide_weights, shape, &mut out);
        assert_eq!(bits(&out), expected);
    }
}

#[test]
fn nothing_to_sum_is_zero_and_no_rows_are_no_work() {
    let unit = MatrixUnit {
        fidelity: Fidelity::HiFi4,
        accumulate: Accumulate::F32,
    };
    let mut out = [f32::NAN; 6];
    unit.matmul(&[], &[], MatmulShape { m: 2, k: 0, n: 3 }, &mut out);
    assert_eq!(bits(&out), [0; 6]);
    unit.matmul(&[], &[1.0; 6], MatmulShape { m: 0, k: 2, n: 3 }, &mut []);
    unit.matmul(&[1.0; 6], &[], MatmulShape { m: 3, k: 2, n: 0 }, &mut []);
}

/// The bytes of `values` [inputs, outputs] in 32x32 tiles of four faces, and the values that they hold.
fn stored(values: &[f32], shape: MatrixShape, format: WeightFormat) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = Vec::new();
    let mut held = vec![f32::NAN; values.len()];
    for tile in 0..shape.tile_rows() * shape.tile_columns() {
        let (tile_row, tile_column) = (tile / shape.tile_columns(), tile % shape.tile_columns());
        let (mut exponents, mut codes) = (Vec::new(), Vec::new());
        for face_row in 0..64 {
            let (face, row) = (face_row / 16, face_row % 16);
            let k = tile_row * 32 + face / 2 * 16 + row;
            let first = tile_column * 32 + face % 2 * 16;
            let inside = |i: usize| {
                (k < shape.inputs && first + i < shape.outputs)
                    .then_some(k * shape.outputs + first + i)
            };
            let group: [f32; GROUP] =
                std::array::from_fn(|i| inside(i).map_or(0.0, |at| values[at]));
            let mut hold = |i: usize, value: f32| {
                if let Some(at) = inside(i) {
                    held[at] = value;
                }
            };
            match format {
                WeightFormat::Block(block) => {
                    let (exponent, group) = encode_group(&group, block, Rounding::HostNearestEven);
                    exponents.push(exponent);
                    let mut packed = [0; GROUP];
                    pack_codes(block, &group, &mut packed);
                    codes.extend_from_slice(&packed[..block.group_code_bytes()]);
                    for (i, code) in group.into_iter().enumerate() {
                        hold(i, decode_value(block, exponent, code));
                    }
                }
                WeightFormat::Bf16 | WeightFormat::F32 => {
                    for (i, value) in group.into_iter().enumerate() {
                        let value = if format == WeightFormat::Bf16 {
                            truncate_to_bf16(value)
                        } else {
                            value
                        };
                        hold(i, value);
                        let four = value.to_le_bytes();
                        codes.extend_from_slice(if format == WeightFormat::Bf16 {
                            &four[2..]
                        } else {
                            &four
                        });
                    }
                }
                other => panic!("no bytes known for {other:?}"),
            }
        }
        bytes.extend(exponents);
        bytes.extend(codes);
    }
    (bytes, held)
}

#[test]
fn stored_tiles_multiply_as_the_values_they_hold() {
    let shape = MatrixShape {
        inputs: 90,
        outputs: 75,
    };
    let rows = 3;
    let activations = sequence(rows * shape.inputs, 7);
    let values: Vec<f32> = sequence(shape.inputs * shape.outputs, 8)
        .iter()
        .map(|x| x * 1.37)
        .collect();
    let unit = MatrixUnit {
        fidelity: Fidelity::HiFi4,
        accumulate: Accumulate::F32,
    };
    let matmul = MatmulShape {
        m: rows,
        k: shape.inputs,
        n: shape.outputs,
    };
    let mut results = Vec::new();
    for format in [
        WeightFormat::Block(BlockFormat::Bfp8),
        WeightFormat::Block(BlockFormat::Bfp4),
        WeightFormat::Block(BlockFormat::Bfp2),
        WeightFormat::Bf16,
        WeightFormat::F32,
    ] {
        let (bytes, held) = stored(&values, shape, format);
        let view = WeightView::tiles(shape, format, bytes.into()).unwrap();
        let expected = bits(&defined(unit, &activations, &held, matmul));
        let weights = Weights::from_view(&view);
        assert_eq!(weights.shape(), shape);
        for kernel in Kernel::available() {
            let mut out = vec![f32::NAN; expected.len()];
            unit.linear_with(kernel, &activations, &weights, &mut out);
            assert_eq!(bits(&out), expected, "{format:?} {kernel:?}");
        }
        results.push(expected);
    }
    // The unpacker truncates f32 to bf16: the last two are the same weights. All others differ.
    assert_eq!(results.pop(), results.last().cloned());
    results.dedup();
    assert_eq!(results.len(), 4);
}

#[test]
fn a_linear_packs_before_and_after() {
    let shape = MatrixShape {
        inputs: 50,
        outputs: 33,
    };
    let rows = 2;
    let wide: Vec<f32> = sequence(rows * shape.inputs, 9)
        .iter()
        .map(|x| x * 1.0173)
        .collect();
    let values = sequence(shape.inputs * shape.outputs, 10);
    let weights = Weights::from_values(&values, shape);
    let unit = MatrixUnit {
        fidelity: Fidelity::HiFi2,
        accumulate: Accumulate::F32,
    };
    let matmul = MatmulShape {
        m: rows,
        k: shape.inputs,
        n: shape.outputs,
    };
    for activations in ActivationFormat::ALL {
        let mut packed = vec![0.0; wide.len()];
        for (row, out) in wide
            .chunks(shape.inputs)
            .zip(packed.chunks_mut(shape.inputs))
        {
            activations.pack_row(row, out);
        }
        let raw = defined(unit, &packed, &values, matmul);
        for results in ResultFormat::ALL {
            let settings = LinearSettings {
                unit,
                activations,
                results,
            };
            let mut out = vec![f32::NAN; raw.len()];
            settings.linear(&wide, &weights, &mut out);
            let expected: Vec<f32> = match results {
                ResultFormat::Bf16 => raw.iter().map(|x| round_to_bf16(*x)).collect(),
                ResultFormat::F32 => raw.clone(),
            };
            assert_eq!(bits(&out), bits(&expected), "{settings}");
        }
    }
    let settings = LinearSettings {
        unit,
        activations: ActivationFormat::Bfp8,
        results: ResultFormat::Bf16,
    };
    assert_eq!(
        settings.to_string(),
        "tensix/1 hifi2 accumulate=f32 activations=bfp8 results=bf16"
    );
}

#[test]
fn columns_beside_a_linears_own_are_left_alone() {
    let shape = MatrixShape {
        inputs: 40,
        outputs: 37,
    };
    let (rows, stride, offset) = (70, 50, 9);
    let activations = sequence(rows * shape.inputs, 13);
    let weights = Weights::from_values(&sequence(shape.inputs * shape.outputs, 14), shape);
    let unit = MatrixUnit {
        fidelity: Fidelity::LoFi,
        accumulate: Accumulate::Bf16,
    };
    let settings = LinearSettings {
        unit,
        activations: ActivationFormat::Bf16,
        results: ResultFormat::Bf16,
    };
    let mut whole = vec![f32::NAN; rows * shape.outputs];
    settings.linear(&activations, &weights, &mut whole);
    let mut out = vec![-7.0; rows * stride];
    let columns = Columns {
        out: &mut out,
        stride,
        offset,
    };
    settings.linear_columns(Kernel::within(Isa::Scalar), &activations, &weights, columns);
    for (row, whole) in out.chunks(stride).zip(whole.chunks(shape.outputs)) {
        assert_eq!(bits(&row[offset..][..shape.outputs]), bits(whole));
        let (before, after) = (&row[..offset], &row[offset + shape.outputs..]);
        assert!(before.iter().chain(after).all(|x| *x == -7.0));
    }
}

#[test]
fn a_kernel_needs_no_more_than_the_instruction_set_it_was_asked_within() {
    assert_eq!(Kernel::within(Isa::Scalar).name(), "portable");
    assert_eq!(Kernel::within(Isa::best()).name(), Kernel::best().name());
}
