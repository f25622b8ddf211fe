//! The operations of the model, as a device's recorder sees them.
//!
//! What changes from step to step (token ids, the first position, the active lane) is in device
//! memory, never an argument, so that a recording stays valid. Rows are independent: row i has the
//! same bits whatever other rows are there.

use crate::Backend;

/// Heads inside a wider row: head `h` is at `offset + h * stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSlice {
    /// Elements of a whole source row.
    pub row: usize,
    /// First element of head 0.
    pub offset: usize,
    /// From one head to the next.
    pub stride: usize,
    /// How many heads.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

/// Query heads over key/value heads; query head h reads key/value head `h / (heads / kv_heads)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

/// Heads of a gated delta layer; value head h uses key head `h / (value_heads / key_heads)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaShape {
    /// Query and key heads.
    pub key_heads: usize,
    /// Value heads, one state each.
    pub value_heads: usize,
    /// Elements of a query or key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
}

impl DeltaShape {
    /// Channels of the convolution: queries, keys, values.
    #[must_use]
    pub const fn channels(self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Elements of one lane of recurrent state, `[value_heads, key_dim, value_dim]`.
    #[must_use]
    pub const fn state(self) -> usize {
        self.value_heads * self.key_dim * self.value_dim
    }

    /// Elements of one lane of the convolution window, `[3, channels]`, oldest row first.
    #[must_use]
    pub const fn window(self) -> usize {
        3 * self.channels()
    }
}

/// What becomes of the recurrent state after each row of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Only the state after the last row, in the active lane: prefill and plain decoding.
    Last,
    /// The state after row i in lane `active + 1 + i` (modulo the lane count), the active lane
    /// untouched: a verify pass, of which any prefix may be kept.
    Each,
}

/// Memory of one gated delta layer.
#[derive(Debug)]
pub struct DeltaState<'a, B: Backend> {
    /// `[lanes, value_heads, key_dim, value_dim]`.
    pub recurrent: &'a mut B::Buf<f32>,
    /// `[lanes, 3, channels]`.
    pub window: &'a mut B::Buf<f32>,
    /// The active lane, one element.
    pub lane: &'a B::Buf<u32>,
    /// How many lanes there are.
    pub lanes: usize,
    /// What to keep.
    pub keep: Keep,
}

/// Inputs and constants of one gated delta layer between its projections.
#[derive(Debug)]
pub struct DeltaInputs<'a, B: Backend> {
    /// `in_proj_qkv(x)`, `[rows, channels]`: queries, keys, values.
    pub mixed: &'a B::Buf<f32>,
    /// `in_proj_a(x)`, `[rows, value_heads]`.
    pub a: &'a B::Buf<f32>,
    /// `in_proj_b(x)`, `[rows, value_heads]`.
    pub b: &'a B::Buf<f32>,
    /// Convolution taps, `[4, channels]`.
    pub taps: &'a B::Buf<f32>,
    /// `exp(A_log)`, `[value_heads]`.
    pub rate: &'a B::Buf<f32>,
    /// `[value_heads]`.
    pub dt_bias: &'a B::Buf<f32>,
    /// Heads.
    pub shape: DeltaShape,
}

/// One of several linears of the same input.
#[derive(Debug)]
pub struct LinearOut<'a, B: Backend> {
    /// Side by side, as in [`Ops::linear`].
    pub weights: &'a [&'a B::Weight],
    /// `[rows, sum of outputs]`.
    pub out: &'a mut B::Buf<f32>,
}

/// Operations that go into a recorder. Shapes are row-major; `rows` counts the tokens of a pass.
pub trait Ops<B: Backend> {
    /// `out[r] = table[ids[r]]`, `[rows, width]`.
    fn embed(&mut self, table: &B::Weight, ids: &B::Buf<u32>, rows: usize, out: &mut B::Buf<f32>);

    /// Norms `rows` rows of `scale`'s width: [`crate::reference::norm::rms_norm`].
    fn rms_norm(
        &mut self,
        x: &B::Buf<f32>,
        scale: &B::Buf<f32>,
        eps: f32,
        rows: usize,
        out: &mut B::Buf<f32>,
    );

    /// `out[r] = [x[r] W0, x[r] W1, ..]`: [`crate::reference::linear`], with activations rounded as the
    /// contract says. Weights side by side share their inputs; a single one is the usual case, three
    /// are the queries, keys and values of a delta layer whose projection is stored in parts.
    fn linear(
        &mut self,
        x: &B::Buf<f32>,
        weights: &[&B::Weight],
        rows: usize,
        out: &mut B::Buf<f32>,
    );

    /// Copies heads out of wider rows: `out[rows, heads, head_dim]`.
    fn take_heads(&mut self, x: &B::Buf<f32>, slice: HeadSlice, rows: usize, out: &mut B::Buf<f32>);

    /// Copies rows of `width` elements: row `from + r` of `x` to row `to + r` of `out`, for `r < rows`.
    fn copy_rows(
        &mut self,
        x: &B::Buf<f32>,
        from: usize,
        width: usize,
        rows: usize,
        out: &mut B::Buf<f32>,
        to: usize,
    );

    /// `out[r] = [a[r], b[r]]`, both of `width`.
    fn concat(
        &mut self,
        a: &B::Buf<f32>,
        b: &B::Buf<f32>,
        width: usize,
        rows: usize,
        out: &mut B::Buf<f32>,
    );

    /// Rotates heads in place, row r at `position[0] + r`: [`crate::reference::rope`].
    fn rope(
        &mut self,
        x: &mut B::Buf<f32>,
        frequencies: &B::Buf<f32>,
        position: &B::Buf<u32>,
        heads: usize,
        head_dim: usize,
        rows: usize,
    );

    /// Stores key and value rows `[rows, heads, head_dim]` at `position[0]` on, rounded as the contract
    /// says.
    fn kv_append(
        &mut self,
        kv: &mut B::Kv,
        keys: &B::Buf<f32>,
        values: &B::Buf<f32>,
        position: &B::Buf<u32>,
        rows: usize,
    );

    /// Row r attends to stored rows `0..=position[0] + r`: [`crate::reference::attention`], scale
    /// `head_dim^-0.5`. `q` and `out` are `[rows, heads, head_dim]`.
    fn attend(
        &mut self,
        q: &B::Buf<f32>,
        kv: &B::Kv,
        position: &B::Buf<u32>,
        shape: AttentionShape,
        rows: usize,
        out: &mut B::Buf<f32>,
    );

    /// Convolution, silu, l2 norms and the gated delta rule over `rows` tokens in order:
    /// `out[rows, value_heads, value_dim]`, the state advanced as [`Keep`] says.
    /// [`crate::reference::convolution`], [`crate::reference::delta`].
    fn delta(
        &mut self,
        inputs: DeltaInputs<'_, B>,
        state: DeltaState<'_, B>,
        rows: usize,
        out: &mut B::Buf<f32>,
    );

    /// `out = silu(gate) * up`, `len` elements.
    fn silu_mul(&mut self, gate: &B::Buf<f32>, up: &B::Buf<f32>, len: usize, out: &mut B::Buf<f32>);

    /// `x *= sigmoid(gate)`, `len` elements.
    fn sigmoid_mul(&mut self, x: &mut B::Buf<f32>, gate: &B::Buf<f32>, len: usize);

    /// `x += y`, `len` elements.
    fn add(&mut self, x: &mut B::Buf<f32>, y: &B::Buf<f32>, len: usize);

    /// The index of the largest element of each row, lowest index among equals.
    fn top(&mut self, x: &B::Buf<f32>, width: usize, rows: usize, out: &mut B::Buf<u32>);

    /// The residual of a linear: `x[rows, outputs] += input W`. `scratch` holds `[rows, outputs]`.
    fn linear_add(
        &mut self,
        input: &B::Buf<f32>,
        weight: &B::Weight,
        outputs: usize,
        rows: usize,
        scratch: &mut B::Buf<f32>,
        x: &mut B::Buf<f32>,
    ) {
        self.linear(input, &[weight], rows, scratch);
        self.add(x, scratch, rows * outputs);
    }

    /// Several linears of one input, in order; a device may round or pack the input once.
    fn linears(&mut self, x: &B::Buf<f32>, rows: usize, parts: &mut [LinearOut<'_, B>]) {
        for part in parts {
            self.linear(x, part.weights, rows, part.out);
        }
    }
}
