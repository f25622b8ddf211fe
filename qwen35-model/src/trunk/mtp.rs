//! The MTP head: one attention layer over the trunk's hidden rows and the tokens that followed them.
//!
//! Row p takes the trunk's *final-normed* hidden at position p and the token at p + 1, and predicts the
//! token at p + 2. It has its own KV rows and shares embedding and output head with the trunk.

use tt_device::{Backend, MatrixShape, Ops};

use super::Model;
use super::attention::AttentionLayer;
use super::load::norm_scale;
use super::mlp::Mlp;
use super::pass::{LogitsWanted, check_tokens};
use super::workspace::Workspace;
use crate::sequence::Sequence;
use crate::weights::TensorSource;
use crate::{ModelConfig, ModelError, names};

/// Weights of the head.
#[derive(Debug)]
pub struct MtpHead<B: Backend> {
    /// `[2 * hidden, hidden]`; the embedding half comes first.
    fc: B::Weight,
    embedding_norm: B::Buf<f32>,
    hidden_norm: B::Buf<f32>,
    input_norm: B::Buf<f32>,
    attention: AttentionLayer<B>,
    post_norm: B::Buf<f32>,
    mlp: Mlp<B>,
    norm: B::Buf<f32>,
}

/// Rows for the head: hidden rows of the trunk (or of the head itself, in a chain of drafts) and the
/// tokens that follow them.
#[derive(Debug)]
pub struct DraftRows<'a, B: Backend> {
    /// `[tokens.len(), hidden]`, from row 0.
    pub hidden: &'a B::Buf<f32>,
    /// The token after each row.
    pub tokens: &'a [u32],
    /// The head's KV row of the first.
    pub first: usize,
}

impl<B: Backend> MtpHead<B> {
    pub(super) fn load(
        device: &B,
        config: &ModelConfig,
        source: &dyn TensorSource,
    ) -> Result<Self, ModelError> {
        let name = |part: &str| names::mtp(&format!("layers.0.{part}"));
        let norm = |name: &str| norm_scale(device, source, name, config.hidden);
        let fc = MatrixShape {
            inputs: 2 * config.hidden,
            outputs: config.hidden,
        };
        Ok(Self {
            fc: device.load(source.matrix(&names::mtp("fc.weight"), fc)?)?,
            embedding_norm: norm(&names::mtp("pre_fc_norm_embedding.weight"))?,
            hidden_norm: norm(&names::mtp("pre_fc_norm_hidden.weight"))?,
            input_norm: norm(&name("input_layernorm.weight"))?,
            attention: AttentionLayer::load(device, config, source, &name)?,
            post_norm: norm(&name("post_attention_layernorm.weight"))?,
            mlp: Mlp::load(device, config, source, &name)?,
            norm: norm(&names::mtp("norm.weight"))?,
        })
    }
}

impl<B: Backend> Model<B> {
    /// Runs the MTP head over `rows` and appends the wanted rows of logits. The head's own normed output of
    /// the last row goes to row 0 of `chain`, for a next draft that feeds on it.
    ///
    /// The rows are stored in the head's KV from `rows.first` on; which of them count is the caller's to
    /// say. The trunk's state and its last hidden rows are untouched.
    ///
    /// # Errors
    /// [`ModelError::NoMtpHead`], [`ModelError::PassRows`], [`ModelError::ContextFull`],
    /// [`ModelError::TokenRange`], [`ModelError::Device`], [`ModelError::NotFinite`].
    pub fn draft(
        &self,
        work: &mut Workspace<B>,
        sequence: &mut Sequence<B>,
        rows: &DraftRows<'_, B>,
        wanted: LogitsWanted,
        chain: &mut B::Buf<f32>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let DraftRows {
            hidden,
            tokens,
            first,
        } = *rows;
        let count = tokens.len();
        let context = sequence.context();
        let (Some(head), Some(kv)) = (&self.mtp, &mut sequence.mtp) else {
            return Err(ModelError::NoMtpHead);
        };
        if count == 0 {
            return Ok(());
        }
        if count > work.rows {
            return Err(ModelError::PassRows {
                rows: count,
                capacity: work.rows,
            });
        }
        if first + count > context {
            return Err(ModelError::ContextFull {
                position: first,
                tokens: count,
                context,
            });
        }
        check_tokens(tokens, self.config.vocab)?;
        let (first_logits, wanted) = wanted.range(count);
        work.reserve_logits(&self.device, wanted, self.config.vocab)?;
        self.device.write(&mut work.ids, 0, tokens)?;
        #[expect(clippy::cast_possible_truncation, reason = "below the context length")]
        self.device.write(&mut work.position, 0, &[first as u32])?;
        let (width, eps) = (self.config.hidden, self.config.norm_eps);
        self.device.execute(|rec| {
            rec.embed(&self.embed, &work.ids, count, &mut work.x);
            rec.rms_norm(&work.x, &head.embedding_norm, eps, count, &mut work.normed);
            rec.rms_norm(hidden, &head.hidden_norm, eps, count, &mut work.branch);
            rec.concat(
                &work.normed,
                &work.branch,
                width,
                count,
                &mut work.projected,
            );
            rec.linear(&work.projected, &[&head.fc], count, &mut work.x);
            rec.rms_norm(&work.x, &head.input_norm, eps, count, &mut work.normed);
            head.attention
                .run(rec, &self.config, &self.frequencies, kv, work, count);
            rec.rms_norm(&work.x, &head.post_norm, eps, count, &mut work.normed);
            head.mlp.run(rec, &self.config, work, count);
            rec.rms_norm(&work.x, &head.norm, eps, count, &mut work.normed);
            rec.copy_rows(&work.normed, count - 1, width, 1, chain, 0);
            if wanted > 0 {
                rec.copy_rows(
                    &work.normed,
                    first_logits,
                    width,
                    wanted,
                    &mut work.head_in,
                    0,
                );
                rec.linear(&work.head_in, &[&self.head], wanted, &mut work.logits.buf);
            }
            Ok(())
        })?;
        self.read_logits(work, wanted, first + first_logits, logits)
    }
}
