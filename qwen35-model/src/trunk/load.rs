//! Weights from a source onto a device.

use std::sync::Arc;

use bfp_format::BlockFormat;
use tt_device::reference::math::rope_frequencies;
use tt_device::{Backend, MatrixShape};

use super::attention::AttentionLayer;
use super::delta::DeltaLayer;
use super::mlp::Mlp;
use super::mtp::MtpHead;
use super::{Layer, Mixer, Model};
use crate::weights::{Requantized, TensorSource};
use crate::{LayerKind, ModelConfig, ModelError, names};

/// How the runtime keeps its own copy of the draft head, whose weights a package stores losslessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftWeights {
    /// Rounded to a block format when loaded; BFP8 is the default of [`LoadOptions`].
    Block(BlockFormat),
    /// As stored.
    Stored,
}

/// What to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Load the MTP head where the source has one.
    pub mtp: bool,
    /// In which form.
    pub draft_weights: DraftWeights,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            mtp: true,
            draft_weights: DraftWeights::Block(BlockFormat::Bfp8),
        }
    }
}

impl<B: Backend> Model<B> {
    /// Loads a model. Every shape is checked here, once; passes trust it.
    ///
    /// # Errors
    /// [`ModelError::MissingTensor`], [`ModelError::TensorShape`], [`ModelError::TensorType`] naming the
    /// tensor; [`ModelError::Device`] when the device cannot take it.
    pub fn load(
        device: Arc<B>,
        config: ModelConfig,
        source: &dyn TensorSource,
        options: LoadOptions,
    ) -> Result<Self, ModelError> {
        let dev = &*device;
        let layers = config
            .layers
            .iter()
            .enumerate()
            .map(|(i, kind)| load_layer(dev, &config, source, *kind, i))
            .collect::<Result<Vec<_>, _>>()?;
        let head = MatrixShape {
            inputs: config.hidden,
            outputs: config.vocab,
        };
        // A tied model's package may hold the head as a tensor of its own, quantised from the embedding.
        let head_name = if config.tied && !source.contains(names::HEAD) {
            names::EMBED
        } else {
            names::HEAD
        };
        let mtp =
            if options.mtp && config.mtp_layers > 0 && source.contains(&names::mtp("fc.weight")) {
                Some(match options.draft_weights {
                    DraftWeights::Block(format) => {
                        MtpHead::load(dev, &config, &Requantized::new(source, format))?
                    }
                    DraftWeights::Stored => MtpHead::load(dev, &config, source)?,
                })
            } else {
                None
            };
        Ok(Self {
            embed: dev.load(source.table(names::EMBED, config.vocab, config.hidden)?)?,
            layers,
            norm: norm_scale(dev, source, names::NORM, config.hidden)?,
            head: dev.load(source.matrix(head_name, head)?)?,
            frequencies: upload(dev, &rope_frequencies(config.rope_theta, config.rotary_dim))?,
            mtp,
            config,
            device,
        })
    }
}

fn load_layer<B: Backend>(
    device: &B,
    config: &ModelConfig,
    source: &dyn TensorSource,
    kind: LayerKind,
    index: usize,
) -> Result<Layer<B>, ModelError> {
    let name = |part: &str| names::layer(index, part);
    Ok(Layer {
        input_norm: norm_scale(
            device,
            source,
            &name("input_layernorm.weight"),
            config.hidden,
        )?,
        mixer: match kind {
            LayerKind::Delta => Mixer::Delta(DeltaLayer::load(device, config, source, &name)?),
            LayerKind::Attention => {
                Mixer::Attention(AttentionLayer::load(device, config, source, &name)?)
            }
        },
        post_norm: norm_scale(
            device,
            source,
            &name("post_attention_layernorm.weight"),
            config.hidden,
        )?,
        mlp: Mlp::load(device, config, source, &name)?,
    })
}

/// A norm weight as the scale that the device multiplies by: `1 + w` where it is stored zero-centred.
pub(super) fn norm_scale<B: Backend>(
    device: &B,
    source: &dyn TensorSource,
    name: &str,
    width: usize,
) -> Result<B::Buf<f32>, ModelError> {
    let scale: Vec<f32> = source
        .vector(name, &[width])?
        .into_iter()
        .map(|w| source.norm_offset() + w)
        .collect();
    upload(device, &scale)
}

pub(super) fn upload<B: Backend>(device: &B, values: &[f32]) -> Result<B::Buf<f32>, ModelError> {
    let mut buf = device.alloc(values.len())?;
    device.write(&mut buf, 0, values)?;
    Ok(buf)
}
