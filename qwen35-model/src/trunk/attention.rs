//! Gated attention: normed and rotated queries and keys, a sigmoid gate on the output.

use tt_device::{Backend, HeadSlice, LinearOut, MatrixShape, Ops};

use super::workspace::Workspace;
use crate::weights::TensorSource;
use crate::{ModelConfig, ModelError};

#[derive(Debug)]
pub(super) struct AttentionLayer<B: Backend> {
    /// `[hidden, heads * 2 * head_dim]`: each head's query, then its gate.
    q: B::Weight,
    k: B::Weight,
    v: B::Weight,
    o: B::Weight,
    q_norm: B::Buf<f32>,
    k_norm: B::Buf<f32>,
}

impl<B: Backend> AttentionLayer<B> {
    pub(super) fn load(
        device: &B,
        config: &ModelConfig,
        source: &dyn TensorSource,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Self, ModelError> {
        let project = |part: &str, outputs: usize| -> Result<B::Weight, ModelError> {
            let shape = MatrixShape {
                inputs: config.hidden,
                outputs,
            };
            Ok(device.load(source.matrix(&name(part), shape)?)?)
        };
        let out = MatrixShape {
            inputs: config.query_width(),
            outputs: config.hidden,
        };
        let head = config.attention.head_dim;
        Ok(Self {
            q: project("self_attn.q_proj.weight", 2 * config.query_width())?,
            k: project("self_attn.k_proj.weight", config.kv_width())?,
            v: project("self_attn.v_proj.weight", config.kv_width())?,
            o: device.load(source.matrix(&name("self_attn.o_proj.weight"), out)?)?,
            q_norm: super::load::norm_scale(
                device,
                source,
                &name("self_attn.q_norm.weight"),
                head,
            )?,
            k_norm: super::load::norm_scale(
                device,
                source,
                &name("self_attn.k_norm.weight"),
                head,
            )?,
        })
    }

    /// Adds the attention of `work.normed` to `work.x`, appending to `kv` at `work.position`.
    pub(super) fn run(
        &self,
        rec: &mut B::Rec<'_>,
        config: &ModelConfig,
        frequencies: &B::Buf<f32>,
        kv: &mut B::Kv,
        work: &mut Workspace<B>,
        rows: usize,
    ) {
        let shape = config.attention;
        rec.linears(
            &work.normed,
            rows,
            &mut [
                LinearOut {
                    weights: &[&self.q],
                    out: &mut work.projected,
                },
                LinearOut {
                    weights: &[&self.k],
                    out: &mut work.key,
                },
                LinearOut {
                    weights: &[&self.v],
                    out: &mut work.value,
                },
            ],
        );
        let half = |offset| HeadSlice {
            row: 2 * config.query_width(),
            offset,
            stride: 2 * shape.head_dim,
            heads: shape.heads,
            head_dim: shape.head_dim,
        };
        rec.take_heads(&work.projected, half(0), rows, &mut work.core);
        rec.take_heads(&work.projected, half(shape.head_dim), rows, &mut work.gate);
        rec.rms_norm(
            &work.core,
            &self.q_norm,
            config.norm_eps,
            rows * shape.heads,
            &mut work.query,
        );
        rec.rms_norm(
            &work.key,
            &self.k_norm,
            config.norm_eps,
            rows * shape.kv_heads,
            &mut work.key_normed,
        );
        rec.rope(
            &mut work.query,
            frequencies,
            &work.position,
            shape.heads,
            shape.head_dim,
            rows,
        );
        rec.rope(
            &mut work.key_normed,
            frequencies,
            &work.position,
            shape.kv_heads,
            shape.head_dim,
            rows,
        );
        rec.kv_append(kv, &work.key_normed, &work.value, &work.position, rows);
        rec.attend(&work.query, kv, &work.position, shape, rows, &mut work.core);
        rec.sigmoid_mul(&mut work.core, &work.gate, rows * config.query_width());
        rec.linear_add(
            &work.core,
            &self.o,
            config.hidden,
            rows,
            &mut work.branch,
            &mut work.x,
        );
    }
}
