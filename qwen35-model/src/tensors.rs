//! The tensors that a config implies: names, checkpoint shapes, and what each is for.

use crate::{LayerKind, ModelConfig, names};

/// What a tensor is for; it decides how a package may store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorRole {
    /// The embedding table: rows are looked up, so it stays row-major and lossless.
    Embedding,
    /// A zero-centred norm weight.
    Norm,
    /// The delta layer's gated norm, a plain weight.
    GatedNorm,
    /// Convolution taps.
    Taps,
    /// `A_log`: rounding it compounds over the sequence.
    DecayRate,
    /// `dt_bias`.
    DecayBias,
    /// The output head.
    Head,
    /// MLP gate or up projection.
    Widen,
    /// MLP down projection.
    Narrow,
    /// A projection of an attention layer.
    Attention,
    /// The fused query, key and value projection of a delta layer, which a package stores in parts.
    DeltaFused,
    /// The output gate or output projection of a delta layer.
    Delta,
    /// Projections to one number a head: decay and write strength.
    DeltaGate,
    /// The MTP head's input projection.
    MtpInput,
}

impl TensorRole {
    /// Whether this is the weight of a linear, `[outputs, inputs]` in a checkpoint.
    #[must_use]
    pub const fn is_linear(self) -> bool {
        matches!(
            self,
            Self::Head
                | Self::Widen
                | Self::Narrow
                | Self::Attention
                | Self::DeltaFused
                | Self::Delta
                | Self::DeltaGate
                | Self::MtpInput
        )
    }
}

/// One tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Canonical name ([`crate::names`]).
    pub name: String,
    /// Shape as a checkpoint stores it.
    pub shape: Vec<usize>,
    /// What it is for.
    pub role: TensorRole,
}

impl TensorSpec {
    fn new(name: String, shape: &[usize], role: TensorRole) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            role,
        }
    }
}

/// The trunk's tensors in the order of a pass. A tied model has no head of its own.
#[must_use]
pub fn trunk_tensors(config: &ModelConfig) -> Vec<TensorSpec> {
    let hidden = config.hidden;
    let mut all = vec![TensorSpec::new(
        names::EMBED.to_owned(),
        &[config.vocab, hidden],
        TensorRole::Embedding,
    )];
    for (layer, kind) in config.layers.iter().enumerate() {
        let name = |part: &str| names::layer(layer, part);
        all.push(TensorSpec::new(
            name("input_layernorm.weight"),
            &[hidden],
            TensorRole::Norm,
        ));
        match kind {
            LayerKind::Delta => all.extend(delta_tensors(config, &name)),
            LayerKind::Attention => all.extend(attention_tensors(config, &name)),
        }
        all.push(TensorSpec::new(
            name("post_attention_layernorm.weight"),
            &[hidden],
            TensorRole::Norm,
        ));
        all.extend(mlp_tensors(config, &name));
    }
    all.push(TensorSpec::new(
        names::NORM.to_owned(),
        &[hidden],
        TensorRole::Norm,
    ));
    if !config.tied {
        all.push(TensorSpec::new(
            names::HEAD.to_owned(),
            &[config.vocab, hidden],
            TensorRole::Head,
        ));
    }
    all
}

/// The MTP head's tensors, none when the config announces no MTP layer.
#[must_use]
pub fn mtp_tensors(config: &ModelConfig) -> Vec<TensorSpec> {
    if config.mtp_layers == 0 {
        return Vec::new();
    }
    let hidden = config.hidden;
    let layer = |part: &str| names::mtp(&format!("layers.0.{part}"));
    let norm = |name: String| TensorSpec::new(name, &[hidden], TensorRole::Norm);
    let mut all = vec![
        TensorSpec::new(
            names::mtp("fc.weight"),
            &[hidden, 2 * hidden],
            TensorRole::MtpInput,
        ),
        norm(names::mtp("pre_fc_norm_embedding.weight")),
        norm(names::mtp("pre_fc_norm_hidden.weight")),
        norm(layer("input_layernorm.weight")),
    ];
    all.extend(attention_tensors(config, &layer));
    all.push(norm(layer("post_attention_layernorm.weight")));
    all.extend(mlp_tensors(config, &layer));
    all.push(norm(names::mtp("norm.weight")));
    all
}

fn mlp_tensors(config: &ModelConfig, name: &dyn Fn(&str) -> String) -> [TensorSpec; 3] {
    let (wide, narrow) = (config.intermediate, config.hidden);
    [
        TensorSpec::new(
            name("mlp.gate_proj.weight"),
            &[wide, narrow],
            TensorRole::Widen,
        ),
        TensorSpec::new(
            name("mlp.up_proj.weight"),
            &[wide, narrow],
            TensorRole::Widen,
        ),
        TensorSpec::new(
            name("mlp.down_proj.weight"),
            &[narrow, wide],
            TensorRole::Narrow,
        ),
    ]
}

fn attention_tensors(config: &ModelConfig, name: &dyn Fn(&str) -> String) -> [TensorSpec; 6] {
    let (hidden, head) = (config.hidden, config.attention.head_dim);
    let project = |part: &str, rows: usize| {
        TensorSpec::new(name(part), &[rows, hidden], TensorRole::Attention)
    };
    [
        project("self_attn.q_proj.weight", 2 * config.query_width()),
        project("self_attn.k_proj.weight", config.kv_width()),
        project("self_attn.v_proj.weight", config.kv_width()),
        TensorSpec::new(
            name("self_attn.o_proj.weight"),
            &[hidden, config.query_width()],
            TensorRole::Attention,
        ),
        TensorSpec::new(name("self_attn.q_norm.weight"), &[head], TensorRole::Norm),
        TensorSpec::new(name("self_attn.k_norm.weight"), &[head], TensorRole::Norm),
    ]
}

fn delta_tensors(config: &ModelConfig, name: &dyn Fn(&str) -> String) -> [TensorSpec; 9] {
    let (hidden, heads) = (config.hidden, config.delta.value_heads);
    let (channels, value) = (config.delta.channels(), config.delta_value_width());
    let spec = |part: &str, shape: &[usize], role| TensorSpec::new(name(part), shape, role);
    [
        spec(
            "linear_attn.in_proj_qkv.weight",
            &[channels, hidden],
            TensorRole::DeltaFused,
        ),
        spec(
            "linear_attn.in_proj_z.weight",
            &[value, hidden],
            TensorRole::Delta,
        ),
        spec(
            "linear_attn.in_proj_b.weight",
            &[heads, hidden],
            TensorRole::DeltaGate,
        ),
        spec(
            "linear_attn.in_proj_a.weight",
            &[heads, hidden],
            TensorRole::DeltaGate,
        ),
        spec(
            "linear_attn.conv1d.weight",
            &[channels, 1, 4],
            TensorRole::Taps,
        ),
        spec("linear_attn.A_log", &[heads], TensorRole::DecayRate),
        spec("linear_attn.dt_bias", &[heads], TensorRole::DecayBias),
        spec(
            "linear_attn.norm.weight",
            &[config.delta.value_dim],
            TensorRole::GatedNorm,
        ),
        spec(
            "linear_attn.out_proj.weight",
            &[hidden, value],
            TensorRole::Delta,
        ),
    ]
}
