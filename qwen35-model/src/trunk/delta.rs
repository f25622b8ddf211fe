//! The gated delta net layer (Yang et al. 2024) as Qwen3.5 has it.

use tt_device::{Backend, DeltaInputs, DeltaState, Keep, LinearOut, MatrixShape, Ops};

use super::workspace::Workspace;
use crate::weights::TensorSource;
use crate::{ModelConfig, ModelError};

#[derive(Debug)]
pub(super) struct DeltaLayer<B: Backend> {
    /// Queries, keys and values: one weight, or three side by side.
    qkv: Vec<B::Weight>,
    z: B::Weight,
    a: B::Weight,
    b: B::Weight,
    out: B::Weight,
    /// `[4, channels]`; the checkpoint has `[channels, 1, 4]`.
    taps: B::Buf<f32>,
    /// `exp(A_log)`, `[value_heads]`.
    rate: B::Buf<f32>,
    dt_bias: B::Buf<f32>,
    /// Plain weight of the gated norm, `[value_dim]`.
    norm: B::Buf<f32>,
}

/// The state of this layer, and what to keep of it.
#[derive(Debug)]
pub(super) struct DeltaLanes<'a, B: Backend> {
    pub(super) recurrent: &'a mut B::Buf<f32>,
    pub(super) window: &'a mut B::Buf<f32>,
    pub(super) lane: &'a B::Buf<u32>,
    pub(super) lanes: usize,
    pub(super) keep: Keep,
}

impl<B: Backend> DeltaLayer<B> {
    pub(super) fn load(
        device: &B,
        config: &ModelConfig,
        source: &dyn TensorSource,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Self, ModelError> {
        let shape = config.delta;
        let project = |part: &str, outputs: usize| -> Result<B::Weight, ModelError> {
            let shape = MatrixShape {
                inputs: config.hidden,
                outputs,
            };
            Ok(device.load(source.matrix(&name(part), shape)?)?)
        };
        let vector = |part: &str, len: usize| source.vector(&name(part), &[len]);
        let channels = shape.channels();
        let stored = source.vector(&name("linear_attn.conv1d.weight"), &[channels, 1, 4])?;
        let taps: Vec<f32> = (0..4 * channels)
            .map(|i| stored[i % channels * 4 + i / channels])
            .collect();
        let rate: Vec<f32> = vector("linear_attn.A_log", shape.value_heads)?
            .into_iter()
            .map(tt_device::reference::math::exp)
            .collect();
        let (key, value) = (config.delta_key_width(), config.delta_value_width());
        let qkv = source.fused(
            &name("linear_attn.in_proj_qkv.weight"),
            config.hidden,
            [key, key, value],
        )?;
        let out = MatrixShape {
            inputs: value,
            outputs: config.hidden,
        };
        Ok(Self {
            qkv: qkv
                .into_iter()
                .map(|w| device.load(w))
                .collect::<Result<_, _>>()?,
            z: project("linear_attn.in_proj_z.weight", value)?,
            a: project("linear_attn.in_proj_a.weight", shape.value_heads)?,
            b: project("linear_attn.in_proj_b.weight", shape.value_heads)?,
            out: device.load(source.matrix(&name("linear_attn.out_proj.weight"), out)?)?,
            taps: super::load::upload(device, &taps)?,
            rate: super::load::upload(device, &rate)?,
            dt_bias: super::load::upload(
                device,
                &vector("linear_attn.dt_bias", shape.value_heads)?,
            )?,
            norm: super::load::upload(
                device,
                &vector("linear_attn.norm.weight", shape.value_dim)?,
            )?,
        })
    }

    /// Adds the delta net of `work.normed` to `work.x`, advancing the state.
    pub(super) fn run(
        &self,
        rec: &mut B::Rec<'_>,
        config: &ModelConfig,
        lanes: DeltaLanes<'_, B>,
        work: &mut Workspace<B>,
        rows: usize,
    ) {
        let shape = config.delta;
        let qkv: Vec<&B::Weight> = self.qkv.iter().collect();
        rec.linears(
            &work.normed,
            rows,
            &mut [
                LinearOut {
                    weights: &qkv,
                    out: &mut work.projected,
                },
                LinearOut {
                    weights: &[&self.z],
                    out: &mut work.z,
                },
                LinearOut {
                    weights: &[&self.a],
                    out: &mut work.a,
                },
                LinearOut {
                    weights: &[&self.b],
                    out: &mut work.b,
                },
            ],
        );
        let inputs = DeltaInputs {
            mixed: &work.projected,
            a: &work.a,
            b: &work.b,
            taps: &self.taps,
            rate: &self.rate,
            dt_bias: &self.dt_bias,
            shape,
        };
        let DeltaLanes {
            recurrent,
            window,
            lane,
            lanes,
            keep,
        } = lanes;
        rec.delta(
            inputs,
            DeltaState {
                recurrent,
                window,
                lane,
                lanes,
                keep,
            },
            rows,
            &mut work.core,
        );
        rec.rms_norm(
            &work.core,
            &self.norm,
            config.norm_eps,
            rows * shape.value_heads,
            &mut work.gated,
        );
        rec.silu_mul(
            &work.z,
            &work.gated,
            rows * config.delta_value_width(),
            &mut work.core,
        );
        rec.linear_add(
            &work.core,
            &self.out,
            config.hidden,
            rows,
            &mut work.branch,
            &mut work.x,
        );
    }
}
