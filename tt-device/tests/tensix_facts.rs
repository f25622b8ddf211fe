//! What follows from the rules of `tensix/1` for the formats people use.

use bfp_format::definition::{decode_value, encode_group};
use bfp_format::{BlockFormat, GROUP, Rounding};
use tt_device::tensix::packing::truncate_to_bf16;
use tt_device::tensix::{Accumulate, Fidelity, MatmulShape, MatrixUnit};

const SHAPE: MatmulShape = MatmulShape {
    m: 16,
    k: 256,
    n: 64,
};

/// About normal, of a fixed sequence: the sum of four uniform numbers.
fn sequence(len: usize, mut state: u64) -> Vec<f32> {
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let [.., low, high] = state.to_le_bytes();
        f32::from(u16::from_le_bytes([low, high])) / 32768.0 - 1.0
    };
    (0..len)
        .map(|_| uniform() + uniform() + uniform() + uniform())
        .collect()
}

fn blocks(values: &[f32], format: BlockFormat) -> Vec<f32> {
    let groups = values.as_chunks::<GROUP>().0.iter();
    groups
        .flat_map(|group| {
            let (exponent, codes) = encode_group(group, format, Rounding::DeviceNearestAway);
            codes.map(|code| decode_value(format, exponent, code))
        })
        .collect()
}

fn bf16(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| truncate_to_bf16(*x)).collect()
}

fn product(
    fidelity: Fidelity,
    accumulate: Accumulate,
    activations: &[f32],
    weights: &[f32],
) -> Vec<u32> {
    let mut out = vec![f32::NAN; SHAPE.m * SHAPE.n];
    MatrixUnit {
        fidelity,
        accumulate,
    }
    .matmul(activations, weights, SHAPE, &mut out);
    out.iter().map(|x| x.to_bits()).collect()
}

/// Activations and weights before they are stored in a format.
fn operands() -> (Vec<f32>, Vec<f32>) {
    (
        sequence(SHAPE.m * SHAPE.k, 11),
        sequence(SHAPE.k * SHAPE.n, 12),
    )
}

#[test]
fn bfp4_weights_are_whole_at_lofi() {
    let (activations, weights) = operands();
    let weights = blocks(&weights, BlockFormat::Bfp4);
    for activations in [bf16(&activations), blocks(&activations, BlockFormat::Bfp8)] {
        for accumulate in Accumulate::ALL {
            let lofi = product(Fidelity::LoFi, accumulate, &activations, &weights);
            assert_eq!(
                product(Fidelity::HiFi2, accumulate, &activations, &weights),
                lofi,
                "{accumulate}"
            );
        }
    }
}

#[test]
fn bfp8_weights_and_bf16_weights_need_hifi2() {
    let (activations, weights) = operands();
    let activations = blocks(&activations, BlockFormat::Bfp8);
    for weights in [blocks(&weights, BlockFormat::Bfp8), bf16(&weights)] {
        for accumulate in Accumulate::ALL {
            let lofi = product(Fidelity::LoFi, accumulate, &activations, &weights);
            assert_ne!(
                product(Fidelity::HiFi2, accumulate, &activations, &weights),
                lofi,
                "{accumulate}"
            );
        }
    }
}

#[test]
fn bfp8_activations_have_no_bits_that_a_higher_fidelity_would_read() {
    // Seven bits with the leading one, all read by phase 0: what phases 2 and 3 read is empty.
    let (activations, weights) = operands();
    let activations = blocks(&activations, BlockFormat::Bfp8);
    for weights in [blocks(&weights, BlockFormat::Bfp8), bf16(&weights)] {
        for accumulate in Accumulate::ALL {
            let hifi2 = product(Fidelity::HiFi2, accumulate, &activations, &weights);
            assert_eq!(
                product(Fidelity::HiFi3, accumulate, &activations, &weights),
                hifi2,
                "{accumulate}"
            );
            assert_eq!(
                product(Fidelity::HiFi4, accumulate, &activations, &weights),
                hifi2,
                "{accumulate}"
            );
        }
    }
    let weights = blocks(&weights, BlockFormat::Bfp4);
    let lofi = product(Fidelity::LoFi, Accumulate::F32, &activations, &weights);
    assert_eq!(
        product(Fidelity::HiFi4, Accumulate::F32, &activations, &weights),
        lofi
    );
}

#[test]
fn the_last_bit_of_a_bf16_activation_counts_from_hifi3() {
    let (activations, weights) = operands();
    let weights = blocks(&weights, BlockFormat::Bfp8);
    let activations = bf16(&activations);
    let without: Vec<f32> = activations
        .iter()
        .map(|x| f32::from_bits(x.to_bits() & !(1 << 16)))
        .collect();
    assert_ne!(without, activations);
    for accumulate in Accumulate::ALL {
        for fidelity in Fidelity::ALL {
            let whole = product(fidelity, accumulate, &activations, &weights);
            let cut = product(fidelity, accumulate, &without, &weights);
            assert_eq!(
                whole == cut,
                fidelity < Fidelity::HiFi3,
                "{fidelity} {accumulate}"
            );
        }
    }
}

#[test]
fn a_higher_fidelity_may_lose_bits_though_its_phases_are_empty() {
    // The facts above hold where sums do not vanish. Here 2^40 - 2^40 leaves nothing in phase 0 and then
    // 1 is added; phase 1 has nothing to add either, but aligns the destination to 2^35 again.
    let mut activations = [0.0; 32];
    let mut weights = [0.0; 32];
    (activations[0], weights[0]) = (1.0, 2.0f32.powi(40));
    (activations[1], weights[1]) = (-1.0, 2.0f32.powi(40));
    (activations[16], weights[16]) = (1.0, 1.0);
    let product = |fidelity| {
        let mut out = [f32::NAN];
        let unit = MatrixUnit {
            fidelity,
            accumulate: Accumulate::F32,
        };
        unit.matmul(
            &activations,
            &weights,
            MatmulShape { m: 1, k: 32, n: 1 },
            &mut out,
        );
        out[0]
    };
    assert_eq!(product(Fidelity::LoFi), 1.0);
    assert_eq!(product(Fidelity::HiFi2), 0.0);
}
