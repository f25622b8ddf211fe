//! Device memory of a pass.

use tt_device::Backend;

use super::Model;
use crate::ModelError;

/// Buffers for passes of at most `rows` tokens. Contents mean nothing between passes, except the
/// final-normed hidden rows of the last one.
#[derive(Debug)]
pub struct Workspace<B: Backend> {
    pub(super) rows: usize,
    pub(super) ids: B::Buf<u32>,
    pub(super) position: B::Buf<u32>,
    /// The residual stream, `[rows, hidden]`.
    pub(super) x: B::Buf<f32>,
    /// The norm of it that a mixer or MLP reads.
    pub(super) normed: B::Buf<f32>,
    /// What a mixer or MLP adds to the stream.
    pub(super) branch: B::Buf<f32>,
    /// Final-normed rows of the last pass.
    pub(super) hidden: B::Buf<f32>,
    /// Fused projections: `[rows, channels]` or `[rows, 2 * query_width]`.
    pub(super) projected: B::Buf<f32>,
    pub(super) a: B::Buf<f32>,
    pub(super) b: B::Buf<f32>,
    pub(super) z: B::Buf<f32>,
    /// Core output of either mixer, before and after its gate.
    pub(super) core: B::Buf<f32>,
    pub(super) gated: B::Buf<f32>,
    pub(super) query: B::Buf<f32>,
    pub(super) key: B::Buf<f32>,
    pub(super) key_normed: B::Buf<f32>,
    pub(super) value: B::Buf<f32>,
    pub(super) gate: B::Buf<f32>,
    pub(super) up: B::Buf<f32>,
    pub(super) down_in: B::Buf<f32>,
    /// Rows that the head reads, and what it says.
    pub(super) head_in: B::Buf<f32>,
    pub(super) logits: Logits<B>,
}

/// Room for logits rows, grown to what was asked for: a prompt pass wants one, scoring wants all.
#[derive(Debug)]
pub(super) struct Logits<B: Backend> {
    pub(super) rows: usize,
    pub(super) buf: B::Buf<f32>,
}

impl<B: Backend> Workspace<B> {
    /// Buffers for `model` and passes of at most `rows` tokens.
    ///
    /// # Errors
    /// [`ModelError::Device`] when there is no memory.
    pub fn new(model: &Model<B>, rows: usize) -> Result<Self, ModelError> {
        let device = &*model.device;
        let config = &model.config;
        let rows = rows.max(1);
        let floats = |width: usize| device.alloc::<f32>(rows * width);
        let value_heads = config.delta.value_heads;
        let core = config.delta_value_width().max(config.query_width());
        Ok(Self {
            rows,
            ids: device.alloc(rows)?,
            position: device.alloc(1)?,
            x: floats(config.hidden)?,
            normed: floats(config.hidden)?,
            branch: floats(config.hidden)?,
            hidden: floats(config.hidden)?,
            projected: floats(
                config
                    .delta
                    .channels()
                    .max(2 * config.query_width())
                    .max(2 * config.hidden),
            )?,
            a: floats(value_heads)?,
            b: floats(value_heads)?,
            z: floats(config.delta_value_width())?,
            core: floats(core)?,
            gated: floats(core)?,
            query: floats(config.query_width())?,
            key: floats(config.kv_width())?,
            key_normed: floats(config.kv_width())?,
            value: floats(config.kv_width())?,
            gate: floats(config.intermediate.max(config.query_width()))?,
            up: floats(config.intermediate)?,
            down_in: floats(config.intermediate)?,
            head_in: floats(config.hidden)?,
            logits: Logits {
                rows: 1,
                buf: device.alloc(config.vocab)?,
            },
        })
    }

    /// The widest pass.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Final-normed rows of the last trunk pass, `[rows, hidden]`.
    pub(crate) const fn hidden(&self) -> &B::Buf<f32> {
        &self.hidden
    }

    pub(super) fn reserve_logits(
        &mut self,
        device: &B,
        rows: usize,
        vocab: usize,
    ) -> Result<(), ModelError> {
        if self.logits.rows < rows {
            self.logits = Logits {
                rows,
                buf: device.alloc(rows * vocab)?,
            };
        }
        Ok(())
    }
}
