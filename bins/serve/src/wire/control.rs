//! Request fields that chat and completions share: sampling, length, ending, streaming.

use serde::Deserialize;
use serde_json::Value;

use super::body::request_fields;
use super::lenient::{Biases, Strings, whole, whole_list};

request_fields! {
    /// Fields that chat and completions share. All are optional.
    pub struct ControlFields {
        /// Name of the model; absent means the one that is served.
        pub model: Option<String>,
        /// Whether the answer comes as server-sent events.
        pub stream: Option<bool>,
        /// What a stream holds besides the answer. Only with `stream: true`.
        pub stream_options: Option<StreamOptions>,
        /// Softmax temperature, 0 to 2; 0 is greedy.
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 2))]
        pub temperature: Option<f64>,
        /// Keeps the most likely tokens up to this probability, above 0 to 1.
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
        pub top_p: Option<f64>,
        /// Keeps this many most likely tokens; 0 and -1 keep all.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = -1))]
        pub top_k: Option<i64>,
        /// Keeps tokens of at least this fraction of the best one's probability, 0 to 1.
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
        pub min_p: Option<f64>,
        /// Divides positive and multiplies negative logits of tokens that were seen, above 0.
        pub repetition_penalty: Option<f64>,
        /// llama.cpp's name for `repetition_penalty`.
        pub repeat_penalty: Option<f64>,
        /// Taken off tokens that stand in the output, -2 to 2.
        #[cfg_attr(feature = "openapi", schema(minimum = -2, maximum = 2))]
        pub presence_penalty: Option<f64>,
        /// Taken off tokens for each time they stand in the output, -2 to 2.
        #[cfg_attr(feature = "openapi", schema(minimum = -2, maximum = 2))]
        pub frequency_penalty: Option<f64>,
        /// Added to the logits of tokens, each -100 to 100.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::HashMap<String, f64>>))]
        pub logit_bias: Option<Biases>,
        /// The same seed and request give the same answer.
        #[serde(deserialize_with = "whole")]
        pub seed: Option<i64>,
        /// How many answers to give.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 128))]
        pub n: Option<usize>,
        /// Most tokens of an answer.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0))]
        pub max_tokens: Option<usize>,
        /// The same; the smaller of both counts.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0))]
        pub max_completion_tokens: Option<usize>,
        /// llama.cpp's name for `max_tokens`; -1 is no limit.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = -1))]
        pub n_predict: Option<i64>,
        /// Tokens that an answer has before it may end.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0))]
        pub min_tokens: Option<usize>,
        /// Whether the model's own end of turn is passed over.
        pub ignore_eos: Option<bool>,
        /// Strings that end the answer and are not part of it.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<OneOrManyStrings>))]
        pub stop: Option<Strings>,
        /// Tokens that end the answer.
        #[serde(deserialize_with = "whole_list")]
        pub stop_token_ids: Option<Vec<u32>>,
        /// Whether the stop string is part of the answer after all.
        pub include_stop_str_in_output: Option<bool>,
        /// Whether special tokens are left out of the text. Yes, unless `false`.
        pub skip_special_tokens: Option<bool>,
        /// Whether the ids of prompt and answer are told.
        pub return_token_ids: Option<bool>,
        /// Keeps only so many tokens at the end of the prompt; -1 keeps what fits.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = -1))]
        pub truncate_prompt_tokens: Option<i64>,
        /// Whether to draft. It changes the speed, never the answer.
        pub speculative: Option<bool>,
        /// Whether state of an earlier prompt may be used, and this one's kept. It changes the speed, never the answer.
        pub cache_prompt: Option<bool>,
        /// A form for the answer: `text`, `json_object` or `json_schema`.
        pub response_format: Option<ResponseFormat>,
        /// A grammar for the answer: Lark, or GBNF as llama.cpp takes it.
        pub grammar: Option<String>,
        /// A JSON schema for the answer, llama.cpp's way.
        pub json_schema: Option<Value>,
        /// A form for the answer, vLLM's way.
        pub structured_outputs: Option<StructuredOutputs>,
        /// vLLM's older `structured_outputs.json`.
        pub guided_json: Option<Value>,
        /// vLLM's older `structured_outputs.regex`.
        pub guided_regex: Option<String>,
        /// vLLM's older `structured_outputs.choice`.
        pub guided_choice: Option<Vec<String>>,
        /// vLLM's older `structured_outputs.grammar`.
        pub guided_grammar: Option<String>,
        /// Who asks; not used.
        pub user: Option<String>,
    }
}

/// `stream_options`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct StreamOptions {
    /// Whether a last chunk without choices tells the usage.
    pub include_usage: Option<bool>,
}

/// `response_format`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ResponseFormat {
    /// `text`, `json_object`, `json_schema`, `regex` or `grammar`.
    #[serde(rename = "type")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^(text|json_object|json_schema|regex|grammar)$")
    )]
    pub kind: String,
    /// With `json_schema`: the schema and its name.
    #[serde(default)]
    pub json_schema: Option<JsonSchemaFormat>,
    /// With `json_object`, as llama.cpp takes it: a schema.
    #[serde(default)]
    pub schema: Option<Value>,
    /// With `regex`: the expression.
    #[serde(default)]
    pub pattern: Option<String>,
    /// With `grammar`: the grammar.
    #[serde(default)]
    pub grammar: Option<String>,
}

/// `response_format.json_schema`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct JsonSchemaFormat {
    /// A name for the schema; not used.
    pub name: Option<String>,
    /// What it is for; not used.
    pub description: Option<String>,
    /// The schema.
    pub schema: Option<Value>,
    /// Whether the answer must follow it. It does either way.
    pub strict: Option<bool>,
}

/// `structured_outputs`: at most one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct StructuredOutputs {
    /// A JSON schema, as an object or as text.
    pub json: Option<Value>,
    /// Any JSON object.
    pub json_object: Option<bool>,
    /// A regular expression over the whole answer.
    pub regex: Option<String>,
    /// The answers to choose from.
    pub choice: Option<Vec<String>>,
    /// A grammar.
    pub grammar: Option<String>,
}

/// One string or a list of strings.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = OneOrManyStrings)]
#[non_exhaustive]
pub enum OneOrManyStrings {
    /// One.
    #[schema(title = "one")]
    One(String),
    /// Many.
    #[schema(title = "many")]
    Many(Vec<String>),
}
