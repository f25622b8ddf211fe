//! From checked fields to generations: text to tokens, the context's limit, the outer shape of a run.

use std::sync::Arc;

use mtp_spec::TokenId;
use qwen35_model::text::{SpecialTokens, TextError};

use crate::controls::{Controls, Truncate};
use crate::generate::constraint::{ConstraintPlan, ThinkingPlan};
use crate::model::Model;
use crate::structured::{Form, GrammarError};
use crate::wire::error::ApiError;

/// A prompt that fits, and how much may follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The prompt; not empty.
    pub prompt: Arc<[TokenId]>,
    /// Most tokens of the answer; together with the prompt no more than the context.
    pub max_tokens: usize,
}

/// Fits a prompt into the context.
///
/// An answer that is longer than the room left is cut short later; a prompt that leaves no room for one token of the
/// answer is refused, or cut at its beginning when the request allows that.
///
/// # Errors
/// An empty prompt and one that does not fit; `param` is the field it came from.
pub fn fit(
    mut prompt: Vec<TokenId>,
    wanted: Option<usize>,
    controls: &Controls,
    model: &Model,
    param: &'static str,
) -> Result<Fitted, ApiError> {
    let context = model.about.context;
    let room = |wanted: Option<usize>| wanted.unwrap_or(1).clamp(0, context.saturating_sub(1));
    let keep = match controls.truncate {
        Truncate::Never => prompt.len(),
        Truncate::ToFit => context - room(wanted),
        Truncate::To(tokens) => tokens,
    };
    prompt.drain(..prompt.len().saturating_sub(keep));
    if prompt.is_empty() {
        return Err(ApiError::field(param, "the prompt is empty"));
    }
    let least = wanted.unwrap_or(1).min(1);
    if prompt.len() + least > context {
        return Err(ApiError::ContextOverflow {
            param,
            prompt: prompt.len(),
            context,
        });
    }
    let left = context - prompt.len();
    Ok(Fitted {
        prompt: prompt.into(),
        max_tokens: wanted.unwrap_or(left).min(left),
    })
}

/// Token ids of a request.
///
/// # Errors
/// An id that the vocabulary does not have.
pub fn token_ids(ids: &[u32], model: &Model, param: &str) -> Result<Vec<TokenId>, ApiError> {
    let used = model.text.tokenizer.vocab_size();
    match ids.iter().find(|&&id| id as usize >= used) {
        Some(id) => Err(ApiError::field(
            param,
            format!("token {id} is not in the vocabulary of {used} tokens"),
        )),
        None => Ok(ids.iter().map(|&id| TokenId(id)).collect()),
    }
}

/// The constraint of a request: a reasoning budget, then a form. `thinking` says that the prompt leaves the model inside
/// the thinking block.
///
/// # Errors
/// A form that cannot be compiled.
pub fn constraint(
    model: &Model,
    thinking: bool,
    budget: Option<usize>,
    form: Option<(&'static str, Form)>,
    stop_tokens: &[TokenId],
) -> Result<Option<Arc<ConstraintPlan>>, ApiError> {
    let thinking = if thinking {
        ThinkingPlan::new(&model.text.tokenizer, budget).map_err(|error| text_error(&error))?
    } else {
        None
    };
    let grammar = match form {
        None => None,
        Some((param, form)) => {
            let compiled = model
                .grammars()
                .and_then(|grammars| grammars.compile(&form));
            Some(compiled.map_err(|error| grammar_error(param, error))?)
        }
    };
    Ok(ConstraintPlan::new(thinking, grammar, stop_tokens.to_vec()).map(Arc::new))
}

/// Whether special tokens show.
#[must_use]
pub fn special(controls: &Controls) -> SpecialTokens {
    if controls.show_special {
        SpecialTokens::Keep
    } else {
        SpecialTokens::Skip
    }
}

/// A failure of the text half: the request's fault, or the package's.
#[must_use]
pub fn text_error(error: &TextError) -> ApiError {
    let message = with_causes(error);
    match error.param() {
        Some(param) => ApiError::field(param, message),
        None => internal(&message),
    }
}

/// A failure on our side, logged under a fresh id.
#[must_use]
pub fn internal(message: &str) -> ApiError {
    let id = format!("{:016x}", rand::random::<u64>());
    tracing::error!(id, error = message, "internal error");
    ApiError::Internal { id }
}

fn grammar_error(param: &'static str, error: GrammarError) -> ApiError {
    match error {
        GrammarError::Form(message) => ApiError::field(param, message),
        GrammarError::Vocabulary(_) => ApiError::Unsupported {
            param: param.to_owned(),
            hint: Some("this model's vocabulary does not allow it"),
        },
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
