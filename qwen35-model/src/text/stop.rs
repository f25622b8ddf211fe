//! Stop strings: found wherever tokens are cut, never shown in part.

/// Looks for stop strings in text that arrives in pieces.
///
/// The match that is complete first wins; of several that end at the same place, the longest. Text that may still become a
/// match is held back, and nothing else is. Bytes are compared, so a match never starts inside a character.
///
/// ```
/// use qwen35_model::text::StopMatcher;
///
/// let mut matcher = StopMatcher::new(["END".into()]);
/// let mut shown = String::new();
/// assert!(matcher.push("the E", &mut shown).is_none());
/// assert_eq!(shown, "the ");
/// assert!(matcher.push("ND of", &mut shown).is_some());
/// assert_eq!(shown, "the ");
/// ```
#[derive(Debug, Clone)]
pub struct StopMatcher {
    stops: Vec<Stop>,
    // Text that is held back: always the beginning of some stop string.
    held: String,
    seen: usize,
    hit: Option<StopHit>,
}

/// Where a stop string was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopHit {
    /// Which stop string, counted as given.
    pub stop: usize,
    /// Offset in bytes, over all text pushed, at which the stop string starts: the text is cut here.
    pub start: usize,
    /// Offset in bytes at which the stop string ends.
    pub end: usize,
}

#[derive(Debug, Clone)]
struct Stop {
    index: usize,
    pattern: Vec<u8>,
    // borders[n]: the longest proper beginning of the first n bytes that is also their end (Knuth, Morris, Pratt 1977).
    borders: Vec<usize>,
    matched: usize,
}

impl StopMatcher {
    /// A matcher for these strings; empty strings are never found.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        let stops = stops
            .into_iter()
            .enumerate()
            .filter(|(_, text)| !text.is_empty());
        Self {
            stops: stops
                .map(|(index, text)| Stop::new(index, text.into_bytes()))
                .collect(),
            held: String::new(),
            seen: 0,
            hit: None,
        }
    }

    /// Takes more text and appends to `out` what can no longer be part of a match. After a hit nothing more comes out.
    pub fn push(&mut self, text: &str, out: &mut String) -> Option<StopHit> {
        if self.hit.is_some() {
            return self.hit;
        }
        let base = self.seen - self.held.len();
        let fresh = self.held.len();
        self.held.push_str(text);
        for (offset, &byte) in self.held.as_bytes().iter().enumerate().skip(fresh) {
            let end = base + offset + 1;
            let complete = self
                .stops
                .iter_mut()
                .filter_map(|stop| stop.advance(byte).then_some(&*stop));
            // max_by_key takes the last of equals; equal lengths ending here are equal strings, and the first counts.
            if let Some(stop) = complete.rev().max_by_key(|stop| stop.pattern.len()) {
                let start = end - stop.pattern.len();
                out.push_str(&self.held[..start - base]);
                self.hit = Some(StopHit {
                    stop: stop.index,
                    start,
                    end,
                });
                self.held.clear();
                self.seen = end;
                return self.hit;
            }
        }
        let keep = self
            .stops
            .iter()
            .map(|stop| stop.matched)
            .max()
            .unwrap_or(0);
        out.push_str(&self.held[..self.held.len() - keep]);
        self.held.drain(..self.held.len() - keep);
        self.seen += text.len();
        None
    }

    /// Ends the text: what was held back was no stop string after all.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
        for stop in &mut self.stops {
            stop.matched = 0;
        }
    }

    /// The hit, once there was one.
    pub fn hit(&self) -> Option<StopHit> {
        self.hit
    }

    /// How much text is held back, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

impl Stop {
    fn new(index: usize, pattern: Vec<u8>) -> Self {
        let mut borders = vec![0; pattern.len() + 1];
        let mut border = 0;
        for end in 1..pattern.len() {
            while border > 0 && pattern[border] != pattern[end] {
                border = borders[border];
            }
            if pattern[border] == pattern[end] {
                border += 1;
            }
            borders[end + 1] = border;
        }
        Self {
            index,
            pattern,
            borders,
            matched: 0,
        }
    }

    /// Takes one byte; whether the pattern is now complete.
    fn advance(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.pattern[self.matched] != byte {
            self.matched = self.borders[self.matched];
        }
        if self.pattern[self.matched] == byte {
            self.matched += 1;
        }
        self.matched == self.pattern.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<StopHit>) {
        let mut matcher = StopMatcher::new(stops.iter().map(ToString::to_string));
        let mut shown = String::new();
        for piece in pieces {
            matcher.push(piece, &mut shown);
        }
        matcher.finish(&mut shown);
        (shown, matcher.hit())
    }

    // The definition: look at every end from the left, and there for the longest stop string.
    fn definition(stops: &[&str], text: &str) -> (String, Option<StopHit>) {
        for end in 0..=text.len() {
            let ending = stops
                .iter()
                .enumerate()
                .filter(|(_, s)| !s.is_empty() && text.as_bytes()[..end].ends_with(s.as_bytes()));
            if let Some((stop, found)) = ending.rev().max_by_key(|(_, s)| s.len()) {
                let start = end - found.len();
                return (text[..start].to_owned(), Some(StopHit { stop, start, end }));
            }
        }
        (text.to_owned(), None)
    }

    #[test]
    fn a_stop_string_inside_a_run_of_tokens_is_found_and_cut() {
        assert_eq!(
            run(&["cd"], &["ab", "cd", "ef"]),
            (
                "ab".into(),
                Some(StopHit {
                    stop: 0,
                    start: 2,
                    end: 4
                })
            )
        );
        assert_eq!(run(&["bcd"], &["ab", "c", "def"]).0, "a");
    }

    #[test]
    fn the_empty_string_never_stops() {
        assert_eq!(
            run(&["", "x"], &["a", "", "xb"]),
            (
                "a".into(),
                Some(StopHit {
                    stop: 1,
                    start: 1,
                    end: 2
                })
            )
        );
        assert_eq!(run(&[""], &["", "ab"]), ("ab".into(), None));
        assert_eq!(run(&[], &["ab"]), ("ab".into(), None));
    }

    #[test]
    fn only_text_that_can_still_match_is_held_back() {
        let mut matcher = StopMatcher::new(["aab".into()]);
        let mut shown = String::new();
        matcher.push("xaa", &mut shown);
        assert_eq!((shown.as_str(), matcher.held_bytes()), ("x", 2));
        matcher.push("a", &mut shown);
        assert_eq!((shown.as_str(), matcher.held_bytes()), ("xa", 2));
        matcher.push("c", &mut shown);
        assert_eq!((shown.as_str(), matcher.held_bytes()), ("xaaac", 0));
    }

    #[test]
    fn the_first_complete_match_wins_and_of_two_that_end_together_the_longer() {
        assert_eq!(
            run(&["abcd", "bc"], &["abcd"]).1,
            Some(StopHit {
                stop: 1,
                start: 1,
                end: 3
            })
        );
        assert_eq!(
            run(&["b", "ab"], &["xab"]).1,
            Some(StopHit {
                stop: 1,
                start: 1,
                end: 3
            })
        );
        assert_eq!(
            run(&["ab", "ab"], &["xab"]).1,
            Some(StopHit {
                stop: 0,
                start: 1,
                end: 3
            })
        );
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_cuts(
            text in "[abé🤖]{0,24}",
            stops in prop::collection::vec("[abé🤖]{0,4}", 0..4),
            cuts in prop::collection::vec(0usize..100, 0..8),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).filter(|&cut| text.is_char_boundary(cut)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            prop_assert_eq!(run(&stops, &pieces), definition(&stops, &text));
        }
    }
}
