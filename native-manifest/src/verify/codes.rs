//! A quick look for codes that no encoder writes.
//!
//! `bfp_format::first_not_canonical` is the definition: it decodes and encodes again. Nearly every group can be told good
//! by its bits alone, at the speed of memory; whatever this look does not like goes to the definition.
//!
//! ```text
//! for each group of 16 codes and its exponent E:
//!     good if E is 0 and all codes are 0
//!     good if E is at least the magnitude's width,     (else some magnitude may be below the smallest normal number)
//!             some code has its leading magnitude bit,  (else E is above every element's)
//!             and no code is a sign alone               (no encoder keeps the sign of a zero)
//! ```

use bfp_format::{BlockFormat, NotCanonical, TileShape, first_not_canonical};

/// Groups of a 32x32 tile; as many bytes of exponents come before the codes.
const GROUPS: usize = 64;

/// The first place in 32x32 tiles where codes are not an encoder's. Bytes after the last whole tile are not looked at.
pub(super) fn first_foreign_code(tiles: &[u8], format: BlockFormat) -> Option<NotCanonical> {
    let mut tiles = tiles
        .chunks_exact(format.tile_bytes(TileShape::T32))
        .enumerate();
    tiles.find_map(|(index, tile)| {
        if looks_good(tile, format) {
            return None;
        }
        let found = first_not_canonical(tile, &[32, 32], format, TileShape::T32)
            .ok()
            .flatten()?;
        Some(match found {
            NotCanonical::Group {
                tile: _,
                group,
                exponent,
                canonical,
            } => NotCanonical::Group {
                tile: index,
                group,
                exponent,
                canonical,
            },
            other => other,
        })
    })
}

fn looks_good(tile: &[u8], format: BlockFormat) -> bool {
    let (exponents, codes) = tile.split_at(GROUPS);
    let width = format.magnitude_bits();
    match format {
        BlockFormat::Bfp8 => {
            let (groups, _) = codes.as_chunks::<16>();
            all_good(exponents, groups, width, |group| {
                let [first, second] = halves(group);
                Bits {
                    any: first | second,
                    leading: (first | second) & repeated(0x40),
                    lone_signs: zero_bytes(first ^ repeated(0x80))
                        | zero_bytes(second ^ repeated(0x80)),
                }
            })
        }
        BlockFormat::Bfp4 => {
            let (groups, _) = codes.as_chunks::<8>();
            all_good(exponents, groups, width, |group| {
                let codes = u64::from_le_bytes(*group);
                Bits {
                    any: codes,
                    leading: codes & repeated(0x44),
                    lone_signs: zero_nibbles(codes ^ repeated(0x88)),
                }
            })
        }
        // One bit of magnitude: a code with a magnitude has its leading bit.
        BlockFormat::Bfp2 => false,
    }
}

/// What matters of a group's codes, each zero or not.
struct Bits {
    any: u64,
    leading: u64,
    lone_signs: u64,
}

/// Without a branch in the loop, so that it runs at the speed of memory.
fn all_good<const N: usize>(
    exponents: &[u8],
    groups: &[[u8; N]],
    width: u32,
    bits: impl Fn(&[u8; N]) -> Bits,
) -> bool {
    let good = exponents
        .iter()
        .zip(groups)
        .fold(true, |good, (&exponent, group)| {
            let Bits {
                any,
                leading,
                lone_signs,
            } = bits(group);
            let is_zero = (exponent == 0) & (any == 0);
            let is_normal = (u32::from(exponent) >= width) & (leading != 0) & (lone_signs == 0);
            good & (is_zero | is_normal)
        });
    good & (groups.len() == exponents.len())
}

fn halves(group: &[u8; 16]) -> [u64; 2] {
    let (words, _) = group.as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

const fn repeated(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Not zero exactly when some byte is zero (Warren, Hacker's Delight, 6-1).
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(repeated(0x01)) & !word & repeated(0x80)
}

/// The same for half bytes.
const fn zero_nibbles(word: u64) -> u64 {
    word.wrapping_sub(repeated(0x11)) & !word & repeated(0x88)
}

#[cfg(test)]
mod tests {
    use bfp_format::pack;
    use proptest::prelude::*;

    use super::*;

    fn judge(tiles: &[u8], format: BlockFormat) -> Option<NotCanonical> {
        let count = tiles.len() / format.tile_bytes(TileShape::T32);
        first_not_canonical(tiles, &[32 * count, 32], format, TileShape::T32).unwrap()
    }

    #[test]
    fn every_exponent_and_code_beside_each_neighbour_is_judged_as_by_the_definition() {
        for format in [BlockFormat::Bfp8, BlockFormat::Bfp4] {
            let codes = 1_u16 << format.bits();
            let group_bytes = format.group_code_bytes();
            for exponent in 0..=255_u8 {
                // One code in a group of zeros, then beside a code with the leading bit, at changing places.
                for neighbour in [0, 1 << (format.magnitude_bits() - 1)] {
                    for first in (0..codes).step_by(GROUPS) {
                        let mut tile = vec![0; format.tile_bytes(TileShape::T32)];
                        for (group, code) in (first..codes).take(GROUPS).enumerate() {
                            tile[group] = exponent;
                            let place = &mut tile[GROUPS + group * group_bytes..][..group_bytes];
                            let at = usize::from(code) % 15;
                            put(place, at, code, format);
                            put(place, 15, neighbour, format);
                            let whole = judge(&tile, format);
                            assert_eq!(
                                first_foreign_code(&tile, format),
                                whole,
                                "{format} {exponent} {code}"
                            );
                            if whole.is_some() {
                                // The first one hides the others: go on without it.
                                tile[group] = 0;
                                tile[GROUPS + group * group_bytes..][..group_bytes].fill(0);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_tile_is_counted_from_the_first() {
        for format in [BlockFormat::Bfp8, BlockFormat::Bfp4] {
            let values: Vec<f32> = (0..32 * 96_u16).map(|i| f32::from(i % 97) - 48.0).collect();
            let mut tiles = pack(&values, &[32, 96], format).unwrap();
            assert_eq!(first_foreign_code(&tiles, format), None);
            let last = tiles.len() - 1;
            let group = &mut tiles[last - format.group_code_bytes() + 1..];
            group.fill(0);
            assert_eq!(first_foreign_code(&tiles, format), judge(&tiles, format));
            assert!(matches!(
                first_foreign_code(&tiles, format),
                Some(NotCanonical::Group {
                    tile: 2,
                    group: 63,
                    ..
                })
            ));
        }
    }

    fn put(group: &mut [u8], at: usize, code: u16, format: BlockFormat) {
        let code = u8::try_from(code).unwrap();
        match format {
            BlockFormat::Bfp8 => group[at] = code,
            _ => group[at / 2] |= code << (4 * (at % 2)),
        }
    }

    proptest! {
        #[test]
        fn random_bytes_are_judged_as_by_the_definition(
            bytes in proptest::collection::vec(any::<u8>(), 1088),
            mask in prop_oneof![Just(0xff_u8), Just(0x7f), Just(0x77), Just(0x0f)],
            exponents in prop_oneof![Just(0xff_u8), Just(0x0f), Just(0x00)],
        ) {
            for format in [BlockFormat::Bfp8, BlockFormat::Bfp4] {
                let mut tile: Vec<u8> = bytes[..format.tile_bytes(TileShape::T32)].iter().map(|byte| byte & mask).collect();
                tile[..GROUPS].iter_mut().for_each(|exponent| *exponent &= exponents);
                prop_assert_eq!(first_foreign_code(&tile, format), judge(&tile, format));
            }
        }
    }
}
