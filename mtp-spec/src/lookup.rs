use crate::{Drafter, Drafts, Target, TokenId};

/// Drafts by copying: finds the last tokens earlier in the context and proposes what followed them there.
///
/// Needs no model. Good where the output repeats its prompt (summaries, edits, code), useless elsewhere, so off by default.
/// Of all earlier places it takes the one that agrees with the most last tokens, the latest on ties; a copy that reaches the end of the context goes on into itself.
///
/// Saxena, "Prompt lookup decoding" (2023).
#[derive(Clone, Debug)]
pub struct PromptLookup {
    context: Vec<TokenId>,
    shortest: usize,
    longest: usize,
}

impl PromptLookup {
    /// Proposes nothing when fewer than `shortest` tokens agree, and looks no further than `longest`. Both count the anchor and are at least 1.
    #[must_use]
    pub fn new(shortest: usize, longest: usize) -> Self {
        let shortest = shortest.max(1);
        Self {
            context: Vec::new(),
            shortest,
            longest: longest.max(shortest),
        }
    }

    /// Where the copy starts in the context followed by `anchor`.
    fn source(&self, anchor: TokenId) -> Option<usize> {
        let mut best = (0, None);
        for end in (0..self.context.len())
            .rev()
            .filter(|&end| self.context[end] == anchor)
        {
            let before = self.context[..end].iter().rev();
            let agreed = before
                .zip(self.context.iter().rev())
                .take(self.longest - 1)
                .take_while(|(a, b)| a == b);
            let length = agreed.count() + 1;
            if length > best.0 {
                best = (length, Some(end + 1));
            }
            if length == self.longest {
                break;
            }
        }
        best.1.filter(|_| best.0 >= self.shortest)
    }
}

impl Default for PromptLookup {
    /// Two to four tokens must agree.
    fn default() -> Self {
        Self::new(2, 4)
    }
}

impl<T: Target> Drafter<T> for PromptLookup {
    fn reset(&mut self, _target: &mut T, held: &[TokenId]) -> Result<(), T::Error> {
        self.context.clear();
        self.context.extend_from_slice(held);
        Ok(())
    }

    fn propose(
        &mut self,
        _target: &mut T,
        anchor: TokenId,
        drafts: &mut Drafts<'_>,
    ) -> Result<(), T::Error> {
        let Some(source) = self.source(anchor) else {
            return Ok(());
        };
        let known = self.context.len();
        while drafts.room() > 0 {
            let from = source + drafts.tokens().len();
            let token = match from.checked_sub(known) {
                None => self.context[from],
                Some(0) => anchor,
                Some(beyond) => drafts.tokens()[beyond - 1],
            };
            if !drafts.push(token) {
                break;
            }
        }
        Ok(())
    }

    fn settle(&mut self, _target: &mut T, kept: &[TokenId]) -> Result<(), T::Error> {
        self.context.extend_from_slice(kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(shortest: usize, longest: usize, tokens: &[u32]) -> Option<usize> {
        let (&anchor, context) = tokens.split_last().unwrap();
        let mut lookup = PromptLookup::new(shortest, longest);
        lookup.context = context.iter().copied().map(TokenId).collect();
        lookup.source(TokenId(anchor))
    }

    #[test]
    fn the_longest_match_wins_and_then_the_latest() {
        assert_eq!(source(2, 4, &[1, 2, 3, 9, 2, 3, 8, 1, 2, 3]), Some(3));
        assert_eq!(source(2, 2, &[1, 2, 3, 9, 2, 3, 8, 1, 2, 3]), Some(6));
        assert_eq!(source(1, 4, &[7, 5, 7, 6, 7]), Some(3));
    }

    #[test]
    fn too_short_a_match_is_none() {
        assert_eq!(source(2, 4, &[7, 5, 7, 6, 7]), None);
        assert_eq!(source(1, 1, &[7, 5, 6]), None);
        assert_eq!(source(1, 1, &[7]), None);
        assert_eq!(source(0, 0, &[7, 7]), Some(1));
    }
}
