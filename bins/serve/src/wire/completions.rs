//! `/v1/completions`: request fields, the answer, and the chunks of a streamed answer (which have the same shape).

use std::fmt;

use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use super::body::request_fields;
use super::chat::{FinishReason, StopCause};
use super::lenient::whole;
use super::logprobs::CompletionLogprobs;
use super::usage::{Timings, Usage};

request_fields! {
    /// Fields of completions, besides those it shares with chat.
    pub struct CompletionFields {
        /// Text, several texts, one list of token ids, or several.
        #[cfg_attr(feature = "openapi", schema(value_type = PromptSchema, required = true))]
        pub prompt: Option<Prompts>,
        /// How many of the most likely tokens are told in each place, 0 to 20; absent tells no log-probabilities.
        #[serde(deserialize_with = "whole_or_switch")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 20))]
        pub logprobs: Option<usize>,
        /// Whether the text begins with the prompt.
        pub echo: Option<bool>,
        /// As many as `n`: no more answers are made than are given.
        #[serde(deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 1))]
        pub best_of: Option<usize>,
        /// In which unit `text_offset` counts: `chars` (as Python does) or `bytes` (as Go does).
        pub text_offset_unit: Option<String>,
        /// Whether special tokens are put before the prompt; Qwen3.5 has none to put.
        pub add_special_tokens: Option<bool>,
    }
}

/// The prompts of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prompts {
    /// Texts.
    Texts(Vec<String>),
    /// Lists of token ids.
    Tokens(Vec<Vec<u32>>),
}

impl<'de> Deserialize<'de> for Prompts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyShape;

        impl<'de> Visitor<'de> for AnyShape {
            type Value = Prompts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a string, a list of strings, a list of token ids or a list of such lists",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Prompts::Texts(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let (mut texts, mut tokens, mut lists) = (Vec::new(), Vec::new(), Vec::new());
                while let Some(entry) = list.next_element::<Value>()? {
                    match entry {
                        Value::String(text) => texts.push(text),
                        Value::Array(ids) => {
                            lists.push(ids.iter().map(token_id).collect::<Result<_, _>>()?);
                        }
                        other => tokens.push(token_id(&other)?),
                    }
                }
                match (texts.is_empty(), tokens.is_empty(), lists.is_empty()) {
                    (_, true, true) => Ok(Prompts::Texts(texts)),
                    (true, false, true) => Ok(Prompts::Tokens(vec![tokens])),
                    (true, true, false) => Ok(Prompts::Tokens(lists)),
                    _ => Err(de::Error::custom("strings, token ids and lists are mixed")),
                }
            }
        }

        deserializer.deserialize_any(AnyShape)
    }
}

fn token_id<E: de::Error>(value: &Value) -> Result<u32, E> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| E::custom(format_args!("{value} is not a token id")))
}

/// `logprobs` as a number; clients that know the chat route send a switch, where `true` is one token.
fn whole_or_switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(1)),
        number => whole(number).map_err(de::Error::custom),
    }
}

/// `text_completion`, whole or a chunk.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Completion {
    /// `cmpl-` and something unique.
    pub id: String,
    /// `text_completion`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub object: &'static str,
    /// When the request came, in seconds since 1970.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// The package and the runtime that computed it.
    pub system_fingerprint: String,
    /// The answers, those to the first prompt first.
    pub choices: Vec<CompletionChoice>,
    /// What it cost; in a stream only with `include_usage`, `null` but for the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Usage>))]
    pub usage: Option<Option<Usage>>,
    /// How long it took; in a stream in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

/// One answer, or its next piece.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompletionChoice {
    /// Which answer: prompt times `n` plus answer.
    pub index: usize,
    /// The text.
    pub text: String,
    /// Log-probabilities, if asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why it ended; in a stream in its last chunk.
    pub finish_reason: Option<FinishReason>,
    /// The stop string or the stop token that ended it, where one did.
    pub stop_reason: Option<StopCause>,
    /// Ids of the answer, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
    /// Ids of the prompt, if asked for; in a stream in the first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
}

/// Text, several texts, one list of token ids, or several.
#[cfg(feature = "openapi")]
#[derive(Debug, utoipa::ToSchema)]
#[schema(as = Prompt)]
#[non_exhaustive]
pub enum PromptSchema {
    /// A text.
    #[schema(title = "text")]
    Text(String),
    /// Texts.
    #[schema(title = "texts")]
    Texts(Vec<String>),
    /// Token ids.
    #[schema(title = "tokens")]
    Tokens(Vec<u32>),
    /// Lists of token ids.
    #[schema(title = "token lists")]
    TokenLists(Vec<Vec<u32>>),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_has_four_shapes_and_no_mixture() {
        let read = |value: Value| serde_json::from_value::<Prompts>(value);
        assert_eq!(read(json!("a")).unwrap(), Prompts::Texts(vec!["a".into()]));
        assert_eq!(
            read(json!(["a", "b"])).unwrap(),
            Prompts::Texts(vec!["a".into(), "b".into()])
        );
        assert_eq!(
            read(json!([1, 2])).unwrap(),
            Prompts::Tokens(vec![vec![1, 2]])
        );
        assert_eq!(
            read(json!([[1], []])).unwrap(),
            Prompts::Tokens(vec![vec![1], vec![]])
        );
        for bad in [
            json!(1),
            json!(["a", 1]),
            json!([1, [2]]),
            json!([-1]),
            json!([1.5]),
            json!({}),
            json!([[null]]),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn logprobs_is_a_number_or_a_switch() {
        let read = |value: Value| {
            let body =
                super::super::body::RequestBody::from_value(json!({ "logprobs": value })).unwrap();
            body.read::<CompletionFields>()
                .map(|fields| fields.logprobs)
        };
        assert_eq!(read(json!(3)).unwrap(), Some(3));
        assert_eq!(read(json!(0)).unwrap(), Some(0));
        assert_eq!(read(json!(true)).unwrap(), Some(1));
        assert_eq!(read(json!(false)).unwrap(), None);
        assert!(read(json!("1")).is_err());
    }
}
