//! `/v1/chat/completions`: request fields, the answer, and the chunks of a streamed answer.

use qwen35_model::text::ChatMessage;
use serde::Serialize;
use serde_json::{Map, Value};

use super::body::request_fields;
use super::lenient::whole;
use super::logprobs::ChatLogprobs;
use super::usage::{Timings, Usage};

request_fields! {
    /// Fields of chat, besides those it shares with completions.
    pub struct ChatFields {
        /// The conversation so far.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<MessageSchema>, required = true, min_items = 1))]
        pub messages: Option<Vec<ChatMessage>>,
        /// Functions that the model may call.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<ToolSchema>>))]
        pub tools: Option<Vec<Value>>,
        /// `none`, `auto`, `required`, or one function by name.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<ToolChoiceSchema>))]
        pub tool_choice: Option<Value>,
        /// Whether one answer may hold several calls.
        pub parallel_tool_calls: Option<bool>,
        /// Whether the log-probability of each token is told.
        pub logprobs: Option<bool>,
        /// How many of the most likely tokens are told in each place, 0 to 20. Only with `logprobs`.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 20))]
        pub top_logprobs: Option<usize>,
        /// Variables for the chat template, for example `enable_thinking`.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
        pub chat_template_kwargs: Option<Map<String, Value>>,
        /// `none` switches thinking off, any other effort on, unless the template's variables say so themselves.
        #[cfg_attr(feature = "openapi", schema(pattern = "^(none|minimal|low|medium|high|xhigh|max)$"))]
        pub reasoning_effort: Option<String>,
        /// The same as in `chat_template_kwargs`, which wins.
        pub enable_thinking: Option<bool>,
        /// Whether the answer shows the reasoning. Yes, unless `false`.
        pub include_reasoning: Option<bool>,
        /// Most tokens of reasoning; then the answer begins.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0))]
        pub thinking_token_budget: Option<usize>,
        /// The same, under another name.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0))]
        pub thinking_budget: Option<usize>,
        /// The same, llama.cpp's way: -1 is no limit.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = -1))]
        pub reasoning_budget: Option<i64>,
        /// Whether the prompt ends with the opening of an assistant turn. Yes, unless `false`.
        pub add_generation_prompt: Option<bool>,
        /// Whether the last message is the beginning of the answer, which the model goes on writing.
        pub continue_final_message: Option<bool>,
    }
}

/// `chat.completion`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatCompletion {
    /// `chatcmpl-` and something unique.
    pub id: String,
    /// `chat.completion`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub object: &'static str,
    /// When the request came, in seconds since 1970.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// The package and the runtime that computed it.
    pub system_fingerprint: String,
    /// The answers.
    pub choices: Vec<ChatChoice>,
    /// What it cost.
    pub usage: Usage,
    /// How long it took.
    pub timings: Timings,
    /// Ids of the prompt, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatChoice {
    /// Which answer.
    pub index: usize,
    /// What the model said.
    pub message: AssistantMessage,
    /// Log-probabilities, if asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// The stop string or the stop token that ended it, where one did.
    pub stop_reason: Option<StopCause>,
    /// Ids of the answer, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// What the model said.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssistantMessage {
    /// `assistant`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub role: &'static str,
    /// The answer; `null` beside tool calls.
    pub content: Option<String>,
    /// What it thought before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The same, where the server was told to use this name as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The functions it calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<CalledTool>,
}

/// A complete tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CalledTool {
    /// To be named by the tool's answer.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: &'static str,
    /// The call.
    pub function: CalledFunction,
}

/// Name and arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CalledFunction {
    /// The function.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// `chat.completion.chunk`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatChunk {
    /// The same in all chunks.
    pub id: String,
    /// `chat.completion.chunk`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub object: &'static str,
    /// The same in all chunks.
    pub created: u64,
    /// The model that answers.
    pub model: String,
    /// The package and the runtime that compute it.
    pub system_fingerprint: String,
    /// One answer's next piece; empty in the chunk of the usage.
    pub choices: Vec<ChatDelta>,
    /// With `include_usage`: `null`, and the usage in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Usage>))]
    pub usage: Option<Option<Usage>>,
    /// In the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
    /// Ids of the prompt, in the first chunk, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
}

/// One answer's next piece.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatDelta {
    /// Which answer.
    pub index: usize,
    /// What is new.
    pub delta: MessageDelta,
    /// Log-probabilities of the new tokens, if asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended, in its last chunk.
    pub finish_reason: Option<FinishReason>,
    /// The stop string or the stop token that ended it, in its last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopCause>,
    /// Ids of the new tokens, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// What is new in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageDelta {
    /// `assistant`, in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub role: Option<&'static str>,
    /// More of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// More of the reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The same, where the server was told to use this name as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// More of the calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta>,
}

/// What is new in a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallDelta {
    /// Which call.
    pub index: usize,
    /// In the call's first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`, in the call's first piece.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub kind: Option<&'static str>,
    /// Name or arguments.
    pub function: FunctionDelta,
}

/// What is new in a call's function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FunctionDelta {
    /// In the call's first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// To be appended.
    pub arguments: String,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model ended it, or a stop string or token did.
    Stop,
    /// The limit of tokens, or the end of the context.
    Length,
    /// It ended with tool calls.
    ToolCalls,
}

impl FinishReason {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// What ended an answer, where it was asked for by the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
#[non_exhaustive]
pub enum StopCause {
    /// A string of `stop`.
    Text(String),
    /// A token of `stop_token_ids`.
    Token(u32),
}

/// A message of a request.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = Message)]
#[non_exhaustive]
pub struct MessageSchema {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    #[schema(pattern = "^(system|developer|user|assistant|tool)$")]
    pub role: String,
    /// Text, or a list of text parts.
    pub content: Option<ContentSchema>,
    /// What an assistant thought before it answered.
    pub reasoning_content: Option<String>,
    /// The functions an assistant called.
    pub tool_calls: Option<Vec<ToolCallSchema>>,
    /// The call that a tool answers.
    pub tool_call_id: Option<String>,
    /// Who speaks.
    pub name: Option<String>,
}

/// Text, or a list of text parts.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = MessageContent)]
#[non_exhaustive]
pub enum ContentSchema {
    /// Text.
    #[schema(title = "text")]
    Text(String),
    /// Parts.
    #[schema(title = "parts")]
    Parts(Vec<PartSchema>),
}

/// A part of a message.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = ContentPart)]
#[non_exhaustive]
pub struct PartSchema {
    /// `text`.
    #[schema(rename = "type", pattern = "^text$")]
    pub kind: String,
    /// The text.
    pub text: String,
}

/// A call of a request's message.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = ToolCall)]
#[non_exhaustive]
pub struct ToolCallSchema {
    /// To be named by the tool's answer.
    pub id: Option<String>,
    /// `function`.
    #[schema(rename = "type")]
    pub kind: Option<String>,
    /// The call.
    pub function: FunctionCallSchema,
}

/// Name and arguments of a call.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = FunctionCall)]
#[non_exhaustive]
pub struct FunctionCallSchema {
    /// The function.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// A function that the model may call.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = Tool)]
#[non_exhaustive]
pub struct ToolSchema {
    /// `function`.
    #[schema(rename = "type", pattern = "^function$")]
    pub kind: String,
    /// The function.
    pub function: FunctionSchema,
}

/// Name, purpose and parameters of a function.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = Function)]
#[non_exhaustive]
pub struct FunctionSchema {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON schema of its parameters.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
    /// Whether arguments must follow the schema.
    pub strict: Option<bool>,
}

/// `none`, `auto`, `required`, or one function by name.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = ToolChoice)]
#[non_exhaustive]
pub enum ToolChoiceSchema {
    /// A word.
    #[schema(title = "word")]
    Word(ToolChoiceWord),
    /// One function.
    #[schema(title = "named")]
    Named(NamedToolSchema),
}

/// `none`, `auto` or `required`.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoiceWord {
    /// No call.
    None,
    /// The model decides.
    Auto,
    /// At least one call.
    Required,
}

/// `{"type": "function", "function": {"name": ..}}`.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = NamedTool)]
#[non_exhaustive]
pub struct NamedToolSchema {
    /// `function`.
    #[schema(rename = "type", pattern = "^function$")]
    pub kind: String,
    /// The function.
    pub function: FunctionNameSchema,
}

/// A function by its name.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = FunctionName)]
#[non_exhaustive]
pub struct FunctionNameSchema {
    /// Its name.
    pub name: String,
}
