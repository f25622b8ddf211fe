//! Telling the model's reasoning from its answer.

use super::prompt::Thinking;

/// Splits text at `</think>`.
///
/// Whether the text starts as reasoning is known from the prompt, not guessed: a prompt that opened the block makes
/// everything reasoning until `</think>`, even if that never comes; a prompt that closed it makes everything the answer.
/// Newlines at the borders of the block belong to the template and are dropped.
///
/// ```
/// use qwen35_model::text::{ReasoningParser, ReasoningPiece, Thinking};
///
/// let mut parser = ReasoningParser::new(Thinking::Open);
/// let mut pieces = Vec::new();
/// parser.push("add\n</think>\n\n2", &mut pieces);
/// assert_eq!(pieces, [ReasoningPiece::Reasoning("add".into()), ReasoningPiece::Answer("2".into())]);
/// ```
#[derive(Debug, Clone)]
pub struct ReasoningParser {
    state: State,
    // Text about which nothing can be said yet.
    held: String,
}

/// Text of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReasoningPiece {
    /// Inside the thinking block.
    Reasoning(String),
    /// The answer.
    Answer(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the very start; the model may (re)open the block itself. The flag says what the text is if it does not.
    Start {
        reasoning: bool,
    },
    /// Inside the block, before its first character that is not a newline.
    Opened,
    Reasoning,
    /// After `</think>`, before the first character that is not a newline.
    Closed,
    Answer,
}

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

impl ReasoningParser {
    /// A parser for text that follows a prompt in this state.
    pub fn new(thinking: Thinking) -> Self {
        let state = match thinking {
            Thinking::Open => State::Start { reasoning: true },
            Thinking::Unsaid => State::Start { reasoning: false },
            Thinking::Closed => State::Answer,
        };
        Self {
            state,
            held: String::new(),
        }
    }

    /// Whether the text so far ends inside the thinking block.
    pub fn is_reasoning(&self) -> bool {
        matches!(
            self.state,
            State::Start { reasoning: true } | State::Opened | State::Reasoning
        )
    }

    /// Takes more text and appends what is certain.
    pub fn push(&mut self, text: &str, out: &mut Vec<ReasoningPiece>) {
        self.held.push_str(text);
        while self.step(out) {}
    }

    /// Ends the text and appends what was held back.
    pub fn finish(&mut self, out: &mut Vec<ReasoningPiece>) {
        let rest = std::mem::take(&mut self.held);
        match self.state {
            State::Start { reasoning: true } | State::Opened | State::Reasoning => {
                push_reasoning(rest, out);
            }
            State::Start { reasoning: false } | State::Answer => {
                push_answer(rest, out);
            }
            State::Closed => {}
        }
    }

    /// One transition; `false` when more text is needed.
    fn step(&mut self, out: &mut Vec<ReasoningPiece>) -> bool {
        match self.state {
            State::Start { reasoning } => {
                let trimmed = self.held.trim_start();
                if let Some(rest) = trimmed.strip_prefix(OPEN) {
                    self.held = rest.to_owned();
                    self.state = State::Opened;
                    return true;
                }
                if OPEN.starts_with(trimmed) {
                    return false;
                }
                self.state = if reasoning {
                    State::Opened
                } else {
                    State::Answer
                };
                true
            }
            State::Opened => self.skip_newlines(State::Reasoning),
            State::Reasoning => {
                if let Some(at) = self.held.find(CLOSE) {
                    push_reasoning(self.held[..at].trim_end_matches('\n').to_owned(), out);
                    self.held.drain(..at + CLOSE.len());
                    self.state = State::Closed;
                    return true;
                }
                let certain = certain_before(&self.held, CLOSE);
                push_reasoning(self.held.drain(..certain).collect(), out);
                false
            }
            State::Closed => self.skip_newlines(State::Answer),
            State::Answer => {
                push_answer(std::mem::take(&mut self.held), out);
                false
            }
        }
    }

    fn skip_newlines(&mut self, next: State) -> bool {
        let newlines = self.held.len() - self.held.trim_start_matches('\n').len();
        self.held.drain(..newlines);
        if self.held.is_empty() {
            return false;
        }
        self.state = next;
        true
    }
}

// How many bytes cannot belong to newlines followed by (a beginning of) `tag`.
fn certain_before(text: &str, tag: &str) -> usize {
    let partial = (1..tag.len())
        .rev()
        .find(|&n| text.ends_with(&tag[..n]))
        .unwrap_or(0);
    text[..text.len() - partial].trim_end_matches('\n').len()
}

fn push_reasoning(text: String, out: &mut Vec<ReasoningPiece>) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(ReasoningPiece::Reasoning(last)) => last.push_str(&text),
        _ => out.push(ReasoningPiece::Reasoning(text)),
    }
}

fn push_answer(text: String, out: &mut Vec<ReasoningPiece>) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(ReasoningPiece::Answer(last)) => last.push_str(&text),
        _ => out.push(ReasoningPiece::Answer(text)),
    }
}
