//! The recorder of the CPU: it runs each operation at once.

use super::HostBuf;
use super::kernels::Kernels;
use super::memory::HostKv;
use super::ops;
use crate::Cpu;
use crate::numerics::Contract;
use crate::ops::{AttentionShape, DeltaInputs, DeltaState, HeadSlice, LinearOut, Ops};
use crate::weight::WeightView;

/// Memory that operations work in; contents mean nothing between operations.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) activations: HostBuf<f32>,
    pub(crate) delta: HostBuf<f32>,
    pub(crate) heads: HostBuf<f32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            activations: HostBuf::empty(),
            delta: HostBuf::empty(),
            heads: HostBuf::empty(),
        }
    }
}

/// Runs operations inside the compute pool.
#[derive(Debug)]
pub struct CpuRecorder<'d> {
    pub(crate) contract: Contract,
    pub(crate) kernels: &'static Kernels,
    pub(crate) scratch: &'d mut Scratch,
}

impl<'d> CpuRecorder<'d> {
    pub(crate) fn new(
        contract: Contract,
        kernels: &'static Kernels,
        scratch: &'d mut Scratch,
    ) -> Self {
        Self {
            contract,
            kernels,
            scratch,
        }
    }
}

impl Ops<Cpu> for CpuRecorder<'_> {
    fn embed(
        &mut self,
        table: &WeightView,
        ids: &HostBuf<u32>,
        rows: usize,
        out: &mut HostBuf<f32>,
    ) {
        ops::rows::embed(table, &ids.as_slice()[..rows], out.as_mut_slice());
    }

    fn rms_norm(
        &mut self,
        x: &HostBuf<f32>,
        scale: &HostBuf<f32>,
        eps: f32,
        rows: usize,
        out: &mut HostBuf<f32>,
    ) {
        let width = scale.as_slice().len();
        let rows = x.as_slice()[..rows * width].chunks_exact(width);
        for (x, out) in rows.zip(out.as_mut_slice().chunks_exact_mut(width)) {
            (self.kernels.rms_norm)(x, scale.as_slice(), eps, out);
        }
    }

    fn linear(
        &mut self,
        x: &HostBuf<f32>,
        weights: &[&WeightView],
        rows: usize,
        out: &mut HostBuf<f32>,
    ) {
        ops::linear::linears(self, x.as_slice(), rows, &mut [LinearOut { weights, out }]);
    }

    fn take_heads(
        &mut self,
        x: &HostBuf<f32>,
        slice: HeadSlice,
        rows: usize,
        out: &mut HostBuf<f32>,
    ) {
        ops::rows::take_heads(x.as_slice(), slice, rows, out.as_mut_slice());
    }

    fn copy_rows(
        &mut self,
        x: &HostBuf<f32>,
        from: usize,
        width: usize,
        rows: usize,
        out: &mut HostBuf<f32>,
        to: usize,
    ) {
        let x = &x.as_slice()[from * width..][..rows * width];
        out.as_mut_slice()[to * width..][..rows * width].copy_from_slice(x);
    }

    fn concat(
        &mut self,
        a: &HostBuf<f32>,
        b: &HostBuf<f32>,
        width: usize,
        rows: usize,
        out: &mut HostBuf<f32>,
    ) {
        ops::rows::concat(
            a.as_slice(),
            b.as_slice(),
            width,
            &mut out.as_mut_slice()[..2 * rows * width],
        );
    }

    fn rope(
        &mut self,
        x: &mut HostBuf<f32>,
        frequencies: &HostBuf<f32>,
        position: &HostBuf<u32>,
        heads: usize,
        head_dim: usize,
        rows: usize,
    ) {
        let first = position.as_slice()[0];
        let x = &mut x.as_mut_slice()[..rows * heads * head_dim];
        ops::rows::rope(x, frequencies.as_slice(), first, heads * head_dim, head_dim);
    }

    fn kv_append(
        &mut self,
        kv: &mut HostKv,
        keys: &HostBuf<f32>,
        values: &HostBuf<f32>,
        position: &HostBuf<u32>,
        rows: usize,
    ) {
        let width = kv.shape().heads * kv.shape().head_dim;
        let first = position.as_slice()[0] as usize;
        for r in 0..rows {
            let row = r * width..(r + 1) * width;
            kv.store(
                first + r,
                &keys.as_slice()[row.clone()],
                &values.as_slice()[row],
            );
        }
    }

    fn attend(
        &mut self,
        q: &HostBuf<f32>,
        kv: &HostKv,
        position: &HostBuf<u32>,
        shape: AttentionShape,
        rows: usize,
        out: &mut HostBuf<f32>,
    ) {
        let first = position.as_slice()[0] as usize;
        let len = rows * shape.heads * shape.head_dim;
        ops::attention::attend(
            self,
            &q.as_slice()[..len],
            kv,
            first,
            shape,
            rows,
            &mut out.as_mut_slice()[..len],
        );
    }

    fn delta(
        &mut self,
        inputs: DeltaInputs<'_, Cpu>,
        mut state: DeltaState<'_, Cpu>,
        rows: usize,
        out: &mut HostBuf<f32>,
    ) {
        ops::delta::delta(self, &inputs, &mut state, rows, out.as_mut_slice());
    }

    fn silu_mul(
        &mut self,
        gate: &HostBuf<f32>,
        up: &HostBuf<f32>,
        len: usize,
        out: &mut HostBuf<f32>,
    ) {
        let kernel = self.kernels.silu_mul;
        ops::rows::split2(
            &gate.as_slice()[..len],
            &up.as_slice()[..len],
            &mut out.as_mut_slice()[..len],
            kernel,
        );
    }

    fn sigmoid_mul(&mut self, x: &mut HostBuf<f32>, gate: &HostBuf<f32>, len: usize) {
        ops::rows::split1(
            &mut x.as_mut_slice()[..len],
            &gate.as_slice()[..len],
            self.kernels.sigmoid_mul,
        );
    }

    fn add(&mut self, x: &mut HostBuf<f32>, y: &HostBuf<f32>, len: usize) {
        ops::rows::split1(
            &mut x.as_mut_slice()[..len],
            &y.as_slice()[..len],
            self.kernels.add,
        );
    }

    fn top(&mut self, x: &HostBuf<f32>, width: usize, rows: usize, out: &mut HostBuf<u32>) {
        for (row, out) in x
            .as_slice()
            .chunks_exact(width)
            .take(rows)
            .zip(out.as_mut_slice())
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "vocabularies are far below 2^32"
            )]
            let index = (self.kernels.argmax)(row) as u32;
            *out = index;
        }
    }

    fn linears(&mut self, x: &HostBuf<f32>, rows: usize, parts: &mut [LinearOut<'_, Cpu>]) {
        ops::linear::linears(self, x.as_slice(), rows, parts);
    }
}
