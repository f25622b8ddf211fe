//! Bytes of tokens to text, without ever showing half a character.

/// Text from bytes that arrive in pieces.
///
/// A character that is not complete yet is held back; bytes that can no longer become a character are replaced by U+FFFD,
/// exactly as [`String::from_utf8_lossy`] does over the whole.
///
/// ```
/// use qwen35_model::text::Utf8Stream;
///
/// let mut stream = Utf8Stream::default();
/// let mut text = String::new();
/// stream.push(&[0xF0, 0x9F], &mut text);
/// assert_eq!(text, "");
/// stream.push(&[0x98, 0x80], &mut text);
/// assert_eq!(text, "\u{1F600}");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Utf8Stream {
    // The beginning of a character: at most three bytes.
    partial: Vec<u8>,
}

impl Utf8Stream {
    /// Appends to `out` what is certain after `bytes`.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.partial.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            match std::str::from_utf8(&self.partial[at..]) {
                Ok(text) => {
                    out.push_str(text);
                    self.partial.clear();
                    return;
                }
                Err(error) => {
                    let valid = at + error.valid_up_to();
                    out.push_str(&String::from_utf8_lossy(&self.partial[at..valid]));
                    let Some(garbage) = error.error_len() else {
                        self.partial.drain(..valid);
                        return;
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    at = valid + garbage;
                }
            }
        }
    }

    /// Ends the text: a character that never became complete is shown once as U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        if !self.partial.is_empty() {
            self.partial.clear();
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    /// Whether the beginning of a character is being held back.
    pub fn is_inside_character(&self) -> bool {
        !self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streamed(bytes: &[u8], sizes: &[usize]) -> String {
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        let mut rest = bytes;
        for &size in sizes {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            stream.push(piece, &mut text);
            rest = after;
        }
        stream.push(rest, &mut text);
        stream.finish(&mut text);
        text
    }

    #[test]
    fn half_a_character_is_shown_once_and_only_at_the_end() {
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        stream.push("é🤖".as_bytes().split_at(4).0, &mut text);
        assert_eq!(text, "é");
        assert!(stream.is_inside_character());
        stream.finish(&mut text);
        stream.finish(&mut text);
        assert_eq!(text, "é\u{FFFD}");
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_lossy_text_of_the_whole(
            parts in prop::collection::vec(prop_oneof![
                any::<char>().prop_map(|c| c.to_string().into_bytes()),
                prop::collection::vec(any::<u8>(), 0..4),
            ], 0..12),
            sizes in prop::collection::vec(0usize..5, 0..40),
        ) {
            let bytes = parts.concat();
            prop_assert_eq!(streamed(&bytes, &sizes), String::from_utf8_lossy(&bytes));
        }
    }
}
