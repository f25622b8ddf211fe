//! Tokens and their log-probabilities as clients read them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use mtp_spec::{TokenId, TokenLogprobs};
use qwen35_model::text::{SpecialTokens, Tokenizer, Utf8Stream};

use crate::wire::logprobs::{CompletionLogprobs, TokenEntry, TopEntry, finite};

/// A token's entry in chat logprobs.
#[must_use]
pub fn chat_entry(tokenizer: &Tokenizer, token: TokenId, logprobs: &TokenLogprobs) -> TokenEntry {
    let top = logprobs.top.iter().map(|&(token, logprob)| {
        let bytes = bytes(tokenizer, token);
        TopEntry {
            token: String::from_utf8_lossy(&bytes).into_owned(),
            logprob: finite(logprob),
            bytes,
        }
    });
    let bytes = bytes(tokenizer, token);
    TokenEntry {
        token: String::from_utf8_lossy(&bytes).into_owned(),
        logprob: finite(logprobs.logprob),
        bytes,
        top_logprobs: top.collect(),
    }
}

/// In which unit `text_offset` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetUnit {
    /// Characters, as Python's strings do.
    Characters,
    /// Bytes of UTF-8, as Go's strings do.
    Bytes,
}

/// Builds the four lists of completion logprobs, over prompt and answer or over the answer alone.
#[derive(Clone, Debug)]
pub struct CompletionLogprobBuilder {
    tokenizer: Arc<Tokenizer>,
    unit: OffsetUnit,
    characters: Utf8Stream,
    // Where the next token starts.
    offset: usize,
    lists: CompletionLogprobs,
}

impl CompletionLogprobBuilder {
    /// Empty lists.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, unit: OffsetUnit) -> Self {
        Self {
            tokenizer,
            unit,
            characters: Utf8Stream::default(),
            offset: 0,
            lists: CompletionLogprobs::default(),
        }
    }

    /// Adds a token that the text shows as `special` says. The first token of a prompt has no log-probability.
    pub fn push(
        &mut self,
        token: TokenId,
        logprobs: Option<&TokenLogprobs>,
        special: SpecialTokens,
    ) {
        self.lists.tokens.push(text(&self.tokenizer, token));
        self.lists.text_offset.push(self.offset);
        self.lists
            .token_logprobs
            .push(logprobs.map(|l| finite(l.logprob)));
        self.lists
            .top_logprobs
            .push(logprobs.map(|l| self.top(token, l)));
        if special == SpecialTokens::Keep || !self.tokenizer.is_special(token) {
            let mut text = String::new();
            self.characters.push(
                self.tokenizer.token_bytes(token).unwrap_or_default(),
                &mut text,
            );
            self.offset += match self.unit {
                OffsetUnit::Characters => text.chars().count(),
                OffsetUnit::Bytes => text.len(),
            };
        }
    }

    /// What was added since the last call.
    #[must_use]
    pub fn take(&mut self) -> CompletionLogprobs {
        std::mem::take(&mut self.lists)
    }

    /// The most likely tokens, and the token itself. Where two tokens have the same text, the likelier one counts.
    fn top(&self, token: TokenId, logprobs: &TokenLogprobs) -> BTreeMap<String, f32> {
        let mut top: BTreeMap<String, f32> = BTreeMap::new();
        let all = logprobs
            .top
            .iter()
            .copied()
            .chain([(token, logprobs.logprob)]);
        for (token, logprob) in all {
            let logprob = finite(logprob);
            let known = top.entry(text(&self.tokenizer, token)).or_insert(logprob);
            *known = known.max(logprob);
        }
        top
    }
}

/// A token's text; the bytes of a token that is not text by itself are written out, so that two of them differ.
fn text(tokenizer: &Tokenizer, token: TokenId) -> String {
    match String::from_utf8(bytes(tokenizer, token)) {
        Ok(text) => text,
        Err(error) => {
            let mut text = String::from("bytes:");
            for byte in error.as_bytes() {
                // Writing into a string cannot fail.
                let _ = write!(text, "\\x{byte:02x}");
            }
            text
        }
    }
}

fn bytes(tokenizer: &Tokenizer, token: TokenId) -> Vec<u8> {
    tokenizer.token_bytes(token).unwrap_or_default().to_vec()
}
