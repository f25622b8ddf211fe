//! A rendered chat that still knows which part of it came from users.

use std::ops::Range;

/// A chat rendered by its template.
///
/// Text in which the template's own words and the words of messages and tools are kept apart, so that only the former can
/// become control tokens ([`super::Tokenizer::encode_prompt`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    text: String,
    // Byte ranges of `text` that came from outside the template: ascending, disjoint, not empty.
    content: Vec<Range<usize>>,
}

/// A stretch of a rendered chat of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'p> {
    /// Written by the template: names of control tokens in it are control tokens.
    Scaffold(&'p str),
    /// Written by a user, a tool or the model: plain text, whatever it looks like.
    Content(&'p str),
}

/// Where a prompt leaves the model with respect to `<think>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// The prompt opened `<think>`: what follows is reasoning until `</think>`.
    Open,
    /// The prompt closed the block, so what follows is the answer.
    Closed,
    /// The prompt says nothing: the answer may begin with `<think>` of its own.
    #[default]
    Unsaid,
}

impl RenderedPrompt {
    pub(super) fn new(text: String, content: Vec<Range<usize>>) -> Self {
        debug_assert!(content.windows(2).all(|pair| pair[0].end <= pair[1].start));
        Self { text, content }
    }

    /// The rendered string, as `apply_chat_template` of transformers gives it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text cut by origin, in order and without gaps; no segment is empty.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let mut at = 0;
        let mut next = 0;
        std::iter::from_fn(move || {
            let text = &self.text[at..];
            match self.content.get(next) {
                _ if text.is_empty() => None,
                Some(range) if range.start == at => {
                    at = range.end;
                    next += 1;
                    Some(Segment::Content(&self.text[range.clone()]))
                }
                other => {
                    let end = other.map_or(self.text.len(), |range| range.start);
                    let scaffold = &self.text[at..end];
                    at = end;
                    Some(Segment::Scaffold(scaffold))
                }
            }
        })
    }

    /// Whether generation starts inside a thinking block; judged by the template's own text in the last turn.
    pub fn thinking(&self) -> Thinking {
        let mut thinking = Thinking::Unsaid;
        for segment in self.segments() {
            let Segment::Scaffold(mut rest) = segment else {
                continue;
            };
            while let Some(at) = rest.find('<') {
                rest = &rest[at..];
                if rest.starts_with("<|im_start|>") {
                    thinking = Thinking::Unsaid;
                } else if rest.starts_with("<think>") {
                    thinking = Thinking::Open;
                } else if rest.starts_with("</think>") {
                    thinking = Thinking::Closed;
                }
                rest = &rest[1..];
            }
        }
        thinking
    }

    /// The prompt cut right after the last stretch of message text, so that the model goes on writing it.
    pub(super) fn cut_after_content(mut self) -> Option<Self> {
        let end = self.content.last()?.end;
        self.text.truncate(end);
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_cover_the_text_in_order() {
        let prompt = RenderedPrompt::new("aXYbZ".into(), vec![1..2, 2..3, 4..5]);
        let segments: Vec<_> = prompt.segments().collect();
        assert_eq!(
            segments,
            [
                Segment::Scaffold("a"),
                Segment::Content("X"),
                Segment::Content("Y"),
                Segment::Scaffold("b"),
                Segment::Content("Z"),
            ]
        );
    }

    #[test]
    fn only_the_template_can_open_or_close_a_thinking_block() {
        let open = RenderedPrompt::new("<|im_start|>a\n<think>\n".into(), vec![]);
        assert_eq!(open.thinking(), Thinking::Open);
        let text = "<|im_start|>a\n</think>";
        let user = RenderedPrompt::new(text.into(), std::iter::once(14..text.len()).collect());
        assert_eq!(user.thinking(), Thinking::Unsaid);
        let earlier = RenderedPrompt::new("<think></think><|im_start|>a".into(), vec![]);
        assert_eq!(earlier.thinking(), Thinking::Unsaid);
    }
}
