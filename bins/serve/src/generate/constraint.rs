//! What an answer must look like, token by token: a budget for its reasoning, then a grammar.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::Matcher;
use mtp_spec::{Allowed, MaskError, TokenId, TokenMask, TokenSet};
use qwen35_model::text::{TextError, Tokenizer};

/// The constraint of a request, from which each of its generations takes a mask.
pub struct ConstraintPlan {
    thinking: Option<ThinkingPlan>,
    grammar: Option<Mutex<Matcher>>,
    stop_tokens: Vec<TokenId>,
}

/// How reasoning ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinkingPlan {
    /// Most tokens of it.
    budget: Option<usize>,
    /// The tag that ends it, and what the template writes around it.
    closing: Closing,
}

/// The end of the reasoning as the template writes it: line breaks, the tag, line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Closing {
    tokens: Vec<TokenId>,
    tag: usize,
}

impl ConstraintPlan {
    /// A constraint, or none when nothing is constrained.
    ///
    /// `thinking` is given for a prompt that leaves the model inside the thinking block.
    #[must_use]
    pub fn new(
        thinking: Option<ThinkingPlan>,
        grammar: Option<Matcher>,
        stop_tokens: Vec<TokenId>,
    ) -> Option<Self> {
        let budgeted = thinking.as_ref().is_some_and(|t| t.budget.is_some());
        (budgeted || grammar.is_some()).then(|| Self {
            thinking,
            grammar: grammar.map(Mutex::new),
            stop_tokens,
        })
    }

    /// A mask at the beginning of an answer.
    #[must_use]
    pub fn mask(self: Arc<Self>) -> Box<dyn TokenMask> {
        let matcher = self.grammar.as_ref().map(|grammar| {
            let grammar = grammar.lock().unwrap_or_else(PoisonError::into_inner);
            grammar.deep_clone()
        });
        let phase = match self.thinking {
            Some(_) => Phase::Thinking { tokens: 0 },
            None => Phase::Answer,
        };
        Box::new(ConstraintMask {
            plan: self,
            matcher,
            phase,
            accepted: Vec::new(),
        })
    }
}

impl fmt::Debug for ConstraintPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConstraintPlan")
            .field("thinking", &self.thinking)
            .field("grammar", &self.grammar.is_some())
            .finish_non_exhaustive()
    }
}

impl ThinkingPlan {
    /// Reasoning of at most `budget` tokens, the closing tag not counted.
    ///
    /// `None` when the model has no thinking.
    ///
    /// # Errors
    /// A tokenizer that cannot read a tag and two line breaks.
    pub fn new(tokenizer: &Tokenizer, budget: Option<usize>) -> Result<Option<Self>, TextError> {
        let Some(tag) = tokenizer.control_id("</think>") else {
            return Ok(None);
        };
        let tokens = tokenizer.encode_with_controls("</think>\n\n")?;
        let closing = Closing {
            tag: tokens.iter().position(|&token| token == tag).unwrap_or(0),
            tokens,
        };
        Ok(Some(Self { budget, closing }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Inside the thinking block, so many tokens in.
    Thinking { tokens: usize },
    /// Writing the closing; so many tokens of it are written.
    Closing { written: usize },
    /// In the answer.
    Answer,
    /// After a token that ends the answer.
    Over,
}

struct ConstraintMask {
    plan: Arc<ConstraintPlan>,
    matcher: Option<Matcher>,
    phase: Phase,
    // What each accepted token changed, for taking it back.
    accepted: Vec<Undo>,
}

#[derive(Clone, Copy)]
struct Undo {
    phase: Phase,
    in_grammar: bool,
}

impl TokenMask for ConstraintMask {
    fn allowed(&mut self, set: &mut TokenSet) -> Result<Allowed, MaskError> {
        match self.phase {
            Phase::Thinking { tokens } => Ok(self.allowed_thinking(tokens, set)),
            Phase::Closing { written } => {
                let closing = self.closing().map(|closing| closing.tokens[written]);
                closing.into_iter().for_each(|token| set.insert(token));
                Ok(Allowed::Set)
            }
            Phase::Answer => self.allowed_answer(set),
            Phase::Over => Ok(Allowed::Any),
        }
    }

    fn accept(&mut self, token: TokenId) -> Result<(), MaskError> {
        let mut undo = Undo {
            phase: self.phase,
            in_grammar: false,
        };
        self.phase = match self.phase {
            Phase::Thinking { tokens } => match self.closing() {
                Some(closing) if token == closing.tokens[closing.tag] => {
                    self.after_closing(closing.tag + 1)
                }
                _ => Phase::Thinking { tokens: tokens + 1 },
            },
            Phase::Closing { written } => self.after_closing(written + 1),
            Phase::Answer if self.plan.stop_tokens.contains(&token) => Phase::Over,
            Phase::Answer => {
                if let Some(matcher) = &mut self.matcher {
                    matcher.consume_token(token.into())?;
                    undo.in_grammar = true;
                }
                Phase::Answer
            }
            Phase::Over => Phase::Over,
        };
        self.accepted.push(undo);
        Ok(())
    }

    fn rollback(&mut self, tokens: usize) {
        let mut in_grammar = 0;
        for _ in 0..tokens {
            let Some(undo) = self.accepted.pop() else {
                break;
            };
            self.phase = undo.phase;
            in_grammar += usize::from(undo.in_grammar);
        }
        if let (true, Some(matcher)) = (in_grammar > 0, &mut self.matcher) {
            // A matcher that cannot go back is in its error state, which the next `allowed` reports.
            drop(matcher.rollback(in_grammar));
        }
    }
}

impl ConstraintMask {
    fn closing(&self) -> Option<&Closing> {
        self.plan
            .thinking
            .as_ref()
            .map(|thinking| &thinking.closing)
    }

    /// The phase after so many tokens of the closing. Without a grammar the model may go on as it likes once the tag
    /// is written.
    fn after_closing(&self, written: usize) -> Phase {
        match self.closing() {
            Some(closing) if written < closing.tokens.len() && self.matcher.is_some() => {
                Phase::Closing { written }
            }
            _ => Phase::Answer,
        }
    }

    fn allowed_thinking(&self, tokens: usize, set: &mut TokenSet) -> Allowed {
        let over = |thinking: &&ThinkingPlan| thinking.budget.is_some_and(|most| tokens >= most);
        if let Some(thinking) = self.plan.thinking.as_ref().filter(over) {
            set.insert(thinking.closing.tokens[thinking.closing.tag]);
            return Allowed::Set;
        }
        if self.matcher.is_none() {
            return Allowed::Any;
        }
        // An answer of the wanted form is owed, so the turn cannot end in the middle of a thought.
        set.fill();
        self.plan
            .stop_tokens
            .iter()
            .for_each(|&token| set.remove(token));
        Allowed::Set
    }

    fn allowed_answer(&mut self, set: &mut TokenSet) -> Result<Allowed, MaskError> {
        let Some(matcher) = &mut self.matcher else {
            return Ok(Allowed::Any);
        };
        let mask = matcher.compute_mask_or_eos()?;
        let words = set.words_mut();
        let shared = words.len().min(mask.as_slice().len());
        words[..shared].copy_from_slice(&mask.as_slice()[..shared]);
        // The grammar knows the model's own ends of turn; where it allows one, the request's own will do as well.
        let may_end = matcher.is_stopped() || matcher.is_accepting()?;
        if may_end {
            self.plan
                .stop_tokens
                .iter()
                .for_each(|&token| set.insert(token));
        }
        Ok(Allowed::Set)
    }
}
