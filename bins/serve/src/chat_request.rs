//! From the fields of a chat request to its generations.

use std::sync::Arc;

use mtp_spec::TokenId;
use qwen35_model::text::{
    ArgumentSchemas, Conversation, GenerationPrompt, OutputOptions, RenderOptions, RenderedPrompt,
    SystemMessages, Thinking, ToolDefinition, ToolParsing,
};
use serde_json::{Map, Value};

use crate::config::Config;
use crate::controls::{Controls, MAX_TOP_LOGPROBS};
use crate::generate::job::Run;
use crate::model::Model;
use crate::prepare::{constraint, fit, special, text_error};
use crate::structured::Form;
use crate::wire::chat::ChatFields;
use crate::wire::error::ApiError;

/// Most tools of a request.
const MAX_TOOLS: usize = 512;

/// Efforts that clients name; `none` is no thinking, all others are thinking.
const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A chat request's prompt, before it becomes tokens.
#[derive(Clone, Debug)]
pub struct ChatPrompt {
    /// As the template rendered it.
    pub rendered: RenderedPrompt,
    /// What the model may call.
    pub tools: OfferedTools,
}

/// What the model may call.
#[derive(Clone, Debug, Default)]
pub struct OfferedTools {
    tools: Vec<ToolDefinition>,
    choice: ToolChoice,
    parallel: bool,
}

/// `tool_choice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ToolChoice {
    /// No call.
    #[default]
    None,
    /// The model decides.
    Auto,
    /// At least one call.
    Required,
    /// A call of this function.
    Named(String),
}

/// Renders the conversation.
///
/// # Errors
/// Messages, tools and options that cannot be meant.
pub fn render(fields: &ChatFields, model: &Model, config: &Config) -> Result<ChatPrompt, ApiError> {
    let messages = fields
        .messages
        .clone()
        .ok_or_else(|| ApiError::field("messages", "this field is required"))?;
    let system = if config.merge_system {
        SystemMessages::Merge
    } else {
        SystemMessages::OnlyFirst
    };
    let conversation = Conversation::parse(messages, system).map_err(|error| text_error(&error))?;
    let tools = offered_tools(fields)?;
    let mut options = RenderOptions::default();
    options.generation = generation_prompt(fields)?;
    // With `none` the model is not told of the tools, so that it does not call one.
    if tools.choice != ToolChoice::None {
        options.tools.clone_from(&tools.tools);
    }
    options.variables = variables(fields)?;
    let rendered = model
        .text
        .template
        .render(&conversation, &options)
        .map_err(|error| text_error(&error))?;
    Ok(ChatPrompt { rendered, tools })
}

/// Makes the generations of a request, all of the same prompt.
///
/// `id` is what the ids of its tool calls are made of.
///
/// # Errors
/// A prompt that does not fit; options that cannot be meant.
pub fn runs(
    prompt: &ChatPrompt,
    fields: &ChatFields,
    controls: &Controls,
    model: &Model,
    config: &Config,
    id: &str,
) -> Result<Vec<Run>, ApiError> {
    let tokenizer = &model.text.tokenizer;
    let tokens = tokenizer
        .encode_prompt(&prompt.rendered)
        .map_err(|error| text_error(&error))?;
    let length = tokens.len();
    let checkpoints = checkpoints(&tokens, model);
    let fitted = fit(tokens, controls.max_tokens, controls, model, "messages")?;
    let top_logprobs = top_logprobs(fields)?;
    let thinking = prompt.rendered.thinking();
    let constraint = constraint(
        model,
        thinking == Thinking::Open,
        thinking_budget(fields)?.or(config.thinking_budget),
        prompt.tools.form(controls)?,
        &controls.sampler.stop_tokens,
    )?;
    let schemas = Arc::new(ArgumentSchemas::from_tools(&prompt.tools.tools));
    let run = |choice: usize| {
        let mut output = OutputOptions::default();
        output.thinking = thinking;
        output.special = special(controls);
        output.stop.clone_from(&controls.stop);
        output.include_stop = controls.include_stop;
        output.min_tokens = controls.sampler.min_tokens;
        output.tools = match prompt.tools.choice {
            ToolChoice::None => ToolParsing::Off,
            _ => ToolParsing::On {
                schemas: Arc::clone(&schemas),
                id_prefix: format!("call_{id}_{choice}_"),
                parallel: prompt.tools.parallel,
            },
        };
        Run {
            choice,
            prompt: Arc::clone(&fitted.prompt),
            max_tokens: fitted.max_tokens,
            sampler: controls.sampler_of(choice),
            top_logprobs,
            prompt_logprobs: None,
            speculative: controls.speculative,
            cache_prompt: controls.cache_prompt,
            // A prompt that was cut at its beginning shares nothing with a later one.
            checkpoints: checkpoints
                .clone()
                .filter(|_| fitted.prompt.len() == length)
                .unwrap_or_default(),
            output,
            constraint: constraint.clone(),
        }
    };
    Ok((0..controls.n).map(run).collect())
}

/// Where the next prompt of the conversation, or another with the same system message, parts from this one: at the
/// thinking block that the generation prompt opens (the history shows an answer without its reasoning), and at the
/// second turn.
fn checkpoints(tokens: &[TokenId], model: &Model) -> Option<Vec<usize>> {
    let tokenizer = &model.text.tokenizer;
    let turn = tokenizer.control_id("<|im_start|>")?;
    let mut turns = tokens
        .iter()
        .enumerate()
        .filter(|&(_, &token)| token == turn)
        .map(|(at, _)| at);
    let second = turns.nth(1);
    let last = turns.next_back().or(second)?;
    let thinking = tokenizer.control_id("<think>");
    let opened = tokens[last..]
        .iter()
        .position(|&token| Some(token) == thinking);
    let mut checkpoints: Vec<usize> = second.into_iter().collect();
    checkpoints.extend(opened.map(|at| last + at));
    Some(checkpoints)
}

impl OfferedTools {
    /// The form of the answer: what the request asks for, and calls where it demands or allows them.
    fn form(&self, controls: &Controls) -> Result<Option<(&'static str, Form)>, ApiError> {
        let calls = |tools: Vec<ToolDefinition>| Form::ToolCalls {
            tools,
            parallel: self.parallel,
        };
        match (&self.choice, controls.form.clone()) {
            (ToolChoice::None, form) => Ok(form),
            (ToolChoice::Auto, None) => Ok(None),
            (ToolChoice::Auto, Some((param, answer))) => Ok(Some((
                param,
                Form::CallsOr {
                    tools: self.tools.clone(),
                    parallel: self.parallel,
                    answer: Box::new(answer),
                },
            ))),
            (ToolChoice::Required | ToolChoice::Named(_), Some((param, _))) => {
                Err(ApiError::field(
                    "tool_choice",
                    format!("cannot be combined with {param} when it demands a call"),
                ))
            }
            (ToolChoice::Required, None) => Ok(Some(("tools", calls(self.tools.clone())))),
            (ToolChoice::Named(name), None) => {
                let named = self.tools.iter().filter(|tool| tool.name() == name);
                Ok(Some(("tools", calls(named.cloned().collect()))))
            }
        }
    }
}

fn offered_tools(fields: &ChatFields) -> Result<OfferedTools, ApiError> {
    let tools = fields.tools.clone().unwrap_or_default();
    if tools.len() > MAX_TOOLS {
        return Err(ApiError::field(
            "tools",
            format!("more than {MAX_TOOLS} tools"),
        ));
    }
    let tools = ToolDefinition::parse_all(tools).map_err(|error| text_error(&error))?;
    let choice = tool_choice(fields, &tools)?;
    Ok(OfferedTools {
        parallel: fields.parallel_tool_calls != Some(false),
        tools,
        choice,
    })
}

fn tool_choice(fields: &ChatFields, tools: &[ToolDefinition]) -> Result<ToolChoice, ApiError> {
    let refuse = |message: String| Err(ApiError::field("tool_choice", message));
    let choice = match &fields.tool_choice {
        None if tools.is_empty() => ToolChoice::None,
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => ToolChoice::None,
            "auto" if tools.is_empty() => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" | "any" => ToolChoice::Required,
            other => return refuse(format!("{other:?} is none of none, auto, required")),
        },
        Some(object) => {
            let kind = object
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("function");
            // Chat puts the name into `function`, the responses API beside the type.
            let name = object.get("function").unwrap_or(object).get("name");
            match (kind, name.and_then(Value::as_str)) {
                ("function", Some(name)) => ToolChoice::Named(name.to_owned()),
                _ => {
                    return refuse(
                        "expected {\"type\": \"function\", \"function\": {\"name\": ..}}".into(),
                    );
                }
            }
        }
    };
    match &choice {
        ToolChoice::Required if tools.is_empty() => refuse("there are no tools to call".into()),
        ToolChoice::Named(name) if !tools.iter().any(|tool| tool.name() == name) => {
            refuse(format!("there is no tool named {name:?}"))
        }
        _ => Ok(choice),
    }
}

fn generation_prompt(fields: &ChatFields) -> Result<GenerationPrompt, ApiError> {
    let continued = fields.continue_final_message == Some(true);
    match (continued, fields.add_generation_prompt) {
        (true, Some(true)) => Err(ApiError::field(
            "continue_final_message",
            "contradicts add_generation_prompt",
        )),
        (true, _) => Ok(GenerationPrompt::ContinueFinal),
        (false, Some(false)) => Ok(GenerationPrompt::Nothing),
        (false, _) => Ok(GenerationPrompt::Assistant),
    }
}

/// Variables of the template. What the request says in `chat_template_kwargs` wins over its other fields.
fn variables(fields: &ChatFields) -> Result<Map<String, Value>, ApiError> {
    let mut variables = fields.chat_template_kwargs.clone().unwrap_or_default();
    let effort = fields.reasoning_effort.as_deref();
    if let Some(effort) = effort.filter(|effort| !EFFORTS.contains(effort)) {
        return Err(ApiError::field(
            "reasoning_effort",
            format!("{effort:?} is none of {}", EFFORTS.join(", ")),
        ));
    }
    let asked = fields
        .enable_thinking
        .or_else(|| effort.map(|effort| effort != "none"));
    if let Some(thinking) = asked {
        variables
            .entry("enable_thinking")
            .or_insert(Value::Bool(thinking));
    }
    Ok(variables)
}

fn thinking_budget(fields: &ChatFields) -> Result<Option<usize>, ApiError> {
    let signed = match fields.reasoning_budget {
        None | Some(-1) => None,
        Some(budget) => Some(
            usize::try_from(budget)
                .map_err(|_| ApiError::field("reasoning_budget", "must be -1, 0 or more"))?,
        ),
    };
    Ok(
        [fields.thinking_token_budget, fields.thinking_budget, signed]
            .into_iter()
            .flatten()
            .min(),
    )
}

fn top_logprobs(fields: &ChatFields) -> Result<Option<usize>, ApiError> {
    match (fields.logprobs.unwrap_or(false), fields.top_logprobs) {
        // Zero asks for nothing.
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(ApiError::field(
            "top_logprobs",
            "only allowed with logprobs: true",
        )),
        (true, top) => match top.unwrap_or(0) {
            top if top <= MAX_TOP_LOGPROBS => Ok(Some(top)),
            top => Err(ApiError::field(
                "top_logprobs",
                format!("{top} is not in 0..={MAX_TOP_LOGPROBS}"),
            )),
        },
    }
}
