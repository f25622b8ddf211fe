//! Reading the model's tool calls while they are being written.
//!
//! The model writes what its chat template shows it:
//!
//! ```text
//! <tool_call>
//! <function=NAME>
//! <parameter=KEY>
//! VALUE
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! A JSON object `{"name": .., "arguments": {..}}` inside `<tool_call>` is taken as well. What cannot be read as a call is
//! answer text again, word for word.

use std::sync::Arc;

use serde_json::Value;

use super::json_call::{JsonScan, json_call};
use super::tool_arguments::{ArgumentSchemas, ArgumentType, is_null, may_become_null};

/// Finds tool calls in answer text that arrives in pieces; the result does not depend on the pieces.
///
/// ```
/// use qwen35_model::text::{ToolCallEvent, ToolCallParser};
///
/// let mut parser = ToolCallParser::new(Default::default());
/// let mut events = Vec::new();
/// parser.push("<tool_call>\n<function=now>\n</function>\n</tool_call>", &mut events);
/// parser.finish(true, &mut events);
/// assert_eq!(events[0], ToolCallEvent::Start { index: 0, name: "now".into() });
/// assert_eq!(events[1], ToolCallEvent::Arguments { index: 0, delta: "{}".into() });
/// assert_eq!(events[2], ToolCallEvent::End { index: 0 });
/// ```
#[derive(Debug, Clone)]
pub struct ToolCallParser {
    schemas: Arc<ArgumentSchemas>,
    state: State,
    // Text not yet understood.
    held: String,
    // What to give back as answer text if the call being opened turns out not to be one.
    lead: String,
    calls: usize,
    answered: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCallEvent {
    /// Answer text.
    Answer(String),
    /// A call begins.
    Start {
        /// Number of calls before it.
        index: usize,
        /// The function called.
        name: String,
    },
    /// More of the JSON text of a call's arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// To be appended.
        delta: String,
    },
    /// A call is complete, and so is its JSON.
    End {
        /// Which call.
        index: usize,
    },
}

#[derive(Debug, Clone)]
enum State {
    /// Outside calls.
    Answer,
    /// After `<tool_call>`.
    Opening,
    /// After `<function=`.
    Name,
    /// Inside a function, between parameters.
    Body(Function),
    /// After `<parameter=`.
    Key(Function),
    /// Inside a parameter's value.
    Value(Function, Parameter),
    /// Inside a JSON object, up to the brace that closes it.
    Json(JsonScan),
    /// After a complete function.
    Closing,
}

#[derive(Debug, Clone)]
struct Function {
    name: String,
    parameters: usize,
}

#[derive(Debug, Clone)]
struct Parameter {
    kind: ArgumentType,
    // The newline after the tag is not part of the value.
    started: bool,
    // Whether the opening quote is out.
    quoted: bool,
    // Value text that cannot be passed on before its end is seen.
    value: String,
    // How far `held` was searched for the end.
    searched: usize,
}

/// Whether a `<` in a value ends the value.
enum Ending {
    No,
    Unknown,
    // Bytes of the tag to remove.
    Yes(usize),
}

const CALL: &str = "<tool_call>";
const CALL_END: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

impl ToolCallParser {
    /// A parser that types arguments by these schemas.
    pub fn new(schemas: Arc<ArgumentSchemas>) -> Self {
        Self {
            schemas,
            state: State::Answer,
            held: String::new(),
            lead: String::new(),
            calls: 0,
            answered: false,
        }
    }

    /// Number of calls begun so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Takes more text and appends what is certain.
    pub fn push(&mut self, text: &str, out: &mut Vec<ToolCallEvent>) {
        self.held.push_str(text);
        while self.step(out, false) {}
    }

    /// Ends the text. If the model ended it (`complete`), tags it forgot to close are closed; a call that was cut off keeps
    /// its JSON unfinished, so that nobody takes half a call for a whole one.
    pub fn finish(&mut self, complete: bool, out: &mut Vec<ToolCallEvent>) {
        while complete && self.step(out, true) {}
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.state, State::Answer) {
            State::Answer if self.calls == 0 || !held.trim().is_empty() => self.answer(&held, out),
            State::Answer | State::Closing => {}
            State::Opening | State::Name | State::Json(_) => {
                let lead = std::mem::take(&mut self.lead);
                self.answer(&(lead + &held), out);
            }
            State::Body(function) | State::Key(function) => {
                if complete {
                    self.end_function(&function, out);
                }
            }
            State::Value(function, mut parameter) => {
                if complete {
                    parameter.value.push_str(&held);
                    self.end_parameter(parameter, out);
                    self.end_function(&function, out);
                }
            }
        }
    }

    /// One transition; `false` when more text is needed, or none is left. At the end of the text nothing is left undecided
    /// because of what might follow.
    fn step(&mut self, out: &mut Vec<ToolCallEvent>, at_end: bool) -> bool {
        match std::mem::replace(&mut self.state, State::Answer) {
            State::Answer => self.step_answer(out),
            State::Opening => self.step_opening(out),
            State::Name => self.step_name(out),
            State::Body(function) => self.step_body(function, out),
            State::Key(function) => self.step_key(function, out),
            State::Value(function, parameter) => self.step_value(function, parameter, out, at_end),
            State::Json(scan) => self.step_json(scan, out),
            State::Closing => self.step_closing(),
        }
    }

    fn step_answer(&mut self, out: &mut Vec<ToolCallEvent>) -> bool {
        if let Some(at) = self.held.find(CALL) {
            let before: String = self.held.drain(..at).collect();
            let text = before.trim_end();
            self.answer(text, out);
            // The space before a call is the template's.
            self.lead = before[text.len()..].to_owned() + CALL;
            self.held.drain(..CALL.len());
            self.state = State::Opening;
            return true;
        }
        let partial = (1..CALL.len())
            .rev()
            .find(|&n| self.held.ends_with(&CALL[..n]))
            .unwrap_or(0);
        let certain = self.held[..self.held.len() - partial].trim_end().len();
        let text: String = self.held.drain(..certain).collect();
        self.answer(&text, out);
        false
    }

    fn step_opening(&mut self, out: &mut Vec<ToolCallEvent>) -> bool {
        self.skip_space_into_lead();
        if self.take_into_lead(FUNCTION) {
            self.state = State::Name;
            return true;
        }
        if self.held.starts_with('{') {
            self.state = State::Json(JsonScan::default());
            return true;
        }
        if FUNCTION.starts_with(&self.held) {
            self.state = State::Opening;
            return false;
        }
        self.give_up(out)
    }

    fn step_name(&mut self, out: &mut Vec<ToolCallEvent>) -> bool {
        let Some(end) = self.held.find(['>', '<', '\n']) else {
            self.state = State::Name;
            return false;
        };
        let name = self.held[..end].trim().to_owned();
        if !self.held[end..].starts_with('>') || name.is_empty() {
            return self.give_up(out);
        }
        self.held.drain(..=end);
        self.start_call(&name, out);
        self.state = State::Body(Function {
            name,
            parameters: 0,
        });
        true
    }

    fn step_body(&mut self, function: Function, out: &mut Vec<ToolCallEvent>) -> bool {
        // Between parameters there is only space; anything else cannot be shown in a call, and is skipped.
        let at = self.held.find('<').unwrap_or(self.held.len());
        self.held.drain(..at);
        if self.take(PARAMETER) {
            self.state = State::Key(function);
            return true;
        }
        if self.take(FUNCTION_END)
            || [CALL_END, FUNCTION, CALL]
                .into_iter()
                .any(|tag| self.held.starts_with(tag))
        {
            self.end_function(&function, out);
            self.state = State::Closing;
            return true;
        }
        let undecided = self.is_beginning_of(&[PARAMETER, FUNCTION_END, CALL_END, FUNCTION, CALL]);
        if !undecided {
            self.held.drain(..1);
        }
        self.state = State::Body(function);
        !undecided
    }

    fn step_key(&mut self, mut function: Function, out: &mut Vec<ToolCallEvent>) -> bool {
        let Some(end) = self.held.find(['>', '\n']) else {
            self.state = State::Key(function);
            return false;
        };
        let key = self.held[..end].trim().to_owned();
        // A newline without the bracket is left to be the one before the value.
        let bracket = usize::from(self.held[end..].starts_with('>'));
        self.held.drain(..end + bracket);
        let opening = if function.parameters == 0 { "{" } else { "," };
        self.arguments(&format!("{opening}{}:", Value::from(key.as_str())), out);
        function.parameters += 1;
        let kind = self.schemas.argument(&function.name, &key);
        let parameter = Parameter {
            kind,
            started: false,
            quoted: false,
            value: String::new(),
            searched: 0,
        };
        self.state = State::Value(function, parameter);
        true
    }

    fn step_value(
        &mut self,
        function: Function,
        mut parameter: Parameter,
        out: &mut Vec<ToolCallEvent>,
        at_end: bool,
    ) -> bool {
        if !parameter.started {
            if self.held.is_empty() {
                self.state = State::Value(function, parameter);
                return false;
            }
            self.take("\n");
            parameter.started = true;
        }
        let mut undecided = None;
        while let Some(at) = self.held[parameter.searched..]
            .find('<')
            .map(|at| parameter.searched + at)
        {
            match ending(&self.held[at..], at_end) {
                Ending::No => parameter.searched = at + 1,
                Ending::Unknown => {
                    undecided = Some(at);
                    break;
                }
                Ending::Yes(tag) => {
                    let value = &self.held[..at];
                    parameter
                        .value
                        .push_str(value.strip_suffix('\n').unwrap_or(value));
                    self.held.drain(..at + tag);
                    self.end_parameter(parameter, out);
                    self.state = State::Body(function);
                    return true;
                }
            }
        }
        let certain = &self.held[..undecided.unwrap_or(self.held.len())];
        let certain = certain.strip_suffix('\n').unwrap_or(certain).len();
        parameter.value.push_str(&self.held[..certain]);
        self.held.drain(..certain);
        parameter.searched = parameter.searched.saturating_sub(certain);
        self.stream_value(&mut parameter, out);
        self.state = State::Value(function, parameter);
        false
    }

    fn step_json(&mut self, mut scan: JsonScan, out: &mut Vec<ToolCallEvent>) -> bool {
        let Some(end) = scan.end_of_object(&self.held) else {
            self.state = State::Json(scan);
            return false;
        };
        let Some((name, arguments)) = json_call(&self.held[..end]) else {
            return self.give_up(out);
        };
        self.held.drain(..end);
        self.start_call(&name, out);
        self.arguments(&arguments, out);
        out.push(ToolCallEvent::End {
            index: self.calls - 1,
        });
        self.state = State::Closing;
        true
    }

    fn step_closing(&mut self) -> bool {
        let rest = self.held.trim_start();
        let space = self.held.len() - rest.len();
        if rest.starts_with(CALL_END) {
            self.held.drain(..space + CALL_END.len());
            return true;
        }
        if rest.starts_with(FUNCTION) {
            self.held.drain(..space + FUNCTION.len());
            self.lead = FUNCTION.to_owned();
            self.state = State::Name;
            return true;
        }
        if [CALL_END, FUNCTION].iter().any(|tag| tag.starts_with(rest)) {
            self.state = State::Closing;
            return false;
        }
        true
    }

    /// The text is no call after all: it goes back to the answer, and the search goes on behind the tag.
    fn give_up(&mut self, out: &mut Vec<ToolCallEvent>) -> bool {
        let lead = std::mem::take(&mut self.lead);
        self.answer(&lead, out);
        self.state = State::Answer;
        true
    }

    fn answer(&mut self, text: &str, out: &mut Vec<ToolCallEvent>) {
        // Between calls, and between the last call and an afterthought, space is the template's.
        let text = if self.calls > 0 && !self.answered {
            text.trim_start()
        } else {
            text
        };
        if text.is_empty() {
            return;
        }
        self.answered = true;
        match out.last_mut() {
            Some(ToolCallEvent::Answer(last)) => last.push_str(text),
            _ => out.push(ToolCallEvent::Answer(text.to_owned())),
        }
    }

    fn start_call(&mut self, name: &str, out: &mut Vec<ToolCallEvent>) {
        self.lead.clear();
        out.push(ToolCallEvent::Start {
            index: self.calls,
            name: name.to_owned(),
        });
        self.calls += 1;
    }

    fn arguments(&self, delta: &str, out: &mut Vec<ToolCallEvent>) {
        let index = self.calls - 1;
        match out.last_mut() {
            _ if delta.is_empty() => {}
            Some(ToolCallEvent::Arguments { delta: last, .. }) => last.push_str(delta),
            _ => out.push(ToolCallEvent::Arguments {
                index,
                delta: delta.to_owned(),
            }),
        }
    }

    /// Passes on the part of a value that cannot change its meaning any more.
    fn stream_value(&self, parameter: &mut Parameter, out: &mut Vec<ToolCallEvent>) {
        let waits_for_null = parameter.kind.is_text_or_null()
            && !parameter.quoted
            && may_become_null(&parameter.value);
        if waits_for_null
            || !(parameter.kind.is_text() || parameter.kind.is_text_or_null())
            || parameter.value.is_empty()
        {
            return;
        }
        let quoted = Value::from(std::mem::take(&mut parameter.value)).to_string();
        self.arguments(
            &quoted[usize::from(parameter.quoted)..quoted.len() - 1],
            out,
        );
        parameter.quoted = true;
    }

    fn end_parameter(&self, mut parameter: Parameter, out: &mut Vec<ToolCallEvent>) {
        if parameter.quoted {
            let quoted = Value::from(std::mem::take(&mut parameter.value)).to_string();
            self.arguments(&quoted[1..], out);
        } else if parameter.kind.is_text_or_null() && !is_null(&parameter.value) {
            self.arguments(&Value::from(parameter.value).to_string(), out);
        } else {
            self.arguments(&parameter.kind.to_json(&parameter.value), out);
        }
    }

    fn end_function(&self, function: &Function, out: &mut Vec<ToolCallEvent>) {
        self.arguments(if function.parameters == 0 { "{}" } else { "}" }, out);
        out.push(ToolCallEvent::End {
            index: self.calls - 1,
        });
    }

    fn take(&mut self, tag: &str) -> bool {
        let found = self.held.starts_with(tag);
        if found {
            self.held.drain(..tag.len());
        }
        found
    }

    fn take_into_lead(&mut self, tag: &str) -> bool {
        let found = self.take(tag);
        if found {
            self.lead.push_str(tag);
        }
        found
    }

    fn skip_space_into_lead(&mut self) {
        let space = self.held.len() - self.held.trim_start().len();
        self.lead.extend(self.held.drain(..space));
    }

    fn is_beginning_of(&self, tags: &[&str]) -> bool {
        tags.iter().any(|tag| tag.starts_with(&self.held))
    }
}

// A value may hold tags as text, for example when it is a program about tags. So a closing tag counts only where
// something follows that can follow it.
fn ending(text: &str, at_end: bool) -> Ending {
    let closes: [(&str, &[&str]); 2] = [
        (PARAMETER_END, &[PARAMETER, FUNCTION_END, CALL_END]),
        (FUNCTION_END, &[CALL_END]),
    ];
    for (tag, followers) in closes {
        if tag.starts_with(text) && text != tag && !at_end {
            return Ending::Unknown;
        }
        let Some(rest) = text.strip_prefix(tag) else {
            continue;
        };
        // The function's own end is left for the body to see.
        let consumed = if tag == PARAMETER_END { tag.len() } else { 0 };
        let rest = rest.trim_start();
        if followers.iter().any(|follower| rest.starts_with(follower))
            || (at_end && rest.is_empty())
        {
            return Ending::Yes(consumed);
        }
        if followers.iter().any(|follower| follower.starts_with(rest)) {
            return if at_end {
                Ending::Yes(consumed)
            } else {
                Ending::Unknown
            };
        }
    }
    Ending::No
}
