//! The byte-level alphabet of GPT-2 tokenizers: each byte is written as one printable character.

/// The character that stands for `byte` in a byte-level vocabulary.
///
/// Printable Latin-1 bytes stand for themselves, the other 68 for U+0100 onwards in byte order. Source: GPT-2's
/// `bytes_to_unicode`.
pub(super) const fn byte_char(byte: u8) -> char {
    let mut moved = 0u8;
    let mut other = 0u8;
    loop {
        let printable = matches!(other, 33..=126 | 161..=172 | 174..=255);
        if other == byte {
            return if printable {
                byte as char
            } else {
                moved_char(moved)
            };
        }
        if !printable {
            moved += 1;
        }
        other += 1;
    }
}

/// The byte that `c` stands for, if it is in the alphabet.
pub(super) fn char_byte(c: char) -> Option<u8> {
    static BYTES: [Option<u8>; ALPHABET_END] = inverse();
    BYTES.get(c as usize).copied().flatten()
}

// 68 bytes are moved, so the alphabet ends before U+0144.
const ALPHABET_END: usize = 0x144;

const fn moved_char(moved: u8) -> char {
    match char::from_u32(0x100 + moved as u32) {
        Some(c) => c,
        None => char::REPLACEMENT_CHARACTER,
    }
}

const fn inverse() -> [Option<u8>; ALPHABET_END] {
    let mut bytes = [None; ALPHABET_END];
    let mut byte = 0u8;
    loop {
        bytes[byte_char(byte) as usize] = Some(byte);
        if byte == u8::MAX {
            return bytes;
        }
        byte += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_a_bijection_over_all_bytes() {
        for byte in 0..=u8::MAX {
            assert_eq!(char_byte(byte_char(byte)), Some(byte));
        }
        assert_eq!(
            (0..0x300)
                .filter_map(char::from_u32)
                .filter_map(char_byte)
                .count(),
            256
        );
    }

    #[test]
    fn well_known_characters_of_the_alphabet() {
        assert_eq!(byte_char(b' '), 'Ġ');
        assert_eq!(byte_char(b'\n'), 'Ċ');
        assert_eq!(byte_char(0xE3), 'ã');
        assert_eq!(byte_char(0xAD), 'Ń');
        assert_eq!(char_byte(' '), None);
    }
}
