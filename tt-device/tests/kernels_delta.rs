//! The gated delta layer of every instruction set against the definition.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed test panics, and test sizes are small"
)]

mod kernels_support;

use kernels_support::{Noise, assert_bits, buffer, devices, number};
use proptest::prelude::*;
use tt_device::reference::convolution::conv_silu;
use tt_device::reference::delta::{beta, decay, delta_step};
use tt_device::reference::norm::l2_norm;
use tt_device::{Backend, Cpu, DeltaInputs, DeltaShape, DeltaState, Keep, Ops};

struct Layer {
    shape: DeltaShape,
    mixed: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    taps: Vec<f32>,
    rate: Vec<f32>,
    dt_bias: Vec<f32>,
    recurrent: Vec<f32>,
    window: Vec<f32>,
}

impl Layer {
    fn new(noise: &mut Noise, shape: DeltaShape, rows: usize) -> Self {
        Self {
            shape,
            mixed: noise.units(rows * shape.channels(), 2.0),
            a: noise.units(rows * shape.value_heads, 4.0),
            b: noise.units(rows * shape.value_heads, 4.0),
            taps: noise.units(4 * shape.channels(), 1.0),
            rate: noise
                .units(shape.value_heads, 1.0)
                .into_iter()
                .map(f32::abs)
                .collect(),
            dt_bias: noise.units(shape.value_heads, 1.0),
            recurrent: noise.units(shape.state(), 1.0),
            window: noise.units(shape.window(), 1.0),
        }
    }

    /// Output rows, and the state and window after each row.
    fn definition(&self, rows: usize) -> (Vec<f32>, Vec<Vec<f32>>, Vec<Vec<f32>>) {
        let shape = self.shape;
        let channels = shape.channels();
        let history: Vec<f32> = self.window.iter().chain(&self.mixed).copied().collect();
        let (mut out, mut states, mut windows) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = self.recurrent.clone();
        let group = shape.value_heads / shape.key_heads;
        let keys = shape.key_heads * shape.key_dim;
        for r in 0..rows {
            let mut convolved = vec![0.0; channels];
            let taps = [0, 1, 2, 3].map(|j| &self.taps[j * channels..][..channels]);
            conv_silu(
                taps,
                [0, 1, 2, 3].map(|j| &history[(r + j) * channels..][..channels]),
                &mut convolved,
            );
            for h in 0..shape.value_heads {
                let (mut q, mut k) = (vec![0.0; shape.key_dim], vec![0.0; shape.key_dim]);
                let at = h / group * shape.key_dim;
                l2_norm(
                    &convolved[at..][..shape.key_dim],
                    1e-6,
                    1.0 / (shape.key_dim as f32).sqrt(),
                    &mut q,
                );
                l2_norm(&convolved[keys + at..][..shape.key_dim], 1e-6, 1.0, &mut k);
                let v = &convolved[2 * keys + h * shape.value_dim..][..shape.value_dim];
                let gate = r * shape.value_heads + h;
                let size = shape.key_dim * shape.value_dim;
                let mut o = vec![0.0; shape.value_dim];
                delta_step(
                    &q,
                    &k,
                    v,
                    decay(self.a[gate], self.rate[h], self.dt_bias[h]),
                    beta(self.b[gate]),
                    &mut state[h * size..][..size],
                    &mut o,
                );
                out.extend(o);
            }
            states.push(state.clone());
            windows.push(history[(r + 1) * channels..][..3 * channels].to_vec());
        }
        (out, states, windows)
    }

    /// Runs the rows in passes of `chunk`; gives output, all lanes of state, all lanes of windows.
    fn run(
        &self,
        cpu: &Cpu,
        rows: usize,
        chunk: usize,
        lanes: usize,
        active: usize,
        keep: Keep,
    ) -> [Vec<f32>; 3] {
        let shape = self.shape;
        let in_lane = |x: &[f32]| {
            let mut all = vec![0.25; lanes * x.len()];
            all[active * x.len()..][..x.len()].copy_from_slice(x);
            buffer(cpu, &all)
        };
        let (mut recurrent, mut window) = (in_lane(&self.recurrent), in_lane(&self.window));
        let lane = number(cpu, active as u32);
        let (taps, rate, dt_bias) = (
            buffer(cpu, &self.taps),
            buffer(cpu, &self.rate),
            buffer(cpu, &self.dt_bias),
        );
        let mut all = Vec::new();
        for first in (0..rows).step_by(chunk) {
            let rows = chunk.min(rows - first);
            let part = |x: &[f32], width: usize| buffer(cpu, &x[first * width..][..rows * width]);
            let mixed = part(&self.mixed, shape.channels());
            let (a, b) = (
                part(&self.a, shape.value_heads),
                part(&self.b, shape.value_heads),
            );
            let mut out = cpu
                .alloc(rows * shape.value_heads * shape.value_dim)
                .unwrap();
            cpu.execute(|rec| {
                let inputs = DeltaInputs {
                    mixed: &mixed,
                    a: &a,
                    b: &b,
                    taps: &taps,
                    rate: &rate,
                    dt_bias: &dt_bias,
                    shape,
                };
                let state = DeltaState {
                    recurrent: &mut recurrent,
                    window: &mut window,
                    lane: &lane,
                    lanes,
                    keep,
                };
                rec.delta(inputs, state, rows, &mut out);
                Ok(())
            })
            .unwrap();
            all.extend_from_slice(out.as_slice());
        }
        [
            all,
            recurrent.as_slice().to_vec(),
            window.as_slice().to_vec(),
        ]
    }
}

fn check(layer: &Layer, rows: usize, chunk: usize) {
    let (out, states, windows) = layer.definition(rows);
    for cpu in devices() {
        let [got, recurrent, window] = layer.run(cpu, rows, chunk, 1, 0, Keep::Last);
        assert_bits(cpu, "delta output", &got, &out);
        assert_bits(cpu, "delta state", &recurrent, states.last().unwrap());
        assert_bits(cpu, "window", &window, windows.last().unwrap());

        let (lanes, active) = (rows + 2, 1);
        let [got, recurrent, window] = layer.run(cpu, rows, rows, lanes, active, Keep::Each);
        assert_bits(cpu, "delta output of a verify pass", &got, &out);
        for r in 0..rows {
            let lane = (active + 1 + r) % lanes;
            assert_bits(
                cpu,
                "state lane",
                &recurrent[lane * layer.shape.state()..][..layer.shape.state()],
                &states[r],
            );
            assert_bits(
                cpu,
                "window lane",
                &window[lane * layer.shape.window()..][..layer.shape.window()],
                &windows[r],
            );
        }
        let kept = &recurrent[active * layer.shape.state()..][..layer.shape.state()];
        assert_bits(cpu, "the active lane", kept, &layer.recurrent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn delta_layers_equal_the_definition(
        seed in any::<u64>(),
        key_heads in 1usize..4,
        group in 1usize..4,
        key_dim in 1usize..40,
        value_dim in 1usize..150,
        rows in 1usize..7,
        chunk in 1usize..4,
    ) {
        let shape = DeltaShape { key_heads, value_heads: key_heads * group, key_dim, value_dim };
        let layer = Layer::new(&mut Noise::new(seed), shape, rows);
        check(&layer, rows, chunk);
    }
}

#[test]
fn a_layer_of_the_real_head_size_equals_the_definition() {
    let shape = DeltaShape {
        key_heads: 2,
        value_heads: 4,
        key_dim: 128,
        value_dim: 128,
    };
    let layer = Layer::new(&mut Noise::new(17), shape, 9);
    check(&layer, 9, 5);
}
