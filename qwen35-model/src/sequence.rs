//! What one conversation carries from pass to pass.

use tt_device::{Backend, DeltaShape};

use crate::ModelError;

/// State of one layer.
#[derive(Debug)]
pub(crate) enum LayerState<B: Backend> {
    /// `[lanes, value_heads, key_dim, value_dim]` and `[lanes, 3, channels]`, f32.
    Delta {
        recurrent: B::Buf<f32>,
        window: B::Buf<f32>,
    },
    /// Rows beyond the sequence's length mean nothing: cutting a sequence is forgetting its length.
    Attention { kv: B::Kv },
}

/// The state of one sequence on a device: KV rows, lanes of recurrent state, and how much of it counts.
///
/// A verify pass writes the state after row i into the lane i + 1 places past the active one, so that
/// keeping any prefix of its rows is choosing a lane, and dropping them all is doing nothing.
#[derive(Debug)]
pub struct Sequence<B: Backend> {
    pub(crate) lane: B::Buf<u32>,
    pub(crate) layers: Vec<LayerState<B>>,
    pub(crate) mtp: Option<B::Kv>,
    /// Rows of the MTP head's KV that count.
    pub(crate) mtp_rows: usize,
    active: usize,
    lanes: usize,
    position: usize,
    context: usize,
    interrupted: bool,
}

impl<B: Backend> Sequence<B> {
    pub(crate) fn new(
        lane: B::Buf<u32>,
        layers: Vec<LayerState<B>>,
        mtp: Option<B::Kv>,
        context: usize,
        lanes: usize,
    ) -> Self {
        Self {
            lane,
            layers,
            mtp,
            mtp_rows: 0,
            active: 0,
            lanes,
            position: 0,
            context,
            interrupted: false,
        }
    }

    /// Tokens that the state has seen and kept.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// The most it can hold.
    #[must_use]
    pub const fn context(&self) -> usize {
        self.context
    }

    /// The widest verify pass: one row less than there are lanes.
    #[must_use]
    pub const fn verify_rows(&self) -> usize {
        self.lanes - 1
    }

    pub(crate) const fn lanes(&self) -> usize {
        self.lanes
    }

    /// Whether an error inside a prompt chunk left the layers at different positions.
    pub(crate) const fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// A pass that advances the active lane in place begins: until it ends well, the state is not whole.
    pub(crate) const fn begin_in_place(&mut self) {
        self.interrupted = true;
    }

    /// The state is lost: it must be cleared before the next pass.
    pub(crate) const fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// The pass that advanced the active lane over `rows` tokens ended well.
    pub(crate) const fn end_in_place(&mut self, rows: usize) {
        self.interrupted = false;
        self.position += rows;
    }

    /// Keeps the first `rows` rows of a verify pass.
    ///
    /// # Errors
    /// [`ModelError::Device`].
    pub(crate) fn keep(&mut self, device: &B, rows: usize) -> Result<(), ModelError> {
        self.activate(device, (self.active + rows) % self.lanes)?;
        self.position += rows;
        Ok(())
    }

    /// Back to the empty sequence.
    ///
    /// # Errors
    /// [`ModelError::Device`].
    pub fn clear(&mut self, device: &B, shape: DeltaShape) -> Result<(), ModelError> {
        self.activate(device, 0)?;
        let zeros = vec![0.0; shape.state().max(shape.window())];
        for layer in &mut self.layers {
            if let LayerState::Delta { recurrent, window } = layer {
                device.write(recurrent, 0, &zeros[..shape.state()])?;
                device.write(window, 0, &zeros[..shape.window()])?;
            }
        }
        self.position = 0;
        self.mtp_rows = 0;
        self.interrupted = false;
        Ok(())
    }

    /// Copies the recurrent state of the active lane, and the position it belongs to.
    ///
    /// # Errors
    /// [`ModelError::Interrupted`] when the state is not whole, [`ModelError::Device`].
    pub fn recurrent_state(
        &self,
        device: &B,
        shape: DeltaShape,
    ) -> Result<RecurrentState, ModelError> {
        if self.interrupted {
            return Err(ModelError::Interrupted);
        }
        let mut layers = Vec::new();
        for layer in &self.layers {
            if let LayerState::Delta { recurrent, window } = layer {
                let mut state = DeltaSnapshot {
                    recurrent: vec![0.0; shape.state()],
                    window: vec![0.0; shape.window()],
                };
                device.read(recurrent, self.active * shape.state(), &mut state.recurrent)?;
                device.read(window, self.active * shape.window(), &mut state.window)?;
                layers.push(state);
            }
        }
        Ok(RecurrentState {
            layers,
            position: self.position,
        })
    }

    /// Goes back (or forth) to a saved state. The caller knows that the KV rows below its position are
    /// those of the same tokens; `mtp_rows` of the MTP head's rows count.
    ///
    /// # Errors
    /// [`ModelError::Device`].
    pub fn restore(
        &mut self,
        device: &B,
        shape: DeltaShape,
        state: &RecurrentState,
        mtp_rows: usize,
    ) -> Result<(), ModelError> {
        self.interrupted = true;
        self.activate(device, 0)?;
        let mut saved = state.layers.iter();
        for layer in &mut self.layers {
            if let LayerState::Delta { recurrent, window } = layer
                && let Some(saved) = saved.next()
            {
                device.write(recurrent, 0, &saved.recurrent[..shape.state()])?;
                device.write(window, 0, &saved.window[..shape.window()])?;
            }
        }
        self.position = state.position;
        self.mtp_rows = mtp_rows;
        self.interrupted = false;
        Ok(())
    }

    /// Reads the key and value rows of attention layer `layer` that count, `[position, kv_heads, head_dim]`.
    ///
    /// # Errors
    /// [`ModelError::Device`]. A delta layer has none: both come back empty.
    pub fn kv_rows(&self, device: &B, layer: usize) -> Result<(Vec<f32>, Vec<f32>), ModelError> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        if let Some(LayerState::Attention { kv }) = self.layers.get(layer) {
            device.read_kv(kv, 0, self.position, &mut keys, &mut values)?;
        }
        Ok((keys, values))
    }

    fn activate(&mut self, device: &B, lane: usize) -> Result<(), ModelError> {
        #[expect(clippy::cast_possible_truncation, reason = "a handful of lanes")]
        device.write(&mut self.lane, 0, &[lane as u32])?;
        self.active = lane;
        Ok(())
    }
}

/// The recurrent state of all delta layers after some position, off the device.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrentState {
    /// One a delta layer, in order.
    pub layers: Vec<DeltaSnapshot>,
    /// Tokens it has seen.
    pub position: usize,
}

impl RecurrentState {
    /// Bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.layers
            .iter()
            .map(|layer| 4 * (layer.recurrent.len() + layer.window.len()))
            .sum()
    }
}

/// The recurrent state of one delta layer.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaSnapshot {
    /// `[value_heads, key_dim, value_dim]`.
    pub recurrent: Vec<f32>,
    /// `[3, channels]`, oldest row first.
    pub window: Vec<f32>,
}
