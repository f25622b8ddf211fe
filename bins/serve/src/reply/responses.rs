//! The answer of `/v1/responses`: items that open and close, one after the other.

use bytes::{Bytes, BytesMut};
use mtp_spec::TokenLogprobs;
use qwen35_model::text::OutputEvent;
use serde_json::{Value, json};

use super::Reply;
use super::tally::Tally;
use crate::generate::job::{EndCause, Piece, RunEnd};
use crate::sse;
use crate::wire::error::ApiError;
use crate::wire::responses::{
    IncompleteDetails, OutputItem, OutputText, ReasoningText, ResponseError, ResponseObject,
    ResponseUsage,
};

/// Builds the answer.
#[derive(Debug)]
pub struct ResponsesReply {
    // The answer as far as it is closed, with the request's fields told back.
    response: ResponseObject,
    number: String,
    streaming: bool,
    open: Option<Open>,
    cut: bool,
    sequence: u64,
    frames: BytesMut,
}

/// The item that is being written.
#[derive(Clone, Debug)]
enum Open {
    Reasoning {
        id: String,
        text: String,
    },
    Message {
        id: String,
        text: String,
    },
    Call {
        index: usize,
        id: String,
        call_id: String,
        name: String,
        arguments: String,
    },
}

impl ResponsesReply {
    /// An answer that begins as `response`, in which nothing was said yet. `number` makes the ids of its items.
    #[must_use]
    pub fn new(response: ResponseObject, number: String, streaming: bool) -> Self {
        Self {
            response,
            number,
            streaming,
            open: None,
            cut: false,
            sequence: 0,
            frames: BytesMut::new(),
        }
    }

    /// Tells an event: its name is its type, and all are numbered.
    fn event(&mut self, name: &str, mut fields: Value) {
        if !self.streaming {
            return;
        }
        if let Some(object) = fields.as_object_mut() {
            object.insert("type".into(), json!(name));
            object.insert("sequence_number".into(), json!(self.sequence));
        }
        self.sequence += 1;
        self.frames.extend_from_slice(&sse::named(name, &fields));
    }

    fn response_event(&mut self, name: &str) {
        if self.streaming {
            // Our own types always serialise.
            let response = serde_json::to_value(&self.response).unwrap_or_default();
            self.event(name, json!({ "response": response }));
        }
    }

    fn take_frames(&mut self) -> Option<Bytes> {
        (!self.frames.is_empty()).then(|| self.frames.split().freeze())
    }

    fn place(&self) -> usize {
        self.response.output.len()
    }

    fn item_id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.number, self.place())
    }

    fn begin(&mut self, open: Open) {
        self.close("completed");
        let place = self.place();
        let item = serde_json::to_value(open.item("in_progress", true)).unwrap_or_default();
        self.event(
            "response.output_item.added",
            json!({"output_index": place, "item": item}),
        );
        if let Some((id, part)) = open.part(String::new()) {
            self.event(
                "response.content_part.added",
                json!({"item_id": id, "output_index": place, "content_index": 0, "part": part}),
            );
        }
        self.open = Some(open);
    }

    fn close(&mut self, status: &'static str) {
        let Some(open) = self.open.take() else {
            return;
        };
        let place = self.place();
        let at = |id: &str| json!({"item_id": id, "output_index": place, "content_index": 0});
        match &open {
            Open::Reasoning { id, text } => {
                let mut done = at(id);
                done["text"] = json!(text);
                self.event("response.reasoning_text.done", done);
            }
            Open::Message { id, text } => {
                let mut done = at(id);
                done["text"] = json!(text);
                done["logprobs"] = json!([]);
                self.event("response.output_text.done", done);
            }
            Open::Call {
                id,
                name,
                arguments,
                ..
            } => self.event(
                "response.function_call_arguments.done",
                json!({"item_id": id, "output_index": place, "name": name, "arguments": arguments}),
            ),
        }
        if let Some((id, part)) = open.part(open.text().to_owned()) {
            let mut done = at(&id);
            done["part"] = part;
            self.event("response.content_part.done", done);
        }
        let item = open.item(status, false);
        let told = serde_json::to_value(&item).unwrap_or_default();
        self.event(
            "response.output_item.done",
            json!({"output_index": place, "item": told}),
        );
        self.response.output.push(item);
    }

    fn hear(&mut self, event: OutputEvent) {
        match event {
            OutputEvent::Reasoning(delta) => {
                if !matches!(self.open, Some(Open::Reasoning { .. })) {
                    let id = self.item_id_after_closing("rs");
                    self.begin(Open::Reasoning {
                        id,
                        text: String::new(),
                    });
                }
                self.more("response.reasoning_text.delta", &delta);
            }
            OutputEvent::Content(delta) => {
                if !matches!(self.open, Some(Open::Message { .. })) {
                    // White space between two calls is not an item of its own.
                    if matches!(self.open, Some(Open::Call { .. })) && delta.trim().is_empty() {
                        return;
                    }
                    let id = self.item_id_after_closing("msg");
                    self.begin(Open::Message {
                        id,
                        text: String::new(),
                    });
                }
                self.more("response.output_text.delta", &delta);
            }
            OutputEvent::ToolCallStart {
                index,
                id: call_id,
                name,
            } => {
                let id = self.item_id_after_closing("fc");
                self.begin(Open::Call {
                    index,
                    id,
                    call_id,
                    name,
                    arguments: String::new(),
                });
            }
            OutputEvent::ToolArguments { index, delta } => {
                if matches!(&self.open, Some(Open::Call { index: open, .. }) if *open == index) {
                    self.more("response.function_call_arguments.delta", &delta);
                }
            }
            OutputEvent::ToolCallEnd { .. } => self.close("completed"),
            OutputEvent::Stopped { .. } => {}
        }
    }

    fn item_id_after_closing(&mut self, prefix: &str) -> String {
        self.close("completed");
        self.item_id(prefix)
    }

    fn more(&mut self, name: &str, delta: &str) {
        let place = self.place();
        let Some(open) = &mut self.open else {
            return;
        };
        let (id, text, is_call) = match open {
            Open::Reasoning { id, text } | Open::Message { id, text } => (id, text, false),
            Open::Call { id, arguments, .. } => (id, arguments, true),
        };
        text.push_str(delta);
        let mut fields = json!({"item_id": id, "output_index": place, "delta": delta});
        if !is_call {
            fields["content_index"] = json!(0);
        }
        if name == "response.output_text.delta" {
            fields["logprobs"] = json!([]);
        }
        self.event(name, fields);
    }

    fn complete(&mut self, tally: &Tally) {
        let usage = tally.usage();
        self.response.usage = Some(ResponseUsage {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: usage.prompt_tokens_details,
            output_tokens: usage.completion_tokens,
            output_tokens_details: usage.completion_tokens_details,
            total_tokens: usage.total_tokens,
        });
        if self.cut {
            self.response.status = "incomplete";
            self.response.incomplete_details = Some(IncompleteDetails {
                reason: "max_output_tokens",
            });
        } else {
            self.response.status = "completed";
        }
    }
}

impl Reply for ResponsesReply {
    type Whole = ResponseObject;

    fn opening(&mut self) -> Option<Bytes> {
        self.response_event("response.created");
        self.response_event("response.in_progress");
        self.take_frames()
    }

    fn begun(&mut self, _choice: usize) -> Option<Bytes> {
        None
    }

    fn prompt_logprobs(&mut self, _choice: usize, _logprobs: Vec<TokenLogprobs>) -> Option<Bytes> {
        None
    }

    fn piece(&mut self, piece: Piece) -> Option<Bytes> {
        piece.output.into_iter().for_each(|event| self.hear(event));
        self.take_frames()
    }

    fn ended(&mut self, end: &RunEnd, last: Option<&Tally>) -> Option<Bytes> {
        self.cut = end.cause == EndCause::Length;
        self.close(if self.cut { "incomplete" } else { "completed" });
        if let Some(tally) = last {
            self.complete(tally);
            let name = if self.cut {
                "response.incomplete"
            } else {
                "response.completed"
            };
            self.response_event(name);
        }
        self.take_frames()
    }

    fn usage(&mut self, _tally: &Tally) -> Option<Bytes> {
        None
    }

    fn tells_usage(&self) -> bool {
        false
    }

    fn failed(&mut self, error: &ApiError) -> Bytes {
        self.close("incomplete");
        self.response.status = "failed";
        self.response.error = Some(ResponseError {
            code: error.word(),
            message: error.to_string(),
        });
        self.response_event("response.failed");
        self.frames.split().freeze()
    }

    fn done(&mut self) -> Option<Bytes> {
        None
    }

    fn whole(mut self, tally: &Tally) -> ResponseObject {
        self.complete(tally);
        self.response
    }
}

impl Open {
    fn text(&self) -> &str {
        match self {
            Self::Reasoning { text, .. } | Self::Message { text, .. } => text,
            Self::Call { arguments, .. } => arguments,
        }
    }

    /// The content part of the item, with this text; a call has none.
    fn part(&self, text: String) -> Option<(String, Value)> {
        let (id, part) = match self {
            Self::Reasoning { id, .. } => (id, serde_json::to_value(ReasoningText::new(text))),
            Self::Message { id, .. } => (id, serde_json::to_value(OutputText::new(text))),
            Self::Call { .. } => return None,
        };
        Some((id.clone(), part.unwrap_or_default()))
    }

    fn item(&self, status: &'static str, is_new: bool) -> OutputItem {
        match self.clone() {
            Self::Reasoning { id, text } => OutputItem::Reasoning {
                id,
                status,
                summary: [],
                content: if is_new {
                    Vec::new()
                } else {
                    vec![ReasoningText::new(text)]
                },
            },
            Self::Message { id, text } => OutputItem::Message {
                id,
                status,
                role: "assistant",
                content: if is_new {
                    Vec::new()
                } else {
                    vec![OutputText::new(text)]
                },
            },
            Self::Call {
                id,
                call_id,
                name,
                arguments,
                ..
            } => OutputItem::FunctionCall {
                id,
                call_id,
                name,
                arguments,
                status,
            },
        }
    }
}
