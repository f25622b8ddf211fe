//! The gated MLP: `down(silu(gate(x)) * up(x))`.

use tt_device::{Backend, LinearOut, MatrixShape, Ops};

use super::workspace::Workspace;
use crate::weights::TensorSource;
use crate::{ModelConfig, ModelError};

#[derive(Debug)]
pub(super) struct Mlp<B: Backend> {
    gate: B::Weight,
    up: B::Weight,
    down: B::Weight,
}

impl<B: Backend> Mlp<B> {
    pub(super) fn load(
        device: &B,
        config: &ModelConfig,
        source: &dyn TensorSource,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Self, ModelError> {
        let widen = MatrixShape {
            inputs: config.hidden,
            outputs: config.intermediate,
        };
        let narrow = MatrixShape {
            inputs: config.intermediate,
            outputs: config.hidden,
        };
        Ok(Self {
            gate: device.load(source.matrix(&name("mlp.gate_proj.weight"), widen)?)?,
            up: device.load(source.matrix(&name("mlp.up_proj.weight"), widen)?)?,
            down: device.load(source.matrix(&name("mlp.down_proj.weight"), narrow)?)?,
        })
    }

    /// Adds the MLP of `work.normed` to `work.x`.
    pub(super) fn run(
        &self,
        rec: &mut B::Rec<'_>,
        config: &ModelConfig,
        work: &mut Workspace<B>,
        rows: usize,
    ) {
        rec.linears(
            &work.normed,
            rows,
            &mut [
                LinearOut {
                    weights: &[&self.gate],
                    out: &mut work.gate,
                },
                LinearOut {
                    weights: &[&self.up],
                    out: &mut work.up,
                },
            ],
        );
        rec.silu_mul(
            &work.gate,
            &work.up,
            rows * config.intermediate,
            &mut work.down_in,
        );
        rec.linear_add(
            &work.down_in,
            &self.down,
            config.hidden,
            rows,
            &mut work.branch,
            &mut work.x,
        );
    }
}
