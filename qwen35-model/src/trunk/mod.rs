//! The model on a device: weights, and the passes over them.

mod attention;
mod delta;
mod load;
mod mlp;
mod mtp;
mod pass;
mod score;
mod workspace;

use std::sync::Arc;

use tt_device::{Backend, KvShape};

use crate::sequence::{LayerState, Sequence};
use crate::{LayerKind, ModelConfig, ModelError};
use attention::AttentionLayer;
use delta::DeltaLayer;
use mlp::Mlp;

pub use load::{DraftWeights, LoadOptions};
pub use mtp::{DraftRows, MtpHead};
pub use pass::LogitsWanted;
pub use workspace::Workspace;

/// Qwen3.5 with its weights on a device.
///
/// Immutable: what changes lives in a [`Sequence`] (what a conversation carries) and a [`Workspace`]
/// (memory of a pass). The architecture is that of huggingface/transformers `models/qwen3_5`.
#[derive(Debug)]
pub struct Model<B: Backend> {
    device: Arc<B>,
    config: ModelConfig,
    embed: B::Weight,
    layers: Vec<Layer<B>>,
    norm: B::Buf<f32>,
    head: B::Weight,
    frequencies: B::Buf<f32>,
    mtp: Option<MtpHead<B>>,
}

#[derive(Debug)]
struct Layer<B: Backend> {
    input_norm: B::Buf<f32>,
    mixer: Mixer<B>,
    post_norm: B::Buf<f32>,
    mlp: Mlp<B>,
}

#[derive(Debug)]
enum Mixer<B: Backend> {
    Delta(DeltaLayer<B>),
    Attention(AttentionLayer<B>),
}

impl<B: Backend> Model<B> {
    /// The shape of the model.
    #[must_use]
    pub const fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The device it is on.
    #[must_use]
    pub const fn device(&self) -> &Arc<B> {
        &self.device
    }

    /// Whether the MTP head was loaded.
    #[must_use]
    pub const fn has_mtp(&self) -> bool {
        self.mtp.is_some()
    }

    /// An empty sequence of at most `context` tokens, with `lanes` lanes of recurrent state (one more
    /// than the rows of the widest verify pass).
    ///
    /// # Errors
    /// [`ModelError::Device`] when there is no memory for it.
    pub fn sequence(&self, context: usize, lanes: usize) -> Result<Sequence<B>, ModelError> {
        let device = &*self.device;
        let shape = self.config.delta;
        let kv = KvShape {
            capacity: context,
            heads: self.config.attention.kv_heads,
            head_dim: self.config.attention.head_dim,
        };
        let layers = self
            .config
            .layers
            .iter()
            .map(|kind| {
                Ok(match kind {
                    LayerKind::Delta => LayerState::Delta {
                        recurrent: device.alloc(lanes * shape.state())?,
                        window: device.alloc(lanes * shape.window())?,
                    },
                    LayerKind::Attention => LayerState::Attention {
                        kv: device.alloc_kv(kv)?,
                    },
                })
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        let mtp = self.mtp.as_ref().map(|_| device.alloc_kv(kv)).transpose()?;
        Ok(Sequence::new(device.alloc(1)?, layers, mtp, context, lanes))
    }
}
