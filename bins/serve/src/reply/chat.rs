//! The answer of `/v1/chat/completions`.

use std::sync::Arc;

use bytes::Bytes;
use mtp_spec::TokenLogprobs;
use qwen35_model::text::{OutputEvent, Tokenizer};

use super::Reply;
use super::tally::Tally;
use super::token_text::chat_entry;
use crate::controls::StreamMode;
use crate::generate::job::{EndCause, Piece, RunEnd, ShownToken};
use crate::sse;
use crate::wire::chat::{
    AssistantMessage, CalledFunction, CalledTool, ChatChoice, ChatChunk, ChatCompletion, ChatDelta,
    FinishReason, FunctionDelta, MessageDelta, StopCause, ToolCallDelta,
};
use crate::wire::logprobs::{ChatLogprobs, TokenEntry};

/// What all parts of an answer have in common.
#[derive(Clone, Debug)]
pub struct Head {
    /// Id of the answer.
    pub id: String,
    /// When the request came, in seconds since 1970.
    pub created: u64,
    /// Name of the model.
    pub model: String,
    /// Package and runtime.
    pub fingerprint: String,
}

/// What the request wants to be told.
#[derive(Clone, Debug)]
pub struct ChatWishes {
    /// Log-probabilities of each token.
    pub logprobs: bool,
    /// Reasoning.
    pub reasoning: bool,
    /// Reasoning under the name `reasoning` as well.
    pub reasoning_alias: bool,
    /// Token ids; those of the prompt are here.
    pub prompt_ids: Option<Vec<u32>>,
    /// Frames, with that of the usage at the end if asked for; otherwise the answer is told as a whole.
    pub stream: Option<StreamMode>,
    /// The stop strings, for telling which one was found.
    pub stops: Vec<String>,
    /// The model's own ends of turn, which are not told as a cause.
    pub eos: Vec<u32>,
}

/// Builds the answer.
#[derive(Debug)]
pub struct ChatReply {
    head: Head,
    wishes: ChatWishes,
    tokenizer: Arc<Tokenizer>,
    choices: Vec<Choice>,
    prompt_ids_told: bool,
}

#[derive(Debug, Default)]
struct Choice {
    content: String,
    reasoning: String,
    calls: Vec<CalledTool>,
    entries: Vec<TokenEntry>,
    token_ids: Vec<u32>,
    end: Option<(FinishReason, Option<StopCause>)>,
    role_told: bool,
}

impl ChatReply {
    /// An answer of `choices` choices.
    #[must_use]
    pub fn new(head: Head, wishes: ChatWishes, tokenizer: Arc<Tokenizer>, choices: usize) -> Self {
        Self {
            head,
            wishes,
            tokenizer,
            choices: (0..choices).map(|_| Choice::default()).collect(),
            prompt_ids_told: false,
        }
    }

    fn entries(&self, tokens: &[ShownToken]) -> Vec<TokenEntry> {
        if !self.wishes.logprobs {
            return Vec::new();
        }
        let entry = |token: &ShownToken| {
            Some(chat_entry(
                &self.tokenizer,
                token.id,
                token.logprobs.as_ref()?,
            ))
        };
        tokens.iter().filter_map(entry).collect()
    }

    fn chunk(&mut self, choices: Vec<ChatDelta>) -> ChatChunk {
        let prompt_token_ids = match self.prompt_ids_told {
            true => None,
            false => self.wishes.prompt_ids.clone(),
        };
        self.prompt_ids_told = true;
        ChatChunk {
            id: self.head.id.clone(),
            object: "chat.completion.chunk",
            created: self.head.created,
            model: self.head.model.clone(),
            system_fingerprint: self.head.fingerprint.clone(),
            choices,
            usage: self.tells_usage().then_some(None),
            timings: None,
            prompt_token_ids,
        }
    }

    /// The role comes with the first piece: a client that counts chunks takes the first for the first token.
    fn role(&mut self, choice: usize) -> Option<&'static str> {
        let told = std::mem::replace(&mut self.choices[choice].role_told, true);
        (!told).then_some("assistant")
    }
}

impl Reply for ChatReply {
    type Whole = ChatCompletion;

    fn begun(&mut self, _choice: usize) -> Option<Bytes> {
        None
    }

    fn prompt_logprobs(&mut self, _choice: usize, _logprobs: Vec<TokenLogprobs>) -> Option<Bytes> {
        None
    }

    fn piece(&mut self, piece: Piece) -> Option<Bytes> {
        let index = piece.choice;
        let mut delta = delta(piece.output);
        if !self.wishes.reasoning {
            delta.reasoning_content = None;
        }
        let entries = self.entries(&piece.tokens);
        let ids: Vec<u32> = match self.wishes.prompt_ids {
            Some(_) => piece.tokens.iter().map(|token| token.id.into()).collect(),
            None => Vec::new(),
        };
        if delta == MessageDelta::default() && entries.is_empty() && ids.is_empty() {
            return None;
        }
        if self.wishes.stream.is_none() {
            let choice = &mut self.choices[index];
            choice.add(delta);
            choice.entries.extend(entries);
            choice.token_ids.extend(ids);
            return None;
        }
        delta.role = self.role(index);
        if self.wishes.reasoning_alias {
            delta.reasoning.clone_from(&delta.reasoning_content);
        }
        let logprobs = self.wishes.logprobs.then_some(ChatLogprobs {
            content: entries,
            refusal: None,
        });
        let token_ids = self.wishes.prompt_ids.is_some().then_some(ids);
        let chunk = self.chunk(vec![ChatDelta {
            index,
            delta,
            logprobs,
            finish_reason: None,
            stop_reason: None,
            token_ids,
        }]);
        Some(sse::data(&chunk))
    }

    fn ended(&mut self, end: &RunEnd, last: Option<&Tally>) -> Option<Bytes> {
        let index = end.choice;
        let reason = finish_reason(end);
        let cause = stop_cause(end.cause, &self.wishes.stops, &self.wishes.eos);
        if self.wishes.stream.is_none() {
            self.choices[index].end = Some((reason, cause));
            return None;
        }
        let role = self.role(index);
        let delta = MessageDelta {
            content: role.map(|_| String::new()),
            role,
            ..MessageDelta::default()
        };
        let mut chunk = self.chunk(vec![ChatDelta {
            index,
            delta,
            logprobs: None,
            finish_reason: Some(reason),
            stop_reason: cause,
            token_ids: None,
        }]);
        chunk.timings = last.map(Tally::timings);
        Some(sse::data(&chunk))
    }

    fn usage(&mut self, tally: &Tally) -> Option<Bytes> {
        if !self.tells_usage() {
            return None;
        }
        let mut chunk = self.chunk(Vec::new());
        chunk.usage = Some(Some(tally.usage()));
        chunk.timings = Some(tally.timings());
        Some(sse::data(&chunk))
    }

    fn tells_usage(&self) -> bool {
        self.wishes.stream.is_some_and(|mode| mode.include_usage)
    }

    fn whole(self, tally: &Tally) -> ChatCompletion {
        let wishes = self.wishes;
        let choices = self.choices.into_iter().enumerate();
        ChatCompletion {
            id: self.head.id,
            object: "chat.completion",
            created: self.head.created,
            model: self.head.model,
            system_fingerprint: self.head.fingerprint,
            choices: choices
                .map(|(index, choice)| choice.told(index, &wishes))
                .collect(),
            usage: tally.usage(),
            timings: tally.timings(),
            prompt_token_ids: wishes.prompt_ids,
        }
    }
}

impl Choice {
    fn add(&mut self, delta: MessageDelta) {
        self.content
            .push_str(delta.content.as_deref().unwrap_or_default());
        self.reasoning
            .push_str(delta.reasoning_content.as_deref().unwrap_or_default());
        for call in delta.tool_calls {
            if let (Some(id), Some(name)) = (call.id, call.function.name) {
                self.calls.push(CalledTool {
                    id,
                    kind: "function",
                    function: CalledFunction {
                        name,
                        arguments: String::new(),
                    },
                });
            }
            if let Some(called) = self.calls.get_mut(call.index) {
                called.function.arguments.push_str(&call.function.arguments);
            }
        }
    }

    fn told(self, index: usize, wishes: &ChatWishes) -> ChatChoice {
        let (finish_reason, stop_reason) = self.end.unwrap_or((FinishReason::Length, None));
        let reasoning = (!self.reasoning.is_empty()).then_some(self.reasoning);
        let only_calls = !self.calls.is_empty() && self.content.trim().is_empty();
        ChatChoice {
            index,
            message: AssistantMessage {
                role: "assistant",
                content: (!only_calls).then_some(self.content),
                reasoning: reasoning.clone().filter(|_| wishes.reasoning_alias),
                reasoning_content: reasoning,
                tool_calls: self.calls,
            },
            logprobs: wishes.logprobs.then_some(ChatLogprobs {
                content: self.entries,
                refusal: None,
            }),
            finish_reason,
            stop_reason,
            token_ids: wishes.prompt_ids.is_some().then_some(self.token_ids),
        }
    }
}

/// Why an answer ended, in the API's words.
#[must_use]
pub fn finish_reason(end: &RunEnd) -> FinishReason {
    match end.cause {
        EndCause::Length => FinishReason::Length,
        _ if end.tool_calls > 0 => FinishReason::ToolCalls,
        EndCause::StopToken(_) | EndCause::StopString(_) | EndCause::ToolCallLimit => {
            FinishReason::Stop
        }
    }
}

/// What ended an answer, where the request asked for it.
#[must_use]
pub fn stop_cause(cause: EndCause, stops: &[String], eos: &[u32]) -> Option<StopCause> {
    match cause {
        EndCause::StopString(index) => stops.get(index).cloned().map(StopCause::Text),
        EndCause::StopToken(token) => {
            let id = u32::from(token);
            (!eos.contains(&id)).then_some(StopCause::Token(id))
        }
        EndCause::ToolCallLimit | EndCause::Length => None,
    }
}

/// One step's events as what is new in the message.
fn delta(output: Vec<OutputEvent>) -> MessageDelta {
    let mut delta = MessageDelta::default();
    for event in output {
        match event {
            OutputEvent::Content(text) => append(&mut delta.content, text),
            OutputEvent::Reasoning(text) => append(&mut delta.reasoning_content, text),
            OutputEvent::ToolCallStart { index, id, name } => {
                delta.tool_calls.push(ToolCallDelta {
                    index,
                    id: Some(id),
                    kind: Some("function"),
                    function: FunctionDelta {
                        name: Some(name),
                        arguments: String::new(),
                    },
                });
            }
            OutputEvent::ToolArguments { index, delta: text } => {
                match delta.tool_calls.last_mut() {
                    Some(call) if call.index == index => call.function.arguments.push_str(&text),
                    _ => delta.tool_calls.push(ToolCallDelta {
                        index,
                        id: None,
                        kind: None,
                        function: FunctionDelta {
                            name: None,
                            arguments: text,
                        },
                    }),
                }
            }
            OutputEvent::ToolCallEnd { .. } | OutputEvent::Stopped { .. } => {}
        }
    }
    delta
}

fn append(so_far: &mut Option<String>, text: String) {
    match so_far {
        Some(so_far) => so_far.push_str(&text),
        None => *so_far = Some(text),
    }
}
