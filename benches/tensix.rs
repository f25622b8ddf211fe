//! How fast is the matrix unit's model, and what does each fidelity cost?
//!
//! Elements are multiplications (m x k x n) of the matmul, not of its phases. Weights are BFP4 tiles as a
//! package stores them, unpacked on the way; threads are rayon's own. `decode` is one row, `prefill` 32. The mark to
//! beat is `prefill lofi f32`: a simulator takes 3.75 s for it, and the model is to stay under 0.5 s on two cores.

use std::hint::black_box;

use bfp_format::{BlockFormat, Packing, pack};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tt_device::tensix::{Accumulate, Fidelity, Kernel, MatrixUnit, Weights};
use tt_device::{MatrixShape, WeightFormat, WeightView};

const SHAPE: MatrixShape = MatrixShape {
    inputs: 4096,
    outputs: 4096,
};

/// Uniform in [-0.5, 0.5), of a fixed sequence.
fn values(count: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let [.., low, high] = state.to_le_bytes();
        f32::from(u16::from_le_bytes([low, high])) / 65536.0 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

fn matmul(c: &mut Criterion) {
    let format = BlockFormat::Bfp4;
    let weights = values(SHAPE.inputs * SHAPE.outputs);
    let bytes = pack(
        &weights,
        &[SHAPE.inputs, SHAPE.outputs],
        Packing::new(format),
    )
    .expect("a finite matrix packs");
    let view = WeightView::tiles(SHAPE, WeightFormat::Block(format), bytes.into())
        .expect("packed bytes are whole tiles");
    let weights = Weights::from_view(&view);
    for (name, rows) in [("decode", 1), ("prefill", 32)] {
        let activations = values(rows * SHAPE.inputs);
        let mut out = vec![0.0; rows * SHAPE.outputs];
        let mut group = c.benchmark_group(name);
        group.sample_size(10);
        group.throughput(Throughput::Elements(
            (rows * SHAPE.inputs * SHAPE.outputs) as u64,
        ));
        for kernel in Kernel::available() {
            for fidelity in Fidelity::ALL {
                for accumulate in Accumulate::ALL {
                    let unit = MatrixUnit {
                        fidelity,
                        accumulate,
                    };
                    let id = BenchmarkId::new(format!("{fidelity} {accumulate}"), kernel.name());
                    group.bench_function(id, |b| {
                        b.iter(|| {
                            unit.linear_with(kernel, black_box(&activations), &weights, &mut out);
                        });
                    });
                }
            }
        }
    }
}

criterion_group!(benches, matmul);
criterion_main!(benches);
