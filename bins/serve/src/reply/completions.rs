//! The answer of `/v1/completions`.

use std::sync::Arc;

use bytes::Bytes;
use mtp_spec::{TokenId, TokenLogprobs};
use qwen35_model::text::{OutputEvent, SpecialTokens, Tokenizer};

use super::Reply;
use super::chat::{Head, finish_reason, stop_cause};
use super::tally::Tally;
use super::token_text::{CompletionLogprobBuilder, OffsetUnit};
use crate::controls::StreamMode;
use crate::generate::job::{Piece, RunEnd};
use crate::sse;
use crate::wire::chat::{FinishReason, StopCause};
use crate::wire::completions::{Completion, CompletionChoice};

/// What the request wants to be told.
#[derive(Clone, Debug)]
pub struct CompletionWishes {
    /// Log-probabilities of each token.
    pub logprobs: bool,
    /// The prompt before the answer.
    pub echo: bool,
    /// Token ids.
    pub token_ids: bool,
    /// Frames, with that of the usage at the end if asked for; otherwise the answer is told as a whole.
    pub stream: Option<StreamMode>,
    /// How special tokens of the answer show.
    pub special: SpecialTokens,
    /// In which unit `text_offset` counts.
    pub unit: OffsetUnit,
    /// The stop strings, for telling which one was found.
    pub stops: Vec<String>,
    /// The model's own ends of turn, which are not told as a cause.
    pub eos: Vec<u32>,
}

/// Builds the answer.
#[derive(Debug)]
pub struct CompletionReply {
    head: Head,
    wishes: CompletionWishes,
    tokenizer: Arc<Tokenizer>,
    choices: Vec<Choice>,
}

#[derive(Debug)]
struct Choice {
    prompt: Arc<[TokenId]>,
    prompt_ids_told: bool,
    logprobs: CompletionLogprobBuilder,
    // Of the whole answer.
    text: String,
    token_ids: Vec<u32>,
    end: Option<(FinishReason, Option<StopCause>)>,
}

impl CompletionReply {
    /// An answer with one choice for each of `prompts`, which are told as often as they are answered.
    pub fn new(
        head: Head,
        wishes: CompletionWishes,
        tokenizer: Arc<Tokenizer>,
        prompts: impl Iterator<Item = Arc<[TokenId]>>,
    ) -> Self {
        let choices = prompts.map(|prompt| Choice {
            prompt,
            prompt_ids_told: false,
            logprobs: CompletionLogprobBuilder::new(Arc::clone(&tokenizer), wishes.unit),
            text: String::new(),
            token_ids: Vec::new(),
            end: None,
        });
        Self {
            choices: choices.collect(),
            head,
            wishes,
            tokenizer,
        }
    }

    /// Tells text and the tokens that the builder has taken in, or keeps them for the whole answer.
    fn tell(&mut self, index: usize, text: String, ids: Vec<u32>) -> Option<Bytes> {
        let choice = &mut self.choices[index];
        if self.wishes.stream.is_none() {
            choice.text.push_str(&text);
            choice.token_ids.extend(ids);
            return None;
        }
        let lists = choice.logprobs.take();
        let prompt_token_ids = choice.untold_prompt_ids(&self.wishes);
        let choice = CompletionChoice {
            index,
            text,
            logprobs: self.wishes.logprobs.then_some(lists),
            finish_reason: None,
            stop_reason: None,
            token_ids: self.wishes.token_ids.then_some(ids),
            prompt_token_ids,
        };
        Some(sse::data(&self.completion(vec![choice])))
    }

    fn completion(&self, choices: Vec<CompletionChoice>) -> Completion {
        Completion {
            id: self.head.id.clone(),
            object: "text_completion",
            created: self.head.created,
            model: self.head.model.clone(),
            system_fingerprint: self.head.fingerprint.clone(),
            choices,
            usage: self.tells_usage().then_some(None),
            timings: None,
        }
    }
}

impl Reply for CompletionReply {
    type Whole = Completion;

    /// The prompt's text, unless its log-probabilities are still to come with it.
    fn begun(&mut self, index: usize) -> Option<Bytes> {
        if !self.wishes.echo || self.wishes.logprobs {
            return None;
        }
        let text = self
            .tokenizer
            .decode(&self.choices[index].prompt, SpecialTokens::Keep);
        self.tell(index, text, Vec::new())
    }

    fn prompt_logprobs(&mut self, index: usize, logprobs: Vec<TokenLogprobs>) -> Option<Bytes> {
        let choice = &mut self.choices[index];
        // Nothing predicts the first token.
        let known = std::iter::once(None).chain(logprobs.iter().map(Some));
        for (&token, logprobs) in choice.prompt.iter().zip(known) {
            choice.logprobs.push(token, logprobs, SpecialTokens::Keep);
        }
        let text = self.tokenizer.decode(&choice.prompt, SpecialTokens::Keep);
        self.tell(index, text, Vec::new())
    }

    fn piece(&mut self, piece: Piece) -> Option<Bytes> {
        let text: String = piece
            .output
            .into_iter()
            .filter_map(|event| match event {
                OutputEvent::Content(text) | OutputEvent::Reasoning(text) => Some(text),
                _ => None,
            })
            .collect();
        if self.wishes.logprobs {
            let builder = &mut self.choices[piece.choice].logprobs;
            for token in &piece.tokens {
                builder.push(token.id, token.logprobs.as_ref(), self.wishes.special);
            }
        }
        let told = self.wishes.logprobs || self.wishes.token_ids;
        if text.is_empty() && (piece.tokens.is_empty() || !told) {
            return None;
        }
        let ids: Vec<u32> = piece.tokens.iter().map(|token| token.id.into()).collect();
        self.tell(piece.choice, text, ids)
    }

    fn ended(&mut self, end: &RunEnd, last: Option<&Tally>) -> Option<Bytes> {
        let index = end.choice;
        let reason = finish_reason(end);
        let cause = stop_cause(end.cause, &self.wishes.stops, &self.wishes.eos);
        if self.wishes.stream.is_none() {
            self.choices[index].end = Some((reason, cause));
            return None;
        }
        let prompt_token_ids = self.choices[index].untold_prompt_ids(&self.wishes);
        let mut completion = self.completion(vec![CompletionChoice {
            index,
            text: String::new(),
            logprobs: None,
            finish_reason: Some(reason),
            stop_reason: cause,
            token_ids: None,
            prompt_token_ids,
        }]);
        completion.timings = last.map(Tally::timings);
        Some(sse::data(&completion))
    }

    fn usage(&mut self, tally: &Tally) -> Option<Bytes> {
        if !self.tells_usage() {
            return None;
        }
        let mut completion = self.completion(Vec::new());
        completion.usage = Some(Some(tally.usage()));
        completion.timings = Some(tally.timings());
        Some(sse::data(&completion))
    }

    fn tells_usage(&self) -> bool {
        self.wishes.stream.is_some_and(|mode| mode.include_usage)
    }

    fn whole(mut self, tally: &Tally) -> Completion {
        let choices = std::mem::take(&mut self.choices);
        let told = choices.into_iter().enumerate().map(|(index, mut choice)| {
            let (reason, stop_reason) = choice.end.unwrap_or((FinishReason::Length, None));
            CompletionChoice {
                index,
                text: choice.text,
                logprobs: self.wishes.logprobs.then(|| choice.logprobs.take()),
                finish_reason: Some(reason),
                stop_reason,
                token_ids: self.wishes.token_ids.then_some(choice.token_ids),
                prompt_token_ids: self.wishes.token_ids.then(|| ids(&choice.prompt)),
            }
        });
        let mut completion = self.completion(told.collect());
        completion.usage = Some(Some(tally.usage()));
        completion.timings = Some(tally.timings());
        completion
    }
}

impl Choice {
    fn untold_prompt_ids(&mut self, wishes: &CompletionWishes) -> Option<Vec<u32>> {
        let told = std::mem::replace(&mut self.prompt_ids_told, true);
        (wishes.token_ids && !told).then(|| ids(&self.prompt))
    }
}

fn ids(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().map(|&token| token.into()).collect()
}
