//! What each token id stands for.

use std::collections::{BTreeMap, HashMap};

use super::added_tokens::AddedTokens;
use super::byte_level::char_byte;
use super::error::TextError;

/// The bytes of every token, in one allocation.
#[derive(Debug)]
pub(super) struct Vocabulary {
    bytes: Vec<u8>,
    // Token `id` is bytes[ends[id - 1]..ends[id]].
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Made by merges.
    Base,
    /// A control token that stays in text.
    Added,
    /// A control token that is left out of text.
    Special,
    /// An id that no token has.
    Hole,
}

impl Vocabulary {
    pub(super) fn new(base: &HashMap<String, u32>, added: &AddedTokens) -> Result<Self, TextError> {
        let mut tokens: BTreeMap<u32, (TokenKind, Vec<u8>)> = BTreeMap::new();
        for (token, &id) in base {
            let bytes: Option<Vec<u8>> = token.chars().map(char_byte).collect();
            let bytes = bytes.ok_or_else(|| TextError::NotByteLevel {
                id,
                token: token.clone(),
            })?;
            tokens.insert(id, (TokenKind::Base, bytes));
        }
        for token in added.iter() {
            let kind = if token.special {
                TokenKind::Special
            } else {
                TokenKind::Added
            };
            let content = token.content.as_bytes().to_vec();
            match tokens.insert(token.id, (kind, content)) {
                Some((TokenKind::Base, bytes)) if bytes != token.content.as_bytes() => {
                    return Err(TextError::AddedTokenConflict {
                        token: token.content.clone(),
                        id: token.id,
                    });
                }
                _ => {}
            }
        }
        let used = tokens
            .last_key_value()
            .map_or(0, |(&id, _)| id as usize + 1);
        // A lying id must not allocate gigabytes; real vocabularies have no more than a handful of holes.
        if used > 2 * tokens.len() + 1024 {
            let id = u32::try_from(used - 1).unwrap_or(u32::MAX);
            return Err(TextError::TokenIdTooLarge {
                id,
                tokens: tokens.len(),
            });
        }
        let mut vocabulary = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(used),
            kinds: vec![TokenKind::Hole; used],
        };
        for (id, kind) in vocabulary.kinds.iter_mut().enumerate() {
            if let Some((found, bytes)) = u32::try_from(id).ok().and_then(|id| tokens.get(&id)) {
                *kind = *found;
                vocabulary.bytes.extend_from_slice(bytes);
            }
            let end =
                u32::try_from(vocabulary.bytes.len()).map_err(|_| TextError::TokenizerRefused {
                    message: "vocabulary of more than 4 GiB".into(),
                })?;
            vocabulary.ends.push(end);
        }
        Ok(vocabulary)
    }

    pub(super) fn used(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn kind(&self, id: u32) -> TokenKind {
        self.kinds
            .get(id as usize)
            .copied()
            .unwrap_or(TokenKind::Hole)
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        if self.kind(id) == TokenKind::Hole {
            return None;
        }
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start as usize..self.ends[id] as usize])
    }
}
