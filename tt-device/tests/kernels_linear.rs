//! Linears of every instruction set against the definition, bit for bit.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed test panics, and test sizes are small"
)]

mod kernels_support;

use bfp_format::BlockFormat;
use bytes::Bytes;
use half::bf16;
use kernels_support::{Noise, assert_bits, buffer, devices};
use proptest::prelude::*;
use tt_device::reference::linear::linear_columns;
use tt_device::{Backend, Contract, LinearOut, MatrixShape, Ops, WeightFormat, WeightView};

const FORMATS: [WeightFormat; 5] = [
    WeightFormat::Block(BlockFormat::Bfp8),
    WeightFormat::Block(BlockFormat::Bfp4),
    WeightFormat::Block(BlockFormat::Bfp2),
    WeightFormat::Bf16,
    WeightFormat::F32,
];

/// Tiles of random codes; `extreme` draws exponents from everywhere, the bounds most of all.
fn weight(
    noise: &mut Noise,
    shape: MatrixShape,
    format: WeightFormat,
    extreme: bool,
) -> WeightView {
    let tiles = shape.tile_rows() * shape.tile_columns();
    let mut bytes = Vec::with_capacity(tiles * format.tile_bytes());
    let exponent = |noise: &mut Noise| match (extreme, noise.below(4)) {
        (true, 0) => noise.below(256) as u8,
        (true, 1) => [0, 1, 53, 54, 55, 56, 195, 196, 197, 255][noise.below(10) as usize],
        _ => 115 + noise.below(20) as u8,
    };
    for _ in 0..tiles {
        match format {
            WeightFormat::Block(_) => {
                bytes.extend((0..64).map(|_| exponent(noise)));
                bytes.extend((64..format.tile_bytes()).map(|_| noise.bits() as u8));
            }
            WeightFormat::Bf16 => {
                for _ in 0..1024 {
                    let field = u32::from(exponent(noise)).min(254);
                    let bits = (noise.bits() & 0x807f) | (field << 7);
                    bytes.extend((bits as u16).to_le_bytes());
                }
            }
            _ => {
                for _ in 0..1024 {
                    let field = u32::from(exponent(noise)).min(254);
                    let bits = (noise.bits() & 0x807f_ffff) | (field << 23);
                    bytes.extend(bits.to_le_bytes());
                }
            }
        }
    }
    WeightView::tiles(shape, format, Bytes::from(bytes)).unwrap()
}

fn definition(contract: Contract, x: &[f32], weight: &WeightView) -> Vec<f32> {
    let shape = weight.shape();
    let mut out = Vec::new();
    for x in x.chunks_exact(shape.inputs) {
        let mut padded: Vec<f32> = x.iter().map(|x| contract.activation(*x)).collect();
        padded.resize(shape.tile_rows() * 32, 0.0);
        let mut row = vec![0.0; shape.outputs];
        linear_columns(&padded, weight.bytes(), shape, weight.format(), 0, &mut row);
        out.extend(row);
    }
    out
}

fn check(x: &[f32], weight: &WeightView, rows: usize) {
    let shape = weight.shape();
    let expected =
        [Contract::Host1, Contract::HostF32].map(|contract| definition(contract, x, weight));
    for cpu in devices() {
        let input = buffer(cpu, x);
        let mut out = cpu.alloc(rows * shape.outputs).unwrap();
        cpu.execute(|rec| {
            rec.linear(&input, &[weight], rows, &mut out);
            Ok(())
        })
        .unwrap();
        let expected = &expected[usize::from(cpu.contract() == Contract::HostF32)];
        let what = format!(
            "{rows} rows of {}x{} {:?}",
            shape.inputs,
            shape.outputs,
            weight.format()
        );
        assert_bits(cpu, &what, out.as_slice(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn linears_equal_the_definition(
        seed in any::<u64>(),
        format in prop::sample::select(&FORMATS),
        inputs in 1usize..130,
        outputs in 1usize..420,
        rows in prop::sample::select(&[1usize, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 33]),
        extreme in any::<bool>(),
    ) {
        let mut noise = Noise::new(seed);
        let shape = MatrixShape { inputs, outputs };
        let weight = weight(&mut noise, shape, format, extreme);
        let x = if extreme { noise.wilds(rows * inputs) } else { noise.units(rows * inputs, 3.0) };
        check( &x, &weight, rows);
    }
}

#[test]
fn long_linears_of_every_format_equal_the_definition() {
    let mut noise = Noise::new(7);
    for format in FORMATS {
        for (inputs, outputs, rows) in [
            (1024, 288, 1),
            (512, 544, 2),
            (416, 160, 8),
            (640, 192, 64),
            (96, 32, 70),
        ] {
            let shape = MatrixShape { inputs, outputs };
            let weight = weight(&mut noise, shape, format, false);
            let x = noise.units(rows * inputs, 2.0);
            check(&x, &weight, rows);
        }
    }
}

#[test]
fn a_lone_row_has_the_bits_it_has_among_others() {
    let mut noise = Noise::new(11);
    let shape = MatrixShape {
        inputs: 200,
        outputs: 100,
    };
    for format in FORMATS {
        let weight = weight(&mut noise, shape, format, true);
        let x = noise.wilds(65 * shape.inputs);
        for cpu in devices() {
            let run = |x: &[f32]| {
                let rows = x.len() / shape.inputs;
                let input = buffer(cpu, x);
                let mut out = cpu.alloc(rows * shape.outputs).unwrap();
                cpu.execute(|rec| {
                    rec.linear(&input, &[&weight], rows, &mut out);
                    Ok(())
                })
                .unwrap();
                out.as_slice().to_vec()
            };
            let together = run(&x);
            for (r, x) in x.chunks_exact(shape.inputs).enumerate().step_by(8) {
                assert_bits(
                    cpu,
                    "one row",
                    &run(x),
                    &together[r * shape.outputs..][..shape.outputs],
                );
            }
        }
    }
}

#[test]
fn weights_side_by_side_equal_one_after_the_other() {
    let mut noise = Noise::new(13);
    let shapes = [40, 64, 3].map(|outputs| MatrixShape {
        inputs: 70,
        outputs,
    });
    let weights = shapes.map(|shape| weight(&mut noise, shape, FORMATS[1], false));
    let x = noise.units(5 * 70, 1.0);
    for cpu in devices() {
        let input = buffer(cpu, &x);
        let mut fused = cpu.alloc(5 * 107).unwrap();
        let views: Vec<_> = weights.iter().collect();
        cpu.execute(|rec| {
            rec.linears(
                &input,
                5,
                &mut [LinearOut {
                    weights: &views,
                    out: &mut fused,
                }],
            );
            Ok(())
        })
        .unwrap();
        let parts = weights
            .each_ref()
            .map(|weight| definition(cpu.contract(), &x, weight));
        let mut expected = Vec::new();
        for r in 0..5 {
            for (part, shape) in parts.iter().zip(shapes) {
                expected.extend(&part[r * shape.outputs..][..shape.outputs]);
            }
        }
        assert_bits(cpu, "side by side", fused.as_slice(), &expected);
    }
}

#[test]
fn not_a_number_crashes_no_kernel() {
    let shape = MatrixShape {
        inputs: 64,
        outputs: 64,
    };
    for format in FORMATS {
        let bytes = Bytes::from(vec![0xff; 4 * format.tile_bytes()]);
        let weight = WeightView::tiles(shape, format, bytes).unwrap();
        for cpu in devices() {
            let input = buffer(cpu, &vec![f32::NAN; 20 * 64]);
            let mut out = cpu.alloc(20 * 64).unwrap();
            cpu.execute(|rec| {
                rec.linear(&input, &[&weight], 20, &mut out);
                Ok(())
            })
            .unwrap();
            assert!(out.as_slice().iter().all(|y| y.is_nan()));
        }
    }
}

#[test]
fn identity_weights_give_the_rounded_input_back() {
    let shape = MatrixShape {
        inputs: 32,
        outputs: 32,
    };
    let mut tile = vec![0u8; 2048];
    for i in 0..32 {
        let at = (i / 16 * 3 * 256 + i % 16 * 17) * 2;
        tile[at..at + 2].copy_from_slice(&bf16::ONE.to_le_bytes());
    }
    let weight = WeightView::tiles(shape, WeightFormat::Bf16, Bytes::from(tile)).unwrap();
    let x = Noise::new(3).units(3 * 32, 5.0);
    for cpu in devices() {
        let input = buffer(cpu, &x);
        let mut out = cpu.alloc(96).unwrap();
        cpu.execute(|rec| {
            rec.linear(&input, &[&weight], 3, &mut out);
            Ok(())
        })
        .unwrap();
        let expected: Vec<f32> = x.iter().map(|x| cpu.contract().activation(*x)).collect();
        assert_bits(cpu, "identity", out.as_slice(), &expected);
    }
}
