//! Attention of every instruction set against the definition.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed test panics, and test sizes are small"
)]

mod kernels_support;

use kernels_support::{Noise, assert_bits, buffer, devices, number};
use proptest::prelude::*;
use tt_device::reference::attention::attend;
use tt_device::{AttentionShape, Backend, Contract, KvShape, Ops};

fn definition(
    contract: Contract,
    shape: AttentionShape,
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    first: usize,
) -> Vec<f32> {
    let dim = shape.head_dim;
    let scale = 1.0 / (dim as f32).sqrt();
    let mut out = vec![0.0; q.len()];
    let mut scores = Vec::new();
    for (i, (q, out)) in q
        .chunks_exact(dim)
        .zip(out.chunks_exact_mut(dim))
        .enumerate()
    {
        let (row, head) = (i / shape.heads, i % shape.heads);
        let kv_head = head / (shape.heads / shape.kv_heads);
        let at = |t: usize, d: usize| (t * shape.kv_heads + kv_head) * dim + d;
        attend(
            q,
            first + row + 1,
            scale,
            |t, d| contract.kv(keys[at(t, d)]),
            |t, d| contract.kv(values[at(t, d)]),
            &mut scores,
            out,
        );
    }
    out
}

/// `rows` queries after `first` stored rows; the store also holds later rows, which nobody may see.
fn check(noise: &mut Noise, shape: AttentionShape, first: usize, rows: usize, scale: f32) {
    let width = shape.kv_heads * shape.head_dim;
    let stored = first + rows + 20;
    let q = noise.units(rows * shape.heads * shape.head_dim, scale);
    let (mut keys, mut values) = (
        noise.units(stored * width, scale),
        noise.units(stored * width, 2.0),
    );
    for v in &mut values {
        // Values whose products vanish, of both signs: the sign of a zero is a bit too.
        if noise.below(4) == 0 {
            *v = 1e-30_f32.copysign(*v);
        }
    }
    keys[(first + rows) * width..].fill(f32::NAN);
    values[(first + rows) * width..].fill(f32::NAN);
    let expected = [Contract::Host1, Contract::HostF32]
        .map(|contract| definition(contract, shape, &q, &keys, &values, first));
    for cpu in devices() {
        let kv_shape = KvShape {
            capacity: stored,
            heads: shape.kv_heads,
            head_dim: shape.head_dim,
        };
        let mut kv = cpu.alloc_kv(kv_shape).unwrap();
        let (keys, values, q) = (buffer(cpu, &keys), buffer(cpu, &values), buffer(cpu, &q));
        let (start, position) = (number(cpu, 0), number(cpu, first as u32));
        let mut out = cpu.alloc(q.as_slice().len()).unwrap();
        cpu.execute(|rec| {
            rec.kv_append(&mut kv, &keys, &values, &start, stored);
            rec.attend(&q, &kv, &position, shape, rows, &mut out);
            Ok(())
        })
        .unwrap();
        let expected = &expected[usize::from(cpu.contract() == Contract::HostF32)];
        assert_bits(
            cpu,
            &format!("{rows} rows after {first} of {shape:?}"),
            out.as_slice(),
            expected,
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn attention_equals_the_definition(
        seed in any::<u64>(),
        kv_heads in 1usize..4,
        group in 1usize..7,
        head_dim in 1usize..150,
        first in 0usize..100,
        rows in 1usize..20,
        scale in prop::sample::select(&[0.1f32, 3.0, 30.0]),
    ) {
        let shape = AttentionShape { heads: kv_heads * group, kv_heads, head_dim };
        check(&mut Noise::new(seed), shape, first, rows, scale);
    }
}

#[test]
fn heads_of_the_real_size_equal_the_definition() {
    let mut noise = Noise::new(23);
    for (heads, kv_heads) in [(16, 4), (8, 2), (12, 2)] {
        let shape = AttentionShape {
            heads,
            kv_heads,
            head_dim: 256,
        };
        check(&mut noise, shape, 700, 1, 1.0);
        check(&mut noise, shape, 90, 37, 1.0);
    }
}
