//! Weights taken apart: exponents, the two parts of their mantissas, signs.
//!
//! The loops run over whole tiles of 16-bit lanes without a branch, and every kernel compiles them for its
//! own instruction set.

use bfp_format::BlockFormat;

use super::ZERO_EXPONENT;
use crate::weight::{FACE, TILE, WeightFormat};

const ELEMENTS: usize = TILE * TILE;

/// One tile of a weight, rows (inputs) of 32 outputs.
#[derive(Clone, Copy, Debug)]
pub(in crate::tensix) enum Tile<'a> {
    /// bf16, row after row.
    Halves(&'a [u16; ELEMENTS]),
    /// As stored: four faces, row after row each.
    Stored {
        format: WeightFormat,
        bytes: &'a [u8],
    },
}

/// A tile of weights taken apart, rows of 32 outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(in crate::tensix) struct WeightParts {
    exponent: [i16; ELEMENTS],
    high: [u16; ELEMENTS],
    low: [u16; ELEMENTS],
    sign: [i16; ELEMENTS],
}

impl WeightParts {
    pub(in crate::tensix) const ZERO: Self = Self {
        exponent: [ZERO_EXPONENT; ELEMENTS],
        high: [0; ELEMENTS],
        low: [0; ELEMENTS],
        sign: [1; ELEMENTS],
    };

    /// The exponent fields of input `k`; [`ZERO_EXPONENT`] where a weight is zero.
    #[inline(always)]
    pub(super) fn exponents(&self, k: usize) -> &[i16; TILE] {
        row(&self.exponent, k)
    }

    /// Twice the part of the mantissas that phase number `phase` reads: the top 5 bits, or the rest of them.
    #[inline(always)]
    pub(super) fn mantissas(&self, phase: usize, k: usize) -> &[u16; TILE] {
        row(
            if phase & 1 == 0 {
                &self.high
            } else {
                &self.low
            },
            k,
        )
    }

    /// The signs of input `k`, 1 or -1.
    #[inline(always)]
    pub(super) fn signs(&self, k: usize) -> &[i16; TILE] {
        row(&self.sign, k)
    }

    /// Takes `tile` apart, as the device's unpacker reads it ([`crate::tensix::packing::unpack`]).
    #[inline(always)]
    pub(super) fn split(&mut self, tile: Tile<'_>) {
        match tile {
            Tile::Halves(halves) => self.split_halves(halves),
            Tile::Stored {
                format: WeightFormat::Block(format),
                bytes,
            } => {
                let (exponents, codes) = bytes.split_at(ELEMENTS / FACE);
                self.split_codes(exponents, codes, format);
            }
            Tile::Stored {
                format: WeightFormat::Bf16,
                bytes,
            } => {
                let mut halves = [0; ELEMENTS];
                for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks().0) {
                    *half = u16::from_le_bytes(*bytes);
                }
                self.split_halves(&rows_of_faces(&halves));
            }
            Tile::Stored {
                format: WeightFormat::F32,
                bytes,
            } => {
                let mut halves = [0; ELEMENTS];
                for (half, [_, _, low, high]) in halves.iter_mut().zip(bytes.as_chunks().0) {
                    *half = u16::from_le_bytes([*low, *high]);
                }
                self.split_halves(&rows_of_faces(&halves));
            }
        }
    }

    #[inline(always)]
    fn split_halves(&mut self, halves: &[u16; ELEMENTS]) {
        for (at, half) in halves.iter().enumerate() {
            self.set(at, (half >> 7) & 0xff, 0x80 | half & 0x7f, half >> 15 != 0);
        }
    }

    /// `exponents` and `codes` as a block tile stores them.
    #[inline(always)]
    fn split_codes(&mut self, exponents: &[u8], codes: &[u8], format: BlockFormat) {
        // Shorter codes are BFP8 codes whose low bits are missing.
        let mut bytes = [0; ELEMENTS];
        match format {
            BlockFormat::Bfp8 => bytes.copy_from_slice(codes),
            BlockFormat::Bfp4 => {
                for (bytes, code) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
                    *bytes = [code << 4, code & 0xf0];
                }
            }
            BlockFormat::Bfp2 => {
                for (bytes, code) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(codes) {
                    *bytes = [code << 6, code << 4 & 0xc0, code << 2 & 0xc0, code & 0xc0];
                }
            }
        }
        let codes = rows_of_faces(&bytes);
        let mut shared = [0; ELEMENTS];
        for (row, exponent) in shared.as_chunks_mut::<FACE>().0.iter_mut().zip(exponents) {
            *row = [*exponent; FACE];
        }
        let exponents = rows_of_faces(&shared);
        // Counted, not zipped: only so does the compiler make vectors of it, eight times as fast.
        for at in 0..ELEMENTS {
            let code = codes[at];
            // The magnitude's 7 bits below bit 8, shifted up until bit 7 is set.
            let magnitude = u16::from(code & 0x7f) << 1;
            let (mantissa, exponent) = raised::<4>(magnitude, u16::from(exponents[at]));
            let (mantissa, exponent) = raised::<2>(mantissa, exponent);
            let (mantissa, exponent) = raised::<1>(mantissa, exponent);
            let negative = code & 0x80 != 0;
            let of_empty = if negative { 0xff } else { 0 };
            let field = if mantissa == 0 {
                of_empty
            } else {
                exponent & 0xff
            };
            // An empty magnitude with a sign is a number without fraction.
            self.set(at, field, mantissa | 0x80, negative);
        }
    }

    /// Element `at` of an exponent field, a mantissa of 8 bits with its leading one, and a sign.
    #[inline(always)]
    fn set(&mut self, at: usize, field: u16, mantissa: u16, negative: bool) {
        let zero = field == 0;
        self.exponent[at] = if zero {
            ZERO_EXPONENT
        } else {
            field.cast_signed()
        };
        self.high[at] = if zero { 0 } else { mantissa >> 3 << 1 };
        self.low[at] = if zero { 0 } else { (mantissa & 7) << 3 };
        self.sign[at] = if negative { -1 } else { 1 };
    }
}

#[inline(always)]
fn row<T>(values: &[T; ELEMENTS], k: usize) -> &[T; TILE] {
    &values.as_chunks().0[k]
}

/// Shifted up by `SHIFT` where the top `SHIFT` of 8 bits are free, and worth as much as before.
#[inline(always)]
fn raised<const SHIFT: u16>(mantissa: u16, exponent: u16) -> (u16, u16) {
    if mantissa >> (8 - SHIFT) == 0 {
        (mantissa << SHIFT, exponent.wrapping_sub(SHIFT))
    } else {
        (mantissa, exponent)
    }
}

/// The elements of four faces, each row after row, as rows of the tile.
#[inline(always)]
fn rows_of_faces<T: Copy + Default>(faces: &[T; ELEMENTS]) -> [T; ELEMENTS] {
    let mut rows = [T::default(); ELEMENTS];
    let face_rows = rows.as_chunks_mut::<FACE>().0;
    for (at, row) in faces.as_chunks::<FACE>().0.iter().enumerate() {
        let (face, k) = (at / FACE, at % FACE);
        face_rows[(face / 2 * FACE + k) * 2 + face % 2] = *row;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::Kernel;
    use super::*;
    use crate::tensix::packing::unpack_bf16;
    use bfp_format::GROUP;
    use bfp_format::definition::unpack_codes;

    /// The same tile, element by element: halves in rows.
    fn halves(format: BlockFormat, bytes: &[u8]) -> [u16; ELEMENTS] {
        let (exponents, codes) = bytes.split_at(ELEMENTS / GROUP);
        let mut halves = [0; ELEMENTS];
        for (row, codes) in codes.chunks(format.group_code_bytes()).enumerate() {
            let (face, k) = (row / FACE, row % FACE);
            let first = (face / 2 * FACE + k) * TILE + face % 2 * FACE;
            for (i, code) in unpack_codes(format, codes).into_iter().enumerate() {
                halves[first + i] = unpack_bf16(format, exponents[row], code);
            }
        }
        halves
    }

    fn every_format_and_kernel() -> impl Iterator<Item = (BlockFormat, Kernel)> {
        let kernels = |format| {
            Kernel::available()
                .into_iter()
                .map(move |kernel| (format, kernel))
        };
        BlockFormat::ALL.into_iter().flat_map(kernels)
    }

    #[test]
    fn every_code_at_every_exponent_is_what_the_unpacker_makes() {
        for (format, kernel) in every_format_and_kernel() {
            for exponent in 0..=u8::MAX {
                // Bytes of codes in order hold every code, and in every place of a byte.
                let codes =
                    (0..ELEMENTS / 8 * format.bits() as usize).map(|at| at.to_le_bytes()[0]);
                let exponents = (0..64).map(|row: u8| exponent.wrapping_add(row * 4));
                let bytes: Vec<u8> = exponents.chain(codes).collect();
                let (mut stored, mut plain) = (WeightParts::ZERO, WeightParts::ZERO);
                let tile = Tile::Stored {
                    format: WeightFormat::Block(format),
                    bytes: &bytes,
                };
                kernel.split(&mut stored, tile);
                let mut expected = halves(format, &bytes);
                plain.split(Tile::Halves(&expected));
                assert!(stored == plain, "{format} {kernel:?} exponent {exponent}");

                // The comparison sees a difference of one bit.
                expected[1023] ^= 0x8000;
                plain.split(Tile::Halves(&expected));
                assert!(stored != plain);
            }
        }
    }

    #[test]
    fn stored_halves_and_floats_are_read_in_face_order() {
        let element =
            |face_row: usize, i: usize| u16::try_from(0x3f80 + face_row * 16 + i).unwrap();
        let faces = (0..64).flat_map(|row| (0..16).map(move |i| element(row, i)));
        let halves: Vec<u8> = faces.clone().flat_map(u16::to_le_bytes).collect();
        let floats: Vec<u8> = faces
            .flat_map(|half| (u32::from(half) << 16 | 0xffff).to_le_bytes())
            .collect();
        let rows: [u16; ELEMENTS] = std::array::from_fn(|at| {
            let (k, n) = (at / TILE, at % TILE);
            element((k / FACE * 2 + n / FACE) * FACE + k % FACE, n % FACE)
        });
        let mut expected = WeightParts::ZERO;
        expected.split(Tile::Halves(&rows));
        for (format, bytes) in [(WeightFormat::Bf16, halves), (WeightFormat::F32, floats)] {
            let mut parts = WeightParts::ZERO;
            let bytes = &bytes;
            parts.split(Tile::Stored { format, bytes });
            assert!(parts == expected, "{format:?}");
        }
    }
}
