//! The shared request fields, checked: how tokens are drawn, when an answer ends, what a stream tells.

use mtp_spec::{ConfigError, Sampler, SamplerConfig, TokenId};

use crate::forms;
use crate::model::Model;
use crate::structured::Form;
use crate::wire::control::ControlFields;
use crate::wire::error::ApiError;

/// Most answers to one request, all prompts together.
pub const MAX_CHOICES: usize = 128;
/// Most stop strings.
pub const MAX_STOPS: usize = 64;
/// Longest stop string, in bytes.
pub const MAX_STOP_BYTES: usize = 4096;
/// Most alternatives told with a token.
pub const MAX_TOP_LOGPROBS: usize = 20;
/// Most biased tokens and most stop tokens.
const MAX_TOKEN_LIST: usize = 4096;

/// The shared fields, checked.
#[derive(Clone, Debug)]
pub struct Controls {
    /// How tokens are drawn, but for the seed of each choice.
    pub sampler: SamplerConfig,
    /// The seed of the first choice.
    pub seed: u64,
    /// Answers to each prompt.
    pub n: usize,
    /// Most tokens of an answer; `None` is the route's default.
    pub max_tokens: Option<usize>,
    /// Strings that end an answer; none is empty.
    pub stop: Vec<String>,
    /// Whether the stop string is part of the answer.
    pub include_stop: bool,
    /// Whether special tokens show in the text.
    pub show_special: bool,
    /// Whether token ids are told.
    pub return_token_ids: bool,
    /// What to do with a prompt that is too long.
    pub truncate: Truncate,
    /// Whether to draft, as far as the server does.
    pub speculative: bool,
    /// Whether prefix state may be used and kept.
    pub cache_prompt: bool,
    /// What the answer must look like.
    pub form: Option<(&'static str, Form)>,
    /// Whether the answer is streamed, and what the stream tells.
    pub stream: Option<StreamMode>,
}

/// What to do with a prompt that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Truncate {
    /// Refuse it.
    Never,
    /// Keep the end that fits.
    ToFit,
    /// Keep so many tokens at its end.
    To(usize),
}

/// What a stream tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamMode {
    /// Whether a last chunk without choices tells the usage.
    pub include_usage: bool,
}

impl Controls {
    /// Checks the fields against their ranges, each other and the model.
    ///
    /// # Errors
    /// The first field that cannot be meant.
    pub fn check(fields: &ControlFields, model: &Model) -> Result<Self, ApiError> {
        let form = forms::asked(fields)?;
        let stop_tokens = stop_tokens(fields, model)?;
        if let Some((param, _)) = form {
            let in_the_way = [
                ("ignore_eos", fields.ignore_eos == Some(true)),
                (
                    "min_tokens",
                    fields.min_tokens.is_some_and(|tokens| tokens > 0),
                ),
            ];
            if let Some((field, _)) = in_the_way.iter().find(|(_, set)| *set) {
                return Err(ApiError::field(
                    *field,
                    format!("cannot be combined with {param}, which decides where the answer ends"),
                ));
            }
        }
        let sampler = sampler(fields, model, stop_tokens)?;
        let n = fields.n.unwrap_or(1);
        if !(1..=MAX_CHOICES).contains(&n) {
            return Err(ApiError::field(
                "n",
                format!("{n} is not in 1..={MAX_CHOICES}"),
            ));
        }
        Ok(Self {
            sampler,
            seed: fields.seed.map_or_else(rand::random, i64::cast_unsigned),
            n,
            max_tokens: max_tokens(fields)?,
            stop: stop_strings(fields)?,
            include_stop: fields.include_stop_str_in_output == Some(true),
            show_special: fields.skip_special_tokens == Some(false),
            return_token_ids: fields.return_token_ids == Some(true),
            truncate: truncate(fields)?,
            speculative: fields.speculative != Some(false),
            cache_prompt: fields.cache_prompt != Some(false),
            form,
            stream: stream(fields)?,
        })
    }

    /// The sampler of one choice: choice `i` of a request draws with seed + i, so that a single request for it can be
    /// repeated.
    #[must_use]
    pub fn sampler_of(&self, choice: usize) -> SamplerConfig {
        SamplerConfig {
            seed: self.seed.wrapping_add(choice as u64),
            ..self.sampler.clone()
        }
    }
}

fn sampler(
    fields: &ControlFields,
    model: &Model,
    stop_tokens: Vec<TokenId>,
) -> Result<SamplerConfig, ApiError> {
    let defaults = &model.text.generation;
    let greedy = defaults.do_sample == Some(false);
    let usual = |value: Option<f64>, otherwise: f64| {
        if greedy {
            otherwise
        } else {
            value.unwrap_or(otherwise)
        }
    };
    let temperature = fields.temperature.unwrap_or_else(|| {
        if greedy {
            0.0
        } else {
            defaults.temperature.unwrap_or(1.0)
        }
    });
    if !(0.0..=2.0).contains(&temperature) {
        return Err(out_of_range("temperature", temperature, "0 to 2"));
    }
    let top_p = fields.top_p.unwrap_or_else(|| usual(defaults.top_p, 1.0));
    if !(top_p > 0.0 && top_p <= 1.0) {
        return Err(out_of_range("top_p", top_p, "above 0 up to 1"));
    }
    let min_p = fields.min_p.unwrap_or_else(|| usual(defaults.min_p, 0.0));
    if !(0.0..=1.0).contains(&min_p) {
        return Err(out_of_range("min_p", min_p, "0 to 1"));
    }
    let top_k = match fields.top_k {
        Some(-1) => 0,
        Some(k) => {
            usize::try_from(k).map_err(|_| ApiError::field("top_k", "must be -1, 0 or more"))?
        }
        None if greedy => 0,
        None => defaults.top_k.unwrap_or(0) as usize,
    };
    let repetition = match (fields.repetition_penalty, fields.repeat_penalty) {
        (Some(one), Some(other)) if one != other => {
            return Err(ApiError::field(
                "repeat_penalty",
                "contradicts repetition_penalty",
            ));
        }
        (one, other) => one
            .or(other)
            .unwrap_or_else(|| usual(defaults.repetition_penalty, 1.0)),
    };
    // Far from any use; it keeps every quotient of a logit finite.
    if !(0.01..=100.0).contains(&repetition) {
        return Err(out_of_range(
            "repetition_penalty",
            repetition,
            "0.01 to 100",
        ));
    }
    for (name, value) in [
        ("presence_penalty", fields.presence_penalty),
        ("frequency_penalty", fields.frequency_penalty),
    ] {
        if let Some(value) = value.filter(|value| !(-2.0..=2.0).contains(value)) {
            return Err(out_of_range(name, value, "-2 to 2"));
        }
    }
    let config = SamplerConfig {
        temperature: single(temperature),
        top_k,
        top_p: single(top_p),
        min_p: single(min_p),
        repetition_penalty: single(repetition),
        presence_penalty: single(fields.presence_penalty.unwrap_or(0.0)),
        frequency_penalty: single(fields.frequency_penalty.unwrap_or(0.0)),
        logit_bias: logit_bias(fields)?,
        vocab_limit: u32::try_from(model.text.tokenizer.vocab_size()).ok(),
        stop_tokens,
        min_tokens: fields.min_tokens.unwrap_or(0),
        ..SamplerConfig::default()
    };
    match Sampler::new(config.clone(), model.about.vocab_size) {
        Ok(_) => Ok(config),
        Err(error) => Err(ApiError::field(config_field(&error), error.to_string())),
    }
}

fn config_field(error: &ConfigError) -> &'static str {
    match error {
        ConfigError::Range { field, .. } | ConfigError::Twice { field, .. } => field,
        ConfigError::Token {
            field: "stop_tokens",
            ..
        } => "stop_token_ids",
        ConfigError::Token { field, .. } => field,
        _ => "sampling",
    }
}

fn logit_bias(fields: &ControlFields) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let biases = fields
        .logit_bias
        .as_ref()
        .map_or(&[][..], |biases| &biases.0);
    if biases.len() > MAX_TOKEN_LIST {
        return Err(ApiError::field(
            "logit_bias",
            format!("more than {MAX_TOKEN_LIST} tokens"),
        ));
    }
    for &(token, bias) in biases {
        if !(-100.0..=100.0).contains(&bias) {
            return Err(ApiError::field(
                "logit_bias",
                format!("token {token}: {bias} is not in -100 to 100"),
            ));
        }
    }
    Ok(biases
        .iter()
        .map(|&(token, bias)| (TokenId(token), single(bias)))
        .collect())
}

fn stop_tokens(fields: &ControlFields, model: &Model) -> Result<Vec<TokenId>, ApiError> {
    let asked = fields.stop_token_ids.as_deref().unwrap_or_default();
    if asked.len() > MAX_TOKEN_LIST {
        return Err(ApiError::field(
            "stop_token_ids",
            format!("more than {MAX_TOKEN_LIST} tokens"),
        ));
    }
    let mut tokens: Vec<TokenId> = asked.iter().map(|&id| TokenId(id)).collect();
    if fields.ignore_eos != Some(true) {
        tokens.extend(model.eos());
    }
    tokens.sort_unstable();
    tokens.dedup();
    Ok(tokens)
}

fn stop_strings(fields: &ControlFields) -> Result<Vec<String>, ApiError> {
    let mut stops = fields.stop.clone().unwrap_or_default().0;
    // The empty string would be found everywhere; clients send it for "none".
    stops.retain(|stop| !stop.is_empty());
    if stops.len() > MAX_STOPS {
        return Err(ApiError::field(
            "stop",
            format!("more than {MAX_STOPS} strings"),
        ));
    }
    if stops.iter().any(|stop| stop.len() > MAX_STOP_BYTES) {
        return Err(ApiError::field(
            "stop",
            format!("a string of more than {MAX_STOP_BYTES} bytes"),
        ));
    }
    Ok(stops)
}

fn max_tokens(fields: &ControlFields) -> Result<Option<usize>, ApiError> {
    let predict = match fields.n_predict {
        None | Some(-1) => None,
        Some(most) => Some(
            usize::try_from(most)
                .map_err(|_| ApiError::field("n_predict", "must be -1, 0 or more"))?,
        ),
    };
    Ok([fields.max_tokens, fields.max_completion_tokens, predict]
        .into_iter()
        .flatten()
        .min())
}

fn truncate(fields: &ControlFields) -> Result<Truncate, ApiError> {
    match fields.truncate_prompt_tokens {
        None => Ok(Truncate::Never),
        Some(-1) => Ok(Truncate::ToFit),
        Some(tokens) => match usize::try_from(tokens) {
            Ok(tokens) if tokens > 0 => Ok(Truncate::To(tokens)),
            _ => Err(ApiError::field(
                "truncate_prompt_tokens",
                "must be -1, or 1 or more",
            )),
        },
    }
}

fn stream(fields: &ControlFields) -> Result<Option<StreamMode>, ApiError> {
    match (fields.stream.unwrap_or(false), fields.stream_options) {
        (false, Some(_)) => Err(ApiError::field(
            "stream_options",
            "only allowed with stream: true",
        )),
        (false, None) => Ok(None),
        (true, options) => Ok(Some(StreamMode {
            include_usage: options.and_then(|o| o.include_usage) == Some(true),
        })),
    }
}

fn out_of_range(field: &'static str, value: f64, range: &str) -> ApiError {
    ApiError::field(field, format!("{value} is not in the range {range}"))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the sampler computes in f32; ranges are checked in f64"
)]
fn single(value: f64) -> f32 {
    value as f32
}
