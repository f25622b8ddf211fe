//! llama.cpp's grammar notation (GBNF), rewritten as Lark.
//!
//! GBNF describes text character by character, so each character becomes a terminal of its own: then no terminal is longer
//! than another, and the two notations mean the same.

use std::fmt::Write as _;

/// Rewrites a grammar. Rule `NAME` becomes `g_NAME`, the start rule `root` becomes `g_root`.
///
/// # Errors
/// What is wrong, with the line.
pub(super) fn to_lark(text: &str) -> Result<String, String> {
    let mut reader = Reader { text, at: 0 };
    let mut lark = String::new();
    let mut has_root = false;
    loop {
        reader.skip_space(Newlines::Skip);
        if reader.rest().is_empty() {
            break;
        }
        let name = reader.name()?;
        has_root |= name == "g_root";
        reader.skip_space(Newlines::Keep);
        reader.expect("::=")?;
        let body = reader.alternatives(Newlines::Keep)?;
        // Writing into a string cannot fail.
        let _ = writeln!(lark, "{name}: {body}");
        if !reader.rest().is_empty() && !reader.rest().starts_with(['\n', '\r']) {
            return Err(reader.error("expected the end of the rule"));
        }
    }
    if has_root {
        Ok(lark)
    } else {
        Err("the grammar has no rule named root".into())
    }
}

/// Whether a line break ends what is being read; inside parentheses it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newlines {
    Keep,
    Skip,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn error(&self, message: &str) -> String {
        let line = 1 + self.text[..self.at].matches('\n').count();
        format!("grammar line {line}: {message}")
    }

    fn take(&mut self) -> Result<char, String> {
        let next = self.rest().chars().next();
        let next = next.ok_or_else(|| self.error("the grammar breaks off"))?;
        self.at += next.len_utf8();
        Ok(next)
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.takes(text) {
            Ok(())
        } else {
            Err(self.error(&format!("expected {text}")))
        }
    }

    fn skip_space(&mut self, newlines: Newlines) {
        loop {
            let rest = self.rest();
            if rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            match rest.chars().next() {
                Some(' ' | '\t') => self.at += 1,
                Some('\n' | '\r') if newlines == Newlines::Skip => self.at += 1,
                _ => return,
            }
        }
    }

    fn name(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("expected the name of a rule"));
        }
        self.at += end;
        // Lark's rule names are lower case and have no hyphen; a hyphen and an upper-case letter are spelled out so that no
        // two names become one.
        let mut name = String::from("g_");
        for c in rest[..end].chars() {
            match c {
                '-' => name.push_str("_h_"),
                'A'..='Z' => {
                    name.push_str("_u_");
                    name.push(c.to_ascii_lowercase());
                }
                _ => name.push(c),
            }
        }
        Ok(name)
    }

    fn alternatives(&mut self, newlines: Newlines) -> Result<String, String> {
        let mut all = vec![self.sequence(newlines)?];
        loop {
            // An alternative may begin on the next line when that starts with a bar.
            let before = self.at;
            self.skip_space(Newlines::Skip);
            if !self.takes("|") {
                self.at = before;
                self.skip_space(newlines);
                return Ok(all.join(" | "));
            }
            all.push(self.sequence(newlines)?);
        }
    }

    fn sequence(&mut self, newlines: Newlines) -> Result<String, String> {
        let mut items = Vec::new();
        loop {
            self.skip_space(newlines);
            let item = match self.rest().chars().next() {
                Some('"') => self.string()?,
                Some('[') => self.class()?,
                Some('(') => {
                    self.at += 1;
                    let inner = self.alternatives(Newlines::Skip)?;
                    self.skip_space(Newlines::Skip);
                    self.expect(")")?;
                    format!("({inner})")
                }
                Some('.') => {
                    self.at += 1;
                    "/(?s:.)/".to_owned()
                }
                Some(c) if c.is_ascii_alphanumeric() => self.name()?,
                _ if items.is_empty() => return Ok("\"\"".to_owned()),
                _ => return Ok(items.join(" ")),
            };
            items.push(self.repeated(item)?);
        }
    }

    fn repeated(&mut self, item: String) -> Result<String, String> {
        for sign in ["*", "+", "?"] {
            if self.takes(sign) {
                return Ok(format!("({item}){sign}"));
            }
        }
        if !self.takes("{") {
            return Ok(item);
        }
        let rest = self.rest();
        let end = rest.find('}').ok_or_else(|| self.error("{ without }"))?;
        let count: String = rest[..end].split_whitespace().collect();
        let well_formed = !count.is_empty()
            && count.bytes().all(|b| b.is_ascii_digit() || b == b',')
            && count.starts_with(|c: char| c.is_ascii_digit())
            && count.matches(',').count() <= 1;
        if !well_formed {
            return Err(self.error("expected {n}, {n,} or {n,m}"));
        }
        self.at += end + 1;
        Ok(format!("({item}){{{count}}}"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut characters = Vec::new();
        while !self.takes("\"") {
            let c = self.character()?;
            characters.push(super::literal(c.encode_utf8(&mut [0; 4])));
        }
        Ok(match characters.len() {
            0 => "\"\"".to_owned(),
            _ => format!("({})", characters.join(" ")),
        })
    }

    fn class(&mut self) -> Result<String, String> {
        self.at += 1;
        let negated = self.takes("^");
        let mut class = String::from(if negated { "/[^" } else { "/[" });
        let before = class.len();
        while !self.takes("]") {
            let first = self.character()?;
            push_class_char(&mut class, first);
            let rest = self.rest();
            if rest.starts_with('-') && !rest.starts_with("-]") {
                self.at += 1;
                let last = self.character()?;
                if last < first {
                    return Err(self.error("a range runs backwards"));
                }
                class.push('-');
                push_class_char(&mut class, last);
            }
        }
        if class.len() == before {
            return Err(self.error("an empty character class"));
        }
        class.push_str("]/");
        Ok(class)
    }

    fn character(&mut self) -> Result<char, String> {
        let c = self.take()?;
        if c == '\n' {
            return Err(self.error("a line break inside a literal"));
        }
        if c != '\\' {
            return Ok(c);
        }
        Ok(match self.take()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            other => other,
        })
    }

    fn code(&mut self, digits: usize) -> Result<char, String> {
        let code = self
            .rest()
            .get(..digits)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(char::from_u32)
            .ok_or_else(|| self.error("not a character code"))?;
        self.at += digits;
        Ok(code)
    }
}

/// A character inside a class of a regular expression between slashes.
fn push_class_char(class: &mut String, c: char) {
    match c {
        '\n' => class.push_str("\\n"),
        '\r' => class.push_str("\\r"),
        '\t' => class.push_str("\\t"),
        _ if c.is_ascii_punctuation() => {
            class.push('\\');
            class.push(c);
        }
        // Everything else that could confuse the reader of the expression is written as a code.
        _ if c.is_control() || c == ' ' => {
            let _ = write!(class, "\\x{{{:x}}}", u32::from(c));
        }
        _ => class.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_strings_classes_and_repetitions_are_rewritten() {
        let lark = to_lark(
            "root ::= item (\",\" item)* # a list\n\nitem ::= [a-z_] | \"x\\n\"\n     | my-Rule{2,}\nmy-Rule ::= [^\\]]?\n",
        )
        .unwrap();
        assert_eq!(
            lark,
            "g_root: g_item ((\",\") g_item)*\n\
             g_item: /[a-z\\_]/ | (\"x\" \"\\n\") | (g_my_h__u_rule){2,}\n\
             g_my_h__u_rule: (/[^\\]]/)?\n"
                .replace("((\",\") g_item)*", "(((\",\") g_item))*")
        );
    }

    #[test]
    fn a_fault_is_told_with_its_line() {
        for (grammar, line) in [
            ("item ::= \"a\"", "no rule named root"),
            ("root = \"a\"", "line 1: expected ::="),
            ("root ::= \"a", "line 1: the grammar breaks off"),
            ("root ::= \"a\"\nitem ::= (\"b\"", "line 2: expected )"),
            ("root ::= [z-a]", "line 1: a range runs backwards"),
            ("root ::= []", "line 1: an empty character class"),
            ("root ::= \"a\"{x}", "line 1: expected {n}"),
            ("root ::= \"\\xZZ\"", "line 1: not a character code"),
            ("root ::= \"a\" )", "line 1: expected the end of the rule"),
        ] {
            let error = to_lark(grammar).unwrap_err();
            assert!(error.contains(line), "{grammar:?}: {error}");
        }
    }
}
