//! From generated tokens to what a client is told.

use std::collections::VecDeque;
use std::sync::Arc;

use mtp_spec::TokenId;

use super::detokenize::Utf8Stream;
use super::prompt::Thinking;
use super::reasoning::{ReasoningParser, ReasoningPiece};
use super::stop::StopMatcher;
use super::tokenizer::{SpecialTokens, Tokenizer};
use super::tool_arguments::ArgumentSchemas;
use super::tool_calls::{ToolCallEvent, ToolCallParser};

/// Reads a generation token by token: UTF-8, then stop strings, then reasoning, then tool calls.
///
/// How many tokens arrive between two looks at the events makes no difference to what the events say together.
///
/// ```no_run
/// # fn main() -> Result<(), qwen35_model::text::TextError> {
/// use std::sync::Arc;
///
/// use qwen35_model::text::{OutputEnd, OutputEvent, OutputOptions, OutputParser, Thinking, Tokenizer};
///
/// let tokenizer = Arc::new(Tokenizer::open("checkpoint")?);
/// let generated = tokenizer.encode_with_controls("add\n</think>\n\n2")?;
/// let mut options = OutputOptions::default();
/// options.thinking = Thinking::Open;
/// let mut events = Vec::new();
/// let mut parser = OutputParser::new(tokenizer, options, &mut events);
/// for token in generated {
///     parser.push(token, &mut events);
/// }
/// parser.finish(OutputEnd::EndOfTurn, &mut events);
/// assert_eq!(events, [OutputEvent::Reasoning("add".into()), OutputEvent::Content("2".into())]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OutputParser {
    tokenizer: Arc<Tokenizer>,
    characters: Utf8Stream,
    special: SpecialTokens,
    stops: StopMatcher,
    stop_texts: Vec<String>,
    include_stop: bool,
    min_tokens: usize,
    reasoning: ReasoningParser,
    tools: Option<Tools>,
    think_end: Option<TokenId>,
    // The tag was seen as a token, though its text may still be held back.
    think_ended: bool,
    ended: bool,
    progress: Progress,
}

/// How to read a generation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OutputOptions {
    /// Where the prompt left the model, from [`super::RenderedPrompt::thinking`]. [`Thinking::Closed`] for raw completions: all
    /// text is then answer.
    pub thinking: Thinking,
    /// Whether special tokens show in the text.
    pub special: SpecialTokens,
    /// Strings that end the generation; empty ones are ignored.
    pub stop: Vec<String>,
    /// Whether the stop string that was found is part of the text.
    pub include_stop: bool,
    /// Stop strings that are complete within this many tokens do not count.
    pub min_tokens: usize,
    /// Whether tool calls are looked for.
    pub tools: ToolParsing,
    /// Text that the prompt already holds but that belongs to the answer, such as the beginning of a forced tool call.
    pub prefix: String,
}

/// Whether and how tool calls are looked for.
#[derive(Debug, Clone, Default)]
pub enum ToolParsing {
    /// The answer is text, whatever it looks like.
    #[default]
    Off,
    /// Calls are taken out of the answer.
    On {
        /// Types of the arguments.
        schemas: Arc<ArgumentSchemas>,
        /// Beginning of each call's id; the call's index follows. It must be different for each response.
        id_prefix: String,
        /// Whether more than one call is allowed; otherwise the generation stops after the first.
        parallel: bool,
    },
}

/// Something to tell the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputEvent {
    /// More of the answer.
    Content(String),
    /// More of the reasoning.
    Reasoning(String),
    /// A tool call begins.
    ToolCallStart {
        /// Number of calls before it.
        index: usize,
        /// Its id.
        id: String,
        /// The function called.
        name: String,
    },
    /// More of the JSON text of a call's arguments.
    ToolArguments {
        /// Which call.
        index: usize,
        /// To be appended.
        delta: String,
    },
    /// A tool call and its JSON are complete.
    ToolCallEnd {
        /// Which call.
        index: usize,
    },
    /// The text is at its end, and generation should stop. Nothing follows.
    Stopped {
        /// Why.
        reason: StopReason,
    },
}

/// Why the text ended before the model ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A stop string was found.
    StopString {
        /// Which, counted as given.
        index: usize,
    },
    /// One tool call was allowed, and it is complete.
    ToolCallLimit,
}

/// How a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputEnd {
    /// The model ended its turn.
    EndOfTurn,
    /// It was cut off: by a limit, a cancel, an error. A tool call in the making stays visibly unfinished.
    Cut,
}

#[derive(Debug)]
struct Tools {
    parser: ToolCallParser,
    id_prefix: String,
    parallel: bool,
}

/// Which tokens are part of the text that was passed on.
#[derive(Debug, Default)]
struct Progress {
    tokens: usize,
    visible: usize,
    reasoning: usize,
    // Bytes of text that came out of the tokens, and that passed the stop strings.
    produced: usize,
    passed: usize,
    // Start and end, in bytes of text, of the tokens that are not visible yet.
    waiting: VecDeque<(usize, usize)>,
}

impl Default for OutputOptions {
    /// Reads everything as answer text, without special tokens.
    fn default() -> Self {
        Self {
            thinking: Thinking::Closed,
            special: SpecialTokens::Skip,
            stop: Vec::new(),
            include_stop: false,
            min_tokens: 0,
            tools: ToolParsing::Off,
            prefix: String::new(),
        }
    }
}

impl OutputParser {
    /// A parser at the beginning of a generation; events of the options' prefix are appended to `events`.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        options: OutputOptions,
        events: &mut Vec<OutputEvent>,
    ) -> Self {
        let tools = match options.tools {
            ToolParsing::Off => None,
            ToolParsing::On {
                schemas,
                id_prefix,
                parallel,
            } => Some(Tools {
                parser: ToolCallParser::new(schemas),
                id_prefix,
                parallel,
            }),
        };
        let mut parser = Self {
            think_end: tokenizer.control_id("</think>"),
            tokenizer,
            characters: Utf8Stream::default(),
            special: options.special,
            stops: StopMatcher::new(options.stop.iter().cloned()),
            stop_texts: options.stop,
            include_stop: options.include_stop,
            min_tokens: options.min_tokens,
            reasoning: ReasoningParser::new(options.thinking),
            tools,
            think_ended: false,
            ended: false,
            progress: Progress::default(),
        };
        parser.read(&options.prefix, events);
        parser
    }

    /// Takes one generated token. The token that ends the turn is not to be pushed unless it should show.
    pub fn push(&mut self, token: TokenId, events: &mut Vec<OutputEvent>) {
        if self.ended {
            return;
        }
        if self.is_reasoning() {
            self.progress.reasoning += 1;
            self.think_ended = self.think_end == Some(token);
        }
        let mut text = String::new();
        if self.special == SpecialTokens::Keep || !self.tokenizer.is_special(token) {
            self.characters.push(
                self.tokenizer.token_bytes(token).unwrap_or_default(),
                &mut text,
            );
        }
        self.progress.push(text.len());
        self.pass(&text, events);
    }

    /// Ends the generation and appends what was held back. Does nothing after [`OutputEvent::Stopped`].
    pub fn finish(&mut self, end: OutputEnd, events: &mut Vec<OutputEvent>) {
        if self.ended {
            return;
        }
        let mut text = String::new();
        self.characters.finish(&mut text);
        self.progress.produced += text.len();
        self.pass(&text, events);
        if self.ended {
            return;
        }
        let mut rest = String::new();
        self.stops.finish(&mut rest);
        self.progress.pass(rest.len());
        self.progress.all_visible();
        self.read(&rest, events);
        self.end(end, events);
    }

    /// Whether the text ended with a stop; further tokens are ignored.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Number of tokens pushed.
    pub fn tokens(&self) -> usize {
        self.progress.tokens
    }

    /// Number of leading tokens of which at least a part has been passed on in events. After a stop string it is the
    /// number of tokens that belong to the text; until then tokens may be held back.
    pub fn visible_tokens(&self) -> usize {
        self.progress.visible
    }

    /// Number of tokens that were reasoning, the tag that ends it included.
    pub fn reasoning_tokens(&self) -> usize {
        self.progress.reasoning
    }

    /// Whether the text so far ends inside the thinking block.
    pub fn is_reasoning(&self) -> bool {
        self.reasoning.is_reasoning() && !self.think_ended
    }

    /// Number of tool calls begun.
    pub fn tool_calls(&self) -> usize {
        self.tools.as_ref().map_or(0, |tools| tools.parser.calls())
    }

    /// Text that may hold stop strings.
    fn pass(&mut self, text: &str, events: &mut Vec<OutputEvent>) {
        let mut passed = String::new();
        let hit = if self.progress.tokens <= self.min_tokens {
            passed.push_str(text);
            None
        } else {
            self.stops.push(text, &mut passed)
        };
        if let Some(hit) = hit
            && self.include_stop
        {
            passed.push_str(&self.stop_texts[hit.stop]);
        }
        self.progress.pass(passed.len());
        self.read(&passed, events);
        if let Some(hit) = hit
            && !self.ended
        {
            self.end(OutputEnd::Cut, events);
            events.push(OutputEvent::Stopped {
                reason: StopReason::StopString { index: hit.stop },
            });
        }
    }

    /// Text that is the client's for certain.
    fn read(&mut self, text: &str, events: &mut Vec<OutputEvent>) {
        let mut pieces = Vec::new();
        self.reasoning.push(text, &mut pieces);
        self.read_pieces(pieces, events);
    }

    fn read_pieces(&mut self, pieces: Vec<ReasoningPiece>, events: &mut Vec<OutputEvent>) {
        for piece in pieces {
            match piece {
                ReasoningPiece::Reasoning(text) => push_reasoning(text, events),
                ReasoningPiece::Answer(text) => match &mut self.tools {
                    None => push_content(text, events),
                    Some(tools) => {
                        let mut found = Vec::new();
                        tools.parser.push(&text, &mut found);
                        self.tell(found, events);
                    }
                },
            }
            if self.ended {
                return;
            }
        }
    }

    fn end(&mut self, end: OutputEnd, events: &mut Vec<OutputEvent>) {
        let mut pieces = Vec::new();
        self.reasoning.finish(&mut pieces);
        self.read_pieces(pieces, events);
        if let (false, Some(tools)) = (self.ended, &mut self.tools) {
            let mut found = Vec::new();
            tools.parser.finish(end == OutputEnd::EndOfTurn, &mut found);
            self.tell(found, events);
        }
        self.ended = true;
    }

    fn tell(&mut self, found: Vec<ToolCallEvent>, events: &mut Vec<OutputEvent>) {
        let Some(tools) = &self.tools else { return };
        for event in found {
            match event {
                ToolCallEvent::Answer(text) => push_content(text, events),
                ToolCallEvent::Start { index, name } => {
                    let id = format!("{}{index}", tools.id_prefix);
                    events.push(OutputEvent::ToolCallStart { index, id, name });
                }
                ToolCallEvent::Arguments { index, delta } => push_arguments(index, delta, events),
                ToolCallEvent::End { index } => {
                    events.push(OutputEvent::ToolCallEnd { index });
                    if !tools.parallel {
                        events.push(OutputEvent::Stopped {
                            reason: StopReason::ToolCallLimit,
                        });
                        self.ended = true;
                        return;
                    }
                }
            }
        }
    }
}

impl Progress {
    fn push(&mut self, bytes: usize) {
        self.tokens += 1;
        self.waiting
            .push_back((self.produced, self.produced + bytes));
        self.produced += bytes;
    }

    fn pass(&mut self, bytes: usize) {
        self.passed += bytes;
        while self
            .waiting
            .front()
            .is_some_and(|&(start, end)| start < self.passed || end <= self.passed)
        {
            self.waiting.pop_front();
            self.visible += 1;
        }
    }

    fn all_visible(&mut self) {
        self.waiting.clear();
        self.visible = self.tokens;
    }
}

fn push_content(text: String, events: &mut Vec<OutputEvent>) {
    match events.last_mut() {
        Some(OutputEvent::Content(last)) => last.push_str(&text),
        _ => events.push(OutputEvent::Content(text)),
    }
}

fn push_reasoning(text: String, events: &mut Vec<OutputEvent>) {
    match events.last_mut() {
        Some(OutputEvent::Reasoning(last)) => last.push_str(&text),
        _ => events.push(OutputEvent::Reasoning(text)),
    }
}

fn push_arguments(index: usize, delta: String, events: &mut Vec<OutputEvent>) {
    match events.last_mut() {
        Some(OutputEvent::ToolArguments {
            index: last,
            delta: so_far,
        }) if *last == index => so_far.push_str(&delta),
        _ => events.push(OutputEvent::ToolArguments { index, delta }),
    }
}
