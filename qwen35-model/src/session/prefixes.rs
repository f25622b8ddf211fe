//! States saved at the end of prompts and turns, by the tokens that lead to them.
//!
//! A recurrent state cannot be cut back: it is reusable exactly at the length it was taken. The KV rows of
//! a saved prefix are not copied; it is usable while the session's rows are still those of its tokens.

use super::head::SavedHead;
use crate::sequence::RecurrentState;

/// What may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLimits {
    /// Bytes of saved states together; 0 keeps none. The least recently used goes first.
    pub bytes: usize,
}

impl Default for PrefixLimits {
    /// 192 MiB: three states of the 9B model, thousands of the demo model.
    fn default() -> Self {
        Self { bytes: 192 << 20 }
    }
}

#[derive(Debug)]
pub(super) struct Prefixes {
    limits: PrefixLimits,
    /// Least recently used first.
    saved: Vec<SavedPrefix>,
}

#[derive(Debug)]
pub(super) struct SavedPrefix {
    pub(super) tokens: Vec<u32>,
    pub(super) state: RecurrentState,
    pub(super) head: Option<SavedHead>,
}

impl SavedPrefix {
    fn bytes(&self) -> usize {
        self.state.bytes()
            + 4 * self.tokens.len()
            + self.head.as_ref().map_or(0, |head| 4 * head.hidden.len())
    }
}

impl Prefixes {
    pub(super) const fn new(limits: PrefixLimits) -> Self {
        Self {
            limits,
            saved: Vec::new(),
        }
    }

    /// Whether saving these tokens would add anything.
    pub(super) fn wants(&self, tokens: &[u32]) -> bool {
        self.limits.bytes > 0 && self.saved.iter().all(|saved| saved.tokens != tokens)
    }

    /// The longest saved state that is a proper prefix of `prompt` (a token must be left to feed) and whose
    /// KV rows are still there: `rows` are the tokens that the rows now hold. It becomes the most recent.
    pub(super) fn longest(&mut self, prompt: &[u32], rows: &[u32]) -> Option<&SavedPrefix> {
        let usable = |saved: &SavedPrefix| {
            saved.tokens.len() < prompt.len()
                && prompt.starts_with(&saved.tokens)
                && rows.starts_with(&saved.tokens)
        };
        let (index, _) = self
            .saved
            .iter()
            .enumerate()
            .filter(|(_, saved)| usable(saved))
            .max_by_key(|(_, saved)| saved.tokens.len())?;
        let found = self.saved.remove(index);
        self.saved.push(found);
        self.saved.last()
    }

    /// Keeps a state, dropping those whose rows are gone, then the least recently used, as room demands.
    pub(super) fn save(&mut self, tokens: &[u32], state: RecurrentState, head: Option<SavedHead>) {
        self.saved
            .retain(|saved| tokens.starts_with(&saved.tokens) || saved.tokens.starts_with(tokens));
        let prefix = SavedPrefix {
            tokens: tokens.to_vec(),
            state,
            head,
        };
        if prefix.bytes() > self.limits.bytes {
            return;
        }
        self.saved.push(prefix);
        let mut total: usize = self.saved.iter().map(SavedPrefix::bytes).sum();
        while total > self.limits.bytes {
            total -= self.saved.remove(0).bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(position: usize) -> RecurrentState {
        RecurrentState {
            layers: Vec::new(),
            position,
        }
    }

    fn saved_at(lengths: &[usize], tokens: &[u32]) -> Prefixes {
        let mut prefixes = Prefixes::new(PrefixLimits::default());
        for length in lengths {
            prefixes.save(&tokens[..*length], state(*length), None);
        }
        prefixes
    }

    #[test]
    fn the_longest_state_below_the_common_prefix_is_found() {
        let tokens: Vec<u32> = (0..9000).collect();
        let mut prefixes = saved_at(&[10, 4096, 8192], &tokens);
        let mut prompt = tokens[..5000].to_vec();
        prompt.extend([1, 1, 1]);
        assert_eq!(
            prefixes.longest(&prompt, &tokens).unwrap().tokens.len(),
            4096
        );
    }

    #[test]
    fn a_state_needs_a_token_left_to_feed_and_its_rows_in_place() {
        let tokens: Vec<u32> = (0..20).collect();
        let mut prefixes = saved_at(&[10], &tokens);
        assert!(prefixes.longest(&tokens[..10], &tokens).is_none());
        assert!(prefixes.longest(&tokens[..11], &tokens).is_some());
        let mut overwritten = tokens.clone();
        overwritten[3] = 99;
        assert!(prefixes.longest(&tokens[..11], &overwritten).is_none());
        assert!(prefixes.longest(&tokens[..11], &tokens[..9]).is_none());
    }

    #[test]
    fn the_least_recently_used_state_makes_room() {
        let tokens: Vec<u32> = (0..20).collect();
        let mut prefixes = Prefixes::new(PrefixLimits { bytes: 4 * (5 + 6) });
        prefixes.save(&tokens[..5], state(5), None);
        prefixes.save(&tokens[..6], state(6), None);
        assert!(
            prefixes
                .longest(&tokens[..6], &tokens)
                .is_some_and(|saved| saved.tokens.len() == 5)
        );
        prefixes.save(&tokens[..4], state(4), None);
        assert!(
            prefixes.wants(&tokens[..6]),
            "the one of 6 tokens was used longest ago"
        );
        assert!(!prefixes.wants(&tokens[..5]));
    }

    #[test]
    fn no_bytes_keeps_nothing() {
        let mut prefixes = Prefixes::new(PrefixLimits { bytes: 0 });
        assert!(!prefixes.wants(&[1, 2]));
        prefixes.save(&[1, 2], state(2), None);
        assert!(prefixes.longest(&[1, 2, 3], &[1, 2, 3]).is_none());
    }
}
