//! `config.json` of a Qwen3.5 checkpoint, parsed once into what the model is.

use serde::Deserialize;
use tt_device::{AttentionShape, DeltaShape};

use crate::ModelError;

/// Taps of the convolution before the delta rule; the only width that Qwen3.5 uses.
const CONV_TAPS: u64 = 4;
/// Bounds that no Qwen3.5 comes near: they keep products of sizes far from overflow.
const MAX_WIDTH: usize = 1 << 20;
const MAX_LAYERS: usize = 1 << 12;
const MAX_VOCAB: usize = 1 << 24;

/// How a layer mixes tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// Gated delta net: convolution, delta rule, recurrent state.
    Delta,
    /// Gated softmax attention with a KV cache.
    Attention,
}

/// The shape of a Qwen3.5 text model, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the MLP.
    pub intermediate: usize,
    /// Kinds of the layers, first to last.
    pub layers: Vec<LayerKind>,
    /// Heads of the attention layers.
    pub attention: AttentionShape,
    /// Elements of each head that rope rotates.
    pub rotary_dim: usize,
    /// Rope's base.
    pub rope_theta: f64,
    /// Heads of the delta layers.
    pub delta: DeltaShape,
    /// Rows of the embedding, padding included.
    pub vocab: usize,
    /// Epsilon of every rms norm.
    pub norm_eps: f32,
    /// Whether `lm_head` is the embedding.
    pub tied: bool,
    /// MTP layers the checkpoint announces (0 or 1 are usable).
    pub mtp_layers: usize,
    /// Longest sequence the model was made for, in tokens.
    pub max_positions: usize,
}

impl ModelConfig {
    /// Parses the text of `config.json`, nested (`text_config`) or flat. Unknown keys are ignored.
    ///
    /// # Errors
    /// [`ModelError::ConfigSyntax`] for malformed JSON or a missing field,
    /// [`ModelError::Config`] naming the field for a value that this model cannot have.
    pub fn parse(json: &[u8]) -> Result<Self, ModelError> {
        let outer: Outer = serde_json::from_slice(json).map_err(ModelError::ConfigSyntax)?;
        let text: Text = match outer.text_config {
            Some(text) => text,
            None => serde_json::from_slice(json).map_err(ModelError::ConfigSyntax)?,
        };
        let model_type = text
            .model_type
            .as_deref()
            .or(outer.model_type.as_deref())
            .unwrap_or_default();
        if !matches!(model_type, "qwen3_5" | "qwen3_5_text") {
            return Err(refused("model_type", "qwen3_5 or qwen3_5_text", model_type));
        }
        text.check()?;
        let tied = outer
            .tie_word_embeddings
            .or(text.tie_word_embeddings)
            .unwrap_or(false);
        text.into_config(tied)
    }

    /// Width of all query heads together.
    #[must_use]
    pub const fn query_width(&self) -> usize {
        self.attention.heads * self.attention.head_dim
    }

    /// Width of all key (or value) heads of an attention layer together.
    #[must_use]
    pub const fn kv_width(&self) -> usize {
        self.attention.kv_heads * self.attention.head_dim
    }

    /// Width of all query (or key) heads of a delta layer together.
    #[must_use]
    pub const fn delta_key_width(&self) -> usize {
        self.delta.key_heads * self.delta.key_dim
    }

    /// Width of all value heads of a delta layer together.
    #[must_use]
    pub const fn delta_value_width(&self) -> usize {
        self.delta.value_heads * self.delta.value_dim
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers pass numbers and literals as they are"
)]
fn refused(field: &'static str, expected: impl ToString, found: impl ToString) -> ModelError {
    ModelError::Config {
        field,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

#[derive(Deserialize)]
struct Outer {
    model_type: Option<String>,
    text_config: Option<Text>,
    tie_word_embeddings: Option<bool>,
}

#[derive(Deserialize)]
struct Text {
    model_type: Option<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    linear_num_key_heads: usize,
    linear_num_value_heads: usize,
    linear_key_head_dim: usize,
    linear_value_head_dim: usize,
    #[serde(default = "conv_taps")]
    linear_conv_kernel_dim: u64,
    layer_types: Option<Vec<String>>,
    #[serde(default = "interval")]
    full_attention_interval: usize,
    vocab_size: usize,
    rms_norm_eps: f64,
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    attn_output_gate: Option<bool>,
    tie_word_embeddings: Option<bool>,
    #[serde(default)]
    mtp_num_hidden_layers: usize,
    #[serde(default)]
    mtp_use_dedicated_embeddings: bool,
    max_position_embeddings: usize,
    rope_parameters: Option<Rope>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

#[derive(Deserialize)]
struct Rope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

const fn conv_taps() -> u64 {
    CONV_TAPS
}

const fn interval() -> usize {
    4
}

impl Text {
    fn check(&self) -> Result<(), ModelError> {
        let widths = [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("linear_num_key_heads", self.linear_num_key_heads),
            ("linear_num_value_heads", self.linear_num_value_heads),
            ("linear_key_head_dim", self.linear_key_head_dim),
            ("linear_value_head_dim", self.linear_value_head_dim),
        ];
        for (field, value) in widths {
            within(field, value, MAX_WIDTH)?;
        }
        for (field, heads, dim) in [
            (
                "num_attention_heads * head_dim",
                self.num_attention_heads,
                self.head_dim,
            ),
            (
                "linear_num_key_heads * linear_key_head_dim",
                self.linear_num_key_heads,
                self.linear_key_head_dim,
            ),
            (
                "linear_num_value_heads * linear_value_head_dim",
                self.linear_num_value_heads,
                self.linear_value_head_dim,
            ),
        ] {
            within(field, heads * dim, MAX_WIDTH)?;
        }
        within("num_hidden_layers", self.num_hidden_layers, MAX_LAYERS)?;
        within("vocab_size", self.vocab_size, MAX_VOCAB)?;
        within(
            "max_position_embeddings",
            self.max_position_embeddings,
            MAX_VOCAB,
        )?;
        if !self
            .num_attention_heads
            .is_multiple_of(self.num_key_value_heads)
        {
            let expected = format!(
                "a divisor of num_attention_heads ({})",
                self.num_attention_heads
            );
            return Err(refused(
                "num_key_value_heads",
                expected,
                self.num_key_value_heads,
            ));
        }
        if !self
            .linear_num_value_heads
            .is_multiple_of(self.linear_num_key_heads)
        {
            let expected = format!(
                "a divisor of linear_num_value_heads ({})",
                self.linear_num_value_heads
            );
            return Err(refused(
                "linear_num_key_heads",
                expected,
                self.linear_num_key_heads,
            ));
        }
        if self.linear_conv_kernel_dim != CONV_TAPS {
            return Err(refused(
                "linear_conv_kernel_dim",
                CONV_TAPS,
                self.linear_conv_kernel_dim,
            ));
        }
        if let Some(act) = self.hidden_act.as_deref().filter(|act| *act != "silu") {
            return Err(refused("hidden_act", "silu", act));
        }
        if self.attention_bias {
            return Err(refused("attention_bias", "false", "true"));
        }
        if self.attn_output_gate == Some(false) {
            return Err(refused("attn_output_gate", "true", "false"));
        }
        if self.mtp_use_dedicated_embeddings {
            return Err(refused("mtp_use_dedicated_embeddings", "false", "true"));
        }
        if !(self.rms_norm_eps > 0.0 && self.rms_norm_eps < 1.0) {
            return Err(refused(
                "rms_norm_eps",
                "a number between 0 and 1",
                self.rms_norm_eps,
            ));
        }
        Ok(())
    }

    fn into_config(self, tied: bool) -> Result<ModelConfig, ModelError> {
        let layers = self.layer_kinds()?;
        let rope = self.rope_parameters.as_ref();
        if let Some(kind) = rope
            .and_then(|r| r.rope_type.as_deref())
            .filter(|kind| *kind != "default")
        {
            return Err(refused("rope_parameters.rope_type", "default", kind));
        }
        let theta = rope
            .and_then(|r| r.rope_theta)
            .or(self.rope_theta)
            .unwrap_or(1e7);
        if !(theta > 1.0 && theta.is_finite()) {
            return Err(refused(
                "rope_parameters.rope_theta",
                "a number above 1",
                theta,
            ));
        }
        let factor = rope
            .and_then(|r| r.partial_rotary_factor)
            .or(self.partial_rotary_factor)
            .unwrap_or(0.25);
        if !(factor > 0.0 && factor <= 1.0) {
            return Err(refused(
                "rope_parameters.partial_rotary_factor",
                "a number in (0, 1]",
                factor,
            ));
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "head_dim is at most 2^20 and the factor in (0, 1]"
        )]
        let rotary_dim = (self.head_dim as f64 * factor) as usize;
        if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
            return Err(refused(
                "rope_parameters.partial_rotary_factor",
                "an even number of rotated elements",
                rotary_dim,
            ));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an epsilon such as 1e-6; f32 is what the norm uses"
        )]
        let norm_eps = self.rms_norm_eps as f32;
        Ok(ModelConfig {
            hidden: self.hidden_size,
            intermediate: self.intermediate_size,
            layers,
            attention: AttentionShape {
                heads: self.num_attention_heads,
                kv_heads: self.num_key_value_heads,
                head_dim: self.head_dim,
            },
            rotary_dim,
            rope_theta: theta,
            delta: DeltaShape {
                key_heads: self.linear_num_key_heads,
                value_heads: self.linear_num_value_heads,
                key_dim: self.linear_key_head_dim,
                value_dim: self.linear_value_head_dim,
            },
            vocab: self.vocab_size,
            norm_eps,
            tied,
            mtp_layers: self.mtp_num_hidden_layers,
            max_positions: self.max_position_embeddings,
        })
    }

    /// The explicit list where there is one; else every `full_attention_interval`-th layer attends.
    fn layer_kinds(&self) -> Result<Vec<LayerKind>, ModelError> {
        let Some(types) = &self.layer_types else {
            within(
                "full_attention_interval",
                self.full_attention_interval,
                MAX_LAYERS,
            )?;
            let attends = |i: usize| (i + 1).is_multiple_of(self.full_attention_interval);
            let kind = |i| {
                if attends(i) {
                    LayerKind::Attention
                } else {
                    LayerKind::Delta
                }
            };
            return Ok((0..self.num_hidden_layers).map(kind).collect());
        };
        if types.len() != self.num_hidden_layers {
            return Err(refused(
                "layer_types",
                format!("{} entries", self.num_hidden_layers),
                types.len(),
            ));
        }
        types
            .iter()
            .map(|kind| match kind.as_str() {
                "linear_attention" => Ok(LayerKind::Delta),
                "full_attention" => Ok(LayerKind::Attention),
                other => Err(refused(
                    "layer_types",
                    "linear_attention or full_attention",
                    other,
                )),
            })
            .collect()
    }
}

fn within(field: &'static str, value: usize, max: usize) -> Result<(), ModelError> {
    if value == 0 || value > max {
        return Err(refused(field, format!("1 to {max}"), value));
    }
    Ok(())
}
