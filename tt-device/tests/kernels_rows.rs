//! Norms, gates, sums and the largest element of every instruction set against the definition.

#![expect(
    clippy::unwrap_used,
    reason = "a failed test panics, and test sizes are small"
)]

mod kernels_support;

use kernels_support::{Noise, assert_bits, buffer, devices};
use proptest::prelude::*;
use tt_device::reference::math::{EXP_MAX, EXP_MIN};
use tt_device::reference::{elementwise, norm};
use tt_device::{Backend, Ops};

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_equal_the_definition(seed in any::<u64>(), width in 1usize..200, rows in 1usize..4) {
        let mut noise = Noise::new(seed);
        let (x, y) = (noise.wilds(rows * width), noise.wilds(rows * width));
        check_rows(&x, &y, width);
    }

    #[test]
    fn the_largest_element_is_the_first_of_its_equals(
        row in prop::collection::vec(prop::sample::select(
            &[0.0f32, -0.0, 1.0, 2.0, -1.0, f32::NEG_INFINITY, f32::NAN]), 1..80),
    ) {
        check_top(&row);
    }
}

fn check_rows(x: &[f32], y: &[f32], width: usize) {
    let (rows, len) = (x.len() / width, x.len());
    let mut normed = vec![0.0; len];
    for (x, out) in x.chunks_exact(width).zip(normed.chunks_exact_mut(width)) {
        norm::rms_norm(x, &y[..width], 1e-6, out);
    }
    let (mut sum, mut gated, mut product) = (x.to_vec(), x.to_vec(), vec![0.0; len]);
    elementwise::add(&mut sum, y);
    elementwise::sigmoid_mul(&mut gated, y);
    elementwise::silu_mul(x, y, &mut product);
    for cpu in devices() {
        let (left, right) = (buffer(cpu, x), buffer(cpu, y));
        let scale = buffer(cpu, &y[..width]);
        let mut out = [(); 2].map(|()| cpu.alloc(len).unwrap());
        let mut in_place = [buffer(cpu, x), buffer(cpu, x)];
        cpu.execute(|rec| {
            rec.rms_norm(&left, &scale, 1e-6, rows, &mut out[0]);
            rec.silu_mul(&left, &right, len, &mut out[1]);
            rec.add(&mut in_place[0], &right, len);
            rec.sigmoid_mul(&mut in_place[1], &right, len);
            Ok(())
        })
        .unwrap();
        assert_bits(cpu, "rms_norm", out[0].as_slice(), &normed);
        assert_bits(cpu, "silu_mul", out[1].as_slice(), &product);
        assert_bits(cpu, "add", in_place[0].as_slice(), &sum);
        assert_bits(cpu, "sigmoid_mul", in_place[1].as_slice(), &gated);
    }
}

fn check_top(row: &[f32]) {
    for cpu in devices() {
        let x = buffer(cpu, row);
        let mut top = cpu.alloc(1).unwrap();
        cpu.execute(|rec| {
            rec.top(&x, row.len(), 1, &mut top);
            Ok(())
        })
        .unwrap();
        assert_eq!(
            top.as_slice()[0] as usize,
            elementwise::argmax(row),
            "{} {row:?}",
            cpu.describe()
        );
    }
}

#[test]
fn exp_meets_its_edges_in_every_lane() {
    let step = |x: f32, by: i32| f32::from_bits(x.to_bits().wrapping_add_signed(by));
    let mut x = vec![
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ];
    for edge in [
        EXP_MIN,
        EXP_MAX,
        -EXP_MIN,
        -EXP_MAX,
        0.5 * std::f32::consts::LN_2,
        88.0,
        -87.0,
        1e4,
        -1e4,
    ] {
        x.extend((-3..=3).map(|by| step(edge, by)));
    }
    for turn in 0..16 {
        x.rotate_left(turn % 2);
        check_rows(&x, &vec![1.0; x.len()], x.len());
        let y = x.clone();
        check_rows(&vec![1.0; x.len()], &y, x.len());
    }
}

#[test]
fn long_slices_are_split_without_a_trace() {
    let mut noise = Noise::new(5);
    let len = (1 << 16) + 77;
    check_rows(&noise.units(len, 9.0), &noise.units(len, 9.0), len);
    let mut row = noise.units(100_000, 1.0);
    row[77_777] = 3.0;
    row[88_888] = 3.0;
    check_top(&row);
}

#[test]
fn exp_equals_the_definition_over_its_range() {
    let steps = 1 << 18;
    let gate: Vec<f32> = (0..steps)
        .map(|i| -92.0 + 184.0 * i as f32 / steps as f32)
        .collect();
    check_rows(&gate, &vec![1.0; steps], steps);
}
