//! Following user text through a template.
//!
//! A template is free to trim, split and join the text it is given. To know afterwards which part of the result came
//! from outside, each outside string is put between two marks: characters that occur nowhere in the request or the
//! template. The string operations a template can use know about marks (see `template_methods`), and the result without
//! marks is compared with a second rendering that never had any: an operation that was confused by a mark shows there.

use std::collections::BTreeSet;
use std::ops::Range;

/// Two characters that occur nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    open: char,
    close: char,
}

/// A string with the ranges that came from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Traced {
    pub(super) text: String,
    /// Ascending, disjoint, not empty, not adjacent.
    pub(super) outside: Vec<Range<usize>>,
}

impl Marks {
    /// Two private-use characters that none of the texts contains; `None` if the texts use up all of them.
    pub(super) fn absent_from<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<Self> {
        let mut present = BTreeSet::new();
        for text in texts {
            present.extend(text.chars().filter(|&c| c >= FIRST_PRIVATE));
        }
        let mut free = (FIRST_PRIVATE..=LAST_PRIVATE).filter(|c| !present.contains(c));
        Some(Self {
            open: free.next()?,
            close: free.next()?,
        })
    }

    /// `text` between marks; the empty string stays empty, so that a template sees it as false.
    pub(super) fn wrap(self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let mut marked = String::with_capacity(text.len() + 8);
        marked.push(self.open);
        marked.push_str(text);
        marked.push(self.close);
        marked
    }

    /// Takes the marks out. Marks may nest; `None` if they do not balance.
    pub(super) fn trace(self, marked: &str) -> Option<Traced> {
        let mut text = String::with_capacity(marked.len());
        let mut outside: Vec<Range<usize>> = Vec::new();
        let mut depth = 0usize;
        let mut start = 0;
        for c in marked.chars() {
            if c == self.open {
                if depth == 0 {
                    start = text.len();
                }
                depth += 1;
            } else if c == self.close {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    push_range(&mut outside, start..text.len());
                }
            } else {
                text.push(c);
            }
        }
        (depth == 0).then_some(Traced { text, outside })
    }
}

impl Traced {
    /// The part of the string in `range`, with its marks.
    pub(super) fn slice(&self, range: Range<usize>, marks: Marks) -> String {
        let mut marked = String::with_capacity(range.len() + 8);
        let mut at = range.start;
        for outside in &self.outside {
            let inside = outside.start.max(range.start)..outside.end.min(range.end);
            if inside.is_empty() {
                continue;
            }
            marked.push_str(&self.text[at..inside.start]);
            marked.push_str(&marks.wrap(&self.text[inside.clone()]));
            at = inside.end;
        }
        marked.push_str(&self.text[at..range.end]);
        marked
    }
}

// Supplementary private use areas A and B: 131,068 characters.
const FIRST_PRIVATE: char = '\u{F0000}';
const LAST_PRIVATE: char = '\u{10FFFD}';

fn push_range(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Marks {
        Marks::absent_from([]).unwrap()
    }

    fn ranges(borders: &[(usize, usize)]) -> Vec<Range<usize>> {
        borders.iter().map(|&(start, end)| start..end).collect()
    }

    #[test]
    fn marks_are_never_characters_of_the_texts() {
        let taken = "\u{F0000}a\u{F0002}";
        let marks = Marks::absent_from([taken, "b"]).unwrap();
        assert!(!taken.contains([marks.open, marks.close]));
        assert_eq!((marks.open, marks.close), ('\u{F0001}', '\u{F0003}'));
        let everything: String = (FIRST_PRIVATE..=LAST_PRIVATE).collect();
        assert_eq!(Marks::absent_from([everything.as_str()]), None);
    }

    #[test]
    fn what_was_wrapped_is_found_again() {
        let marks = marks();
        let marked = format!(
            "a{}{}b{}",
            marks.wrap("UU"),
            marks.wrap("V"),
            marks.wrap("")
        );
        let traced = marks.trace(&marked).unwrap();
        assert_eq!(
            traced,
            Traced {
                text: "aUUVb".into(),
                outside: ranges(&[(1, 4)])
            }
        );
        let nested = marks
            .trace(&marks.wrap(&format!("x{}y", marks.wrap("z"))))
            .unwrap();
        assert_eq!(
            nested,
            Traced {
                text: "xzy".into(),
                outside: ranges(&[(0, 3)])
            }
        );
    }

    #[test]
    fn marks_that_do_not_balance_are_noticed() {
        let marks = marks();
        let wrapped = marks.wrap("u");
        let (cut, _) = wrapped.split_at(wrapped.len() - 4);
        assert_eq!(marks.trace(cut), None);
        assert_eq!(marks.trace(&format!("a{}b", marks.close)), None);
        let reversed: String = wrapped.chars().rev().collect();
        assert_eq!(marks.trace(&reversed), None);
    }

    #[test]
    fn a_slice_keeps_the_origin_of_its_characters() {
        let marks = marks();
        let traced = marks.trace(&format!("ab{}ef", marks.wrap("cd"))).unwrap();
        for start in 0..=6 {
            for end in start..=6 {
                let part = marks.trace(&traced.slice(start..end, marks)).unwrap();
                assert_eq!(part.text, traced.text[start..end]);
                let expected = start.max(2)..end.min(4).max(start.max(2));
                let found: usize = part.outside.iter().map(ExactSizeIterator::len).sum();
                assert_eq!(found, expected.len());
            }
        }
    }
}
