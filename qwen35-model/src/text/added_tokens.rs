//! Control tokens: finding them in text that may hold them, and only there.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;

use super::error::TextError;

/// One entry of `added_tokens` (tokenizer.json) or of `added_tokens_decoder` (tokenizer_config.json).
#[derive(Debug, Clone, Deserialize)]
pub(super) struct AddedToken {
    #[serde(default)]
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) special: bool,
    #[serde(default)]
    pub(super) normalized: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    single_word: bool,
}

/// The added tokens of a tokenizer, ready to be searched for.
#[derive(Debug)]
pub(super) struct AddedTokens {
    by_id: BTreeMap<u32, AddedToken>,
    raw: Finder,
    normalized: Finder,
}

/// A stretch of text, or a control token that was found in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// No control token inside.
    Text(&'t str),
    /// A control token.
    Control(u32),
}

impl AddedTokens {
    /// Joins the two places in which added tokens are listed.
    ///
    /// # Errors
    ///
    /// A flag that would change how text around a token is cut, and two entries that contradict each other.
    pub(super) fn new(tokens: impl IntoIterator<Item = AddedToken>) -> Result<Self, TextError> {
        let mut by_id: BTreeMap<u32, AddedToken> = BTreeMap::new();
        for token in tokens {
            token.check_flags()?;
            match by_id.get(&token.id) {
                Some(known) if known.content != token.content => {
                    return Err(TextError::AddedTokenConflict {
                        token: token.content,
                        id: token.id,
                    });
                }
                Some(_) => {}
                None => {
                    by_id.insert(token.id, token);
                }
            }
        }
        let mut ids: Vec<(&str, u32)> =
            by_id.values().map(|t| (t.content.as_str(), t.id)).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(TextError::AddedTokenConflict {
                token: pair[1].0.to_owned(),
                id: pair[1].1,
            });
        }
        let raw = Finder::new(by_id.values().filter(|t| !t.normalized))?;
        let normalized = Finder::new(by_id.values().filter(|t| t.normalized))?;
        Ok(Self {
            by_id,
            raw,
            normalized,
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AddedToken> {
        self.by_id.values()
    }

    pub(super) fn id_of(&self, content: &str) -> Option<u32> {
        self.iter()
            .find(|token| token.content == content)
            .map(|token| token.id)
    }

    /// Cuts `text` at the tokens that are looked for before normalisation, the leftmost and then longest first.
    pub(super) fn split_raw<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        self.raw.split(text)
    }

    /// Cuts normalised text at the tokens that are looked for after normalisation.
    pub(super) fn split_normalized<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        self.normalized.split(text)
    }

    /// Whether any token is looked for after normalisation.
    pub(super) fn any_normalized(&self) -> bool {
        !self.normalized.ids.is_empty()
    }
}

impl AddedToken {
    /// The same token under the id that the other kind of listing has as its key.
    pub(super) fn with_id(self, id: u32) -> Self {
        Self { id, ..self }
    }

    fn check_flags(&self) -> Result<(), TextError> {
        let set = [
            (self.lstrip, "lstrip"),
            (self.rstrip, "rstrip"),
            (self.single_word, "single_word"),
        ];
        match set.into_iter().find(|(on, _)| *on) {
            Some((_, flag)) => Err(TextError::AddedTokenFlag {
                token: self.content.clone(),
                flag,
            }),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Finder {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl Finder {
    fn new<'a>(tokens: impl Iterator<Item = &'a AddedToken>) -> Result<Self, TextError> {
        let (contents, ids): (Vec<&str>, Vec<u32>) = tokens
            .filter(|t| !t.content.is_empty())
            .map(|t| (t.content.as_str(), t.id))
            .unzip();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(contents)
            .map_err(|e| TextError::TokenizerRefused {
                message: e.to_string(),
            })?;
        Ok(Self { automaton, ids })
    }

    fn split<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        let mut pieces = Vec::new();
        let mut rest = 0;
        let text_until = |range: Range<usize>, pieces: &mut Vec<Piece<'t>>| {
            if !range.is_empty() {
                pieces.push(Piece::Text(&text[range]));
            }
        };
        if !self.ids.is_empty() {
            for found in self.automaton.find_iter(text) {
                text_until(rest..found.start(), &mut pieces);
                pieces.push(Piece::Control(self.ids[found.pattern().as_usize()]));
                rest = found.end();
            }
        }
        text_until(rest..text.len(), &mut pieces);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: u32, content: &str) -> AddedToken {
        AddedToken {
            id,
            content: content.into(),
            special: false,
            normalized: false,
            lstrip: false,
            rstrip: false,
            single_word: false,
        }
    }

    #[test]
    fn the_longest_token_at_the_leftmost_place_wins() {
        let tokens = AddedTokens::new([token(7, "<t>"), token(8, "<t><u>")]).unwrap();
        assert_eq!(
            tokens.split_raw("a<t><u><t>"),
            [Piece::Text("a"), Piece::Control(8), Piece::Control(7)]
        );
        assert!(tokens.split_raw("").is_empty());
    }

    #[test]
    fn the_same_entry_twice_is_one_but_a_contradiction_is_refused() {
        assert!(AddedTokens::new([token(7, "<t>"), token(7, "<t>")]).is_ok());
        for pair in [
            [token(7, "<t>"), token(7, "<u>")],
            [token(7, "<t>"), token(8, "<t>")],
        ] {
            assert!(matches!(
                AddedTokens::new(pair),
                Err(TextError::AddedTokenConflict { .. })
            ));
        }
    }

    #[test]
    fn a_flag_that_eats_neighbouring_space_is_refused() {
        let greedy = AddedToken {
            lstrip: true,
            ..token(7, "<t>")
        };
        assert!(matches!(
            AddedTokens::new([greedy]),
            Err(TextError::AddedTokenFlag { flag: "lstrip", .. })
        ));
    }
}
