//! Structured output: from a request's schema, expression or grammar to a matcher over the model's tokens.

mod gbnf;
mod tool_grammar;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use mtp_spec::TokenId;
use qwen35_model::text::{Tokenizer, ToolDefinition};
use serde_json::{Value, json};
use toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

/// What an answer must look like.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Form {
    /// Any JSON object.
    JsonObject,
    /// JSON that follows a schema.
    JsonSchema(Value),
    /// Text that an expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Text of a grammar: Lark, or GBNF (told by its `::=`).
    Grammar(String),
    /// Calls of these tools, one or (with `parallel`) several.
    ToolCalls {
        /// The tools to choose from.
        tools: Vec<ToolDefinition>,
        /// Whether several calls are allowed.
        parallel: bool,
    },
    /// Either calls of these tools or text of another form.
    CallsOr {
        /// The tools to choose from.
        tools: Vec<ToolDefinition>,
        /// Whether several calls are allowed.
        parallel: bool,
        /// The other form.
        answer: Box<Self>,
    },
}

/// Why there is no matcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// The request's schema, expression or grammar cannot be used.
    #[error("{0}")]
    Form(String),
    /// The model's vocabulary cannot be used.
    #[error("structured output is not possible with this vocabulary: {0}")]
    Vocabulary(String),
}

/// Makes matchers for one vocabulary.
#[derive(Clone)]
pub struct GrammarFactory {
    factory: Arc<ParserFactory>,
}

impl fmt::Debug for GrammarFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrammarFactory")
    }
}

impl GrammarFactory {
    /// Reads the vocabulary. Control tokens (`<think>`, `<|im_end|>`) can only be named by a grammar, never be part of text.
    ///
    /// # Errors
    /// A vocabulary that is larger than the model's, or that the library refuses.
    pub fn new(tokenizer: &Tokenizer, vocab_size: usize) -> Result<Self, GrammarError> {
        let refuse = |message: String| GrammarError::Vocabulary(message);
        let width = u32::try_from(vocab_size.max(tokenizer.vocab_size()))
            .map_err(|error| refuse(error.to_string()))?;
        let words: Vec<Vec<u8>> = (0..width).map(|id| word(tokenizer, TokenId(id))).collect();
        let eos: Vec<u32> = tokenizer.eos().iter().map(|&token| token.into()).collect();
        let first = eos.first().copied().unwrap_or_default();
        let made = catch_unwind(|| {
            let trie = TokTrie::from(&TokRxInfo::new(width, first), &words).with_eos_tokens(&eos);
            let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let mut factory = ParserFactory::new_simple(&env)?;
            factory.quiet();
            factory.limits_mut().verbose_errors = false;
            anyhow::Ok(factory)
        });
        match made {
            Ok(Ok(factory)) => Ok(Self {
                factory: Arc::new(factory),
            }),
            Ok(Err(error)) => Err(refuse(error.to_string())),
            Err(_) => Err(refuse("its tokens cannot be sorted into a trie".into())),
        }
    }

    /// Compiles a form.
    ///
    /// # Errors
    /// A form that cannot be understood, that uses what the library does not have, or that is too large.
    pub fn compile(&self, form: &Form) -> Result<Matcher, GrammarError> {
        let grammar = match form {
            Form::JsonObject => {
                TopLevelGrammar::from_json_schema(with_layout(json!({"type": "object"})))
            }
            Form::JsonSchema(schema) => {
                TopLevelGrammar::from_json_schema(with_layout(schema.clone()))
            }
            Form::Regex(pattern) => TopLevelGrammar::from_regex(pattern),
            Form::Grammar(text) if !is_gbnf(text) => {
                TopLevelGrammar::from_lark_or_grammar_list(text)
                    .map_err(|error| GrammarError::Form(one_line(&error.to_string())))?
            }
            other => TopLevelGrammar::from_lark(format!("start: {}", lark(other)?)),
        };
        // A hostile grammar must not take the handler down, whatever the library does with it.
        let compiled = catch_unwind(AssertUnwindSafe(|| {
            let mut matcher = Matcher::new(self.factory.create_parser(grammar));
            match matcher.get_error() {
                None => {
                    // The first mask is where the limits of a grammar's size show.
                    matcher.compute_mask_or_eos().map(|_| matcher)
                }
                Some(message) => Err(anyhow::Error::msg(message)),
            }
        }));
        match compiled {
            Ok(Ok(matcher)) => Ok(matcher),
            Ok(Err(error)) => Err(GrammarError::Form(one_line(&error.to_string()))),
            Err(_) => Err(GrammarError::Form("the grammar cannot be compiled".into())),
        }
    }
}

/// A form as the right side of a Lark rule, followed by the rules that it uses.
fn lark(form: &Form) -> Result<String, GrammarError> {
    Ok(match form {
        Form::JsonObject => format!("%json {}", with_layout(json!({"type": "object"}))),
        Form::JsonSchema(schema) => format!("%json {}", with_layout(schema.clone())),
        Form::Regex(pattern) => format!("%regex {}", json!({ "rust": pattern })),
        Form::Choice(choices) => {
            let choices: Vec<String> = choices.iter().map(|choice| literal(choice)).collect();
            choices.join(" | ")
        }
        Form::Grammar(text) if is_gbnf(text) => {
            let rules = gbnf::to_lark(text).map_err(GrammarError::Form)?;
            format!("g_root\n{rules}")
        }
        // A Lark grammar brings its own start rule.
        Form::Grammar(_) => {
            let message = "a Lark grammar cannot be combined with tools; use tool_choice none";
            return Err(GrammarError::Form(message.into()));
        }
        Form::ToolCalls { tools, parallel } => tool_grammar::calls(tools, *parallel),
        Form::CallsOr {
            tools,
            parallel,
            answer,
        } => {
            let calls = tool_grammar::calls(tools, *parallel);
            format!(
                "either_calls | either_answer\neither_answer: {}\neither_calls: {calls}",
                lark(answer)?
            )
        }
    })
}

fn is_gbnf(grammar: &str) -> bool {
    grammar.contains("::=")
}

/// Text as a Lark literal.
fn literal(text: &str) -> String {
    // JSON's escapes are Lark's.
    Value::String(text.to_owned()).to_string()
}

/// A schema with our layout: one space after commas and colons and no other, so that a model cannot fill its answer with
/// white space.
fn with_layout(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert(
            "x-guidance".into(),
            json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}),
        );
    }
    schema
}

fn word(tokenizer: &Tokenizer, token: TokenId) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(token).unwrap_or_default();
    if tokenizer.is_control(token) && !bytes.is_empty() {
        [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
    } else {
        bytes.to_vec()
    }
}

fn one_line(message: &str) -> String {
    let mut lines = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    match lines.next() {
        Some(second) if first.ends_with(':') => format!("{first} {second}"),
        _ => first.to_owned(),
    }
}
