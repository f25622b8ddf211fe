//! `/v1/responses`: request fields, the answer, and the events of a streamed answer.

use serde::Serialize;
use serde_json::Value;

use super::body::request_fields;
use super::lenient::whole;

request_fields! {
    /// Fields of the responses API that this server reads; nothing is kept between two requests.
    pub struct ResponseFields {
        /// Name of the model; absent means the one that is served.
        pub model: Option<String>,
        /// The conversation so far: text, or a list of items.
        #[cfg_attr(feature = "openapi", schema(value_type = InputSchema, required = true))]
        pub input: Option<Value>,
        /// A system message before the conversation.
        pub instructions: Option<String>,
        /// Most tokens of the answer, reasoning included.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 1))]
        pub max_output_tokens: Option<usize>,
        /// Softmax temperature, 0 to 2.
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 2))]
        pub temperature: Option<f64>,
        /// Keeps the most likely tokens up to this probability.
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
        pub top_p: Option<f64>,
        /// Functions that the model may call.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<ResponseToolSchema>>))]
        pub tools: Option<Vec<Value>>,
        /// `none`, `auto`, `required`, or one function by name.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<super::chat::ToolChoiceSchema>))]
        pub tool_choice: Option<Value>,
        /// Whether one answer may hold several calls.
        pub parallel_tool_calls: Option<bool>,
        /// The form of the answer.
        pub text: Option<TextOptions>,
        /// How much to think.
        pub reasoning: Option<ReasoningOptions>,
        /// Whether the answer comes as server-sent events.
        pub stream: Option<bool>,
        /// Whether to keep the answer. It is not kept; `true` is refused.
        pub store: Option<bool>,
        /// An earlier answer to go on from. None is kept; it is refused.
        pub previous_response_id: Option<String>,
        /// Told back with the answer.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
        pub metadata: Option<serde_json::Map<String, Value>>,
        /// `auto` cuts the beginning of a prompt that is too long, `disabled` refuses it.
        #[cfg_attr(feature = "openapi", schema(pattern = "^(auto|disabled)$"))]
        pub truncation: Option<String>,
        /// Further things to tell. This server has none of them.
        pub include: Option<Vec<String>>,
        /// The same seed and request give the same answer.
        #[serde(deserialize_with = "whole")]
        pub seed: Option<i64>,
    }
}

/// `text`.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct TextOptions {
    /// `{"type": "text"}`, `{"type": "json_object"}` or `{"type": "json_schema", "name": .., "schema": ..}`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub format: Option<Value>,
}

/// `reasoning`.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ReasoningOptions {
    /// `none` switches thinking off, any other effort on.
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^(none|minimal|low|medium|high|xhigh|max)$")
    )]
    pub effort: Option<String>,
    /// Ignored: the reasoning is told as it is.
    pub summary: Option<String>,
}

/// `response`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResponseObject {
    /// `resp_` and something unique.
    pub id: String,
    /// `response`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub object: &'static str,
    /// When the request came, in seconds since 1970.
    pub created_at: u64,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub status: &'static str,
    /// Why it failed.
    pub error: Option<ResponseError>,
    /// Why it is incomplete.
    pub incomplete_details: Option<IncompleteDetails>,
    /// The system message of the request.
    pub instructions: Option<String>,
    /// The limit of the request.
    pub max_output_tokens: Option<usize>,
    /// The model that answered.
    pub model: String,
    /// What the model said, thought and calls.
    pub output: Vec<OutputItem>,
    /// Whether several calls were allowed.
    pub parallel_tool_calls: bool,
    /// Always `null`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub previous_response_id: Option<()>,
    /// How much to think.
    pub reasoning: ReasoningTold,
    /// Always `false`.
    pub store: bool,
    /// Softmax temperature.
    pub temperature: f64,
    /// Form of the answer.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub text: Value,
    /// As in the request.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub tool_choice: Value,
    /// As in the request.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub tools: Vec<Value>,
    /// Probability kept.
    pub top_p: f64,
    /// As in the request.
    pub truncation: String,
    /// What it cost.
    pub usage: Option<ResponseUsage>,
    /// As in the request.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Value,
}

/// `reasoning` of an answer.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasoningTold {
    /// As in the request.
    pub effort: Option<String>,
    /// Always `null`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub summary: Option<()>,
}

/// Why a response failed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResponseError {
    /// `server_error`, or another word that programs compare with.
    pub code: String,
    /// In words.
    pub message: String,
}

/// Why a response is incomplete.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IncompleteDetails {
    /// `max_output_tokens`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub reason: &'static str,
}

/// Tokens of a response.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResponseUsage {
    /// Tokens of the prompt.
    pub input_tokens: usize,
    /// About the prompt.
    pub input_tokens_details: super::usage::PromptTokensDetails,
    /// Tokens of the answer.
    pub output_tokens: usize,
    /// About the answer.
    pub output_tokens_details: super::usage::CompletionTokensDetails,
    /// Both together.
    pub total_tokens: usize,
}

/// A part of an answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputItem {
    /// What the model thought.
    Reasoning {
        /// `rs_` and something unique.
        id: String,
        /// `in_progress`, `completed` or `incomplete`.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        status: &'static str,
        /// Always empty: nothing is summarised.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
        summary: [(); 0],
        /// The text.
        content: Vec<ReasoningText>,
    },
    /// What the model said.
    Message {
        /// `msg_` and something unique.
        id: String,
        /// `in_progress`, `completed` or `incomplete`.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        status: &'static str,
        /// `assistant`.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        role: &'static str,
        /// The text.
        content: Vec<OutputText>,
    },
    /// A function that the model calls.
    FunctionCall {
        /// `fc_` and something unique.
        id: String,
        /// To be named by the function's output.
        call_id: String,
        /// The function.
        name: String,
        /// A JSON object, as text.
        arguments: String,
        /// `in_progress`, `completed` or `incomplete`.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        status: &'static str,
    },
}

/// Text of a message.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutputText {
    /// `output_text`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: &'static str,
    /// The text.
    pub text: String,
    /// Always empty.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub annotations: [(); 0],
    /// Always empty.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub logprobs: [(); 0],
}

impl OutputText {
    /// A text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self {
            kind: "output_text",
            text,
            annotations: [],
            logprobs: [],
        }
    }
}

/// Text of reasoning.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasoningText {
    /// `reasoning_text`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

impl ReasoningText {
    /// A text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self {
            kind: "reasoning_text",
            text,
        }
    }
}

/// Text, or a list of items.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = ResponseInput)]
#[non_exhaustive]
pub enum InputSchema {
    /// Text.
    #[schema(title = "text")]
    Text(String),
    /// Items.
    #[schema(title = "items")]
    Items(Vec<InputItemSchema>),
}

/// A message of an input.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = ResponseInputItem)]
#[non_exhaustive]
pub struct InputItemSchema {
    /// `message`; calls, their outputs and reasoning are items of other types.
    #[schema(rename = "type", pattern = "^message$")]
    pub kind: Option<String>,
    /// Who speaks.
    #[schema(pattern = "^(system|developer|user|assistant)$")]
    pub role: String,
    /// Text, or a list of text parts.
    pub content: super::chat::ContentSchema,
}

/// A function that the model may call.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = ResponseTool)]
#[non_exhaustive]
pub struct ResponseToolSchema {
    /// `function`.
    #[schema(rename = "type", pattern = "^function$")]
    pub kind: String,
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
