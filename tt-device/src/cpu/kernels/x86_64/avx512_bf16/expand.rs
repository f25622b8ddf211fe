//! Face rows of tiles to pairs of bf16 weights, in registers.
//!
//! A quad is four rows of a face. It becomes two vectors, of its first two rows and of its last two:
//! dword j holds the weights of output j, the even row's in the low half and the odd row's in the high
//! half, which is how `vdpbf16ps` wants them.

use std::arch::x86_64::*;

use bytemuck::{Pod, Zeroable};

use super::Dot;
use crate::numerics::WEIGHT_EXPONENT_MIN;

/// Four face rows as two vectors of pairs.
pub(super) type Quad = [__m512i; 2];

/// Shared exponents of the 64 face rows of a tile.
pub(super) type Exponents = [u8; 64];

/// A tile of one format.
pub(super) trait Tile: Pod {
    /// Shared exponents, of block formats.
    fn exponents(&self) -> Option<&Exponents>;

    /// Quad `quad` (0..16), a block format's in units of `2^(E - 133)`.
    fn quad(&self, s: Dot, quad: usize) -> Quad;
}

/// BFP8: 64 bytes of codes a quad.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Bfp8Tile {
    exponents: Exponents,
    quads: [[u8; 64]; 16],
}

/// BFP4: 32 bytes of codes a quad.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Bfp4Tile {
    exponents: Exponents,
    quads: [[u8; 32]; 16],
}

/// BFP2: 16 bytes of codes a quad.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Bfp2Tile {
    exponents: Exponents,
    quads: [[u8; 16]; 16],
}

/// bf16: 64 bytes a pair of rows.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Bf16Tile {
    quads: [[[u8; 64]; 2]; 16],
}

impl Tile for Bfp8Tile {
    #[inline(always)]
    fn exponents(&self) -> Option<&Exponents> {
        Some(&self.exponents)
    }

    /// bf16 of a seven-bit magnitude, byte by byte: magnitudes of 64 and more by a shift, smaller ones by
    /// tables of 64 bytes.
    #[inline(always)]
    fn quad(&self, s: Dot, quad: usize) -> Quad {
        let codes = s.load(&self.quads[quad]);
        let codes = intrinsic!(_mm512_permutexvar_epi8(s.load(&BFP8_ORDER), codes));
        let twice = intrinsic!(_mm512_add_epi8(codes, codes));
        let large = intrinsic!(_mm512_movepi8_mask(twice));
        // 64 + f is 2^6 (1 + f / 64): exponent field 133, whose low bit comes from the six-bit.
        let low = intrinsic!(_mm512_permutexvar_epi8(codes, s.load(&BFP8_LOW)));
        let low = intrinsic!(_mm512_mask_mov_epi8(low, large, twice));
        let high = intrinsic!(_mm512_permutexvar_epi8(codes, s.load(&BFP8_HIGH)));
        let high = intrinsic!(_mm512_mask_mov_epi8(high, large, _mm512_set1_epi8(0x42)));
        let sign = intrinsic!(_mm512_set1_epi8(i8::MIN));
        let high = intrinsic!(_mm512_ternarylogic_epi32::<OR_AND>(high, codes, sign));
        [
            intrinsic!(_mm512_unpacklo_epi8(low, high)),
            intrinsic!(_mm512_unpackhi_epi8(low, high)),
        ]
    }
}

impl Tile for Bfp4Tile {
    #[inline(always)]
    fn exponents(&self) -> Option<&Exponents> {
        Some(&self.exponents)
    }

    #[inline(always)]
    fn quad(&self, s: Dot, quad: usize) -> Quad {
        let codes = intrinsic!(_mm256_loadu_si256(self.quads[quad].as_ptr().cast()));
        let codes = intrinsic!(_mm512_castsi256_si512(codes));
        let words = intrinsic!(_mm512_permutexvar_epi8(s.load(&BFP4_ORDER), codes));
        s.look_up(words, &BFP4_SHIFTS, &BFP4_WORDS)
    }
}

impl Tile for Bfp2Tile {
    #[inline(always)]
    fn exponents(&self) -> Option<&Exponents> {
        Some(&self.exponents)
    }

    #[inline(always)]
    fn quad(&self, s: Dot, quad: usize) -> Quad {
        let codes = intrinsic!(_mm_loadu_si128(self.quads[quad].as_ptr().cast()));
        let codes = intrinsic!(_mm512_castsi128_si512(codes));
        let words = intrinsic!(_mm512_permutexvar_epi8(s.load(&BFP2_ORDER), codes));
        s.look_up(words, &BFP2_SHIFTS, &BFP2_WORDS)
    }
}

impl Tile for Bf16Tile {
    #[inline(always)]
    fn exponents(&self) -> Option<&Exponents> {
        None
    }

    #[inline(always)]
    fn quad(&self, s: Dot, quad: usize) -> Quad {
        let order = s.load_words(&BF16_ORDER);
        let least = intrinsic!(_mm512_set1_epi16(i16::from(WEIGHT_EXPONENT_MIN) << 7));
        self.quads[quad].each_ref().map(
            #[inline(always)]
            |rows| {
                let pairs = intrinsic!(_mm512_permutexvar_epi16(order, s.load(rows)));
                let magnitudes = intrinsic!(_mm512_and_si512(pairs, _mm512_set1_epi16(i16::MAX)));
                let seen = intrinsic!(_mm512_cmpge_epi16_mask(magnitudes, least));
                intrinsic!(_mm512_maskz_mov_epi16(seen, pairs))
            },
        )
    }
}

impl Dot {
    /// The table's words at the low five bits of each word, shifted as wide as each word says: the
    /// codes of the first pair of rows in the low byte, of the second in the high byte.
    #[inline(always)]
    fn look_up(self, words: __m512i, shifts: &[u16; 32], table: &[u16; 32]) -> Quad {
        let table = self.load_words(table);
        let shifts = self.load_words(shifts);
        let first = intrinsic!(_mm512_srlv_epi16(words, shifts));
        let shifts = intrinsic!(_mm512_add_epi16(shifts, _mm512_set1_epi16(8)));
        let second = intrinsic!(_mm512_srlv_epi16(words, shifts));
        [
            intrinsic!(_mm512_permutexvar_epi16(first, table)),
            intrinsic!(_mm512_permutexvar_epi16(second, table)),
        ]
    }

    #[inline(always)]
    pub(super) fn load(self, x: &[u8; 64]) -> __m512i {
        intrinsic!(_mm512_loadu_si512(x.as_ptr().cast()))
    }

    #[inline(always)]
    pub(super) fn load_words(self, x: &[u16; 32]) -> __m512i {
        intrinsic!(_mm512_loadu_si512(x.as_ptr().cast()))
    }
}

/// `a | (b & c)` as a truth table.
pub(super) const OR_AND: i32 = 0xf8;

/// Bytes of a quad such that unpacking bytes gives words in pairs: lane `l` of 128 bits holds outputs
/// 4l to 4l+3, the first pair of rows in its low half.
const BFP8_ORDER: [u8; 64] = {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (lane, pair, output, odd) = (i / 16, i / 8 % 2, i / 2 % 4, i % 2);
        order[i] = byte((2 * pair + odd) * 16 + 4 * lane + output);
        i += 1;
    }
    order
};

/// For each word (output, odd) the bytes of its row in both pairs, `row_bytes` a row.
const fn word_order(row_bytes: usize) -> [u8; 64] {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (output, odd, pair) = (i / 4, i / 2 % 2, i % 2);
        order[i] = byte((2 * pair + odd) * row_bytes + output * row_bytes / 16);
        i += 1;
    }
    order
}

const BFP4_ORDER: [u8; 64] = word_order(8);
const BFP2_ORDER: [u8; 64] = word_order(4);

/// Where the code of each word's output lies in its byte, `bits` a code.
const fn word_shifts(bits: u16) -> [u16; 32] {
    let mut shifts = [0; 32];
    let mut output = 0;
    while output < 16 {
        let shift = output * bits % 8;
        shifts[2 * output as usize] = shift;
        shifts[2 * output as usize + 1] = shift;
        output += 1;
    }
    shifts
}

const BFP4_SHIFTS: [u16; 32] = word_shifts(4);
const BFP2_SHIFTS: [u16; 32] = word_shifts(2);

/// Rows of 16 words to pairs.
const BF16_ORDER: [u16; 32] = {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i as usize] = i % 2 * 16 + i / 2;
        i += 1;
    }
    order
};

/// bf16 bits of `(-1)^s q 2^(7 - bits)` for a code of `bits` bits of magnitude, whatever lies above it.
const fn code_words(bits: u32) -> [u16; 32] {
    let mut words = [0; 32];
    let mut i = 0;
    while i < 32 {
        let (sign, q) = (i >> bits & 1, i & ((1 << bits) - 1));
        words[i as usize] = bf16_of(q << (7 - bits)) | if sign == 0 { 0 } else { 0x8000 };
        i += 1;
    }
    words
}

const BFP4_WORDS: [u16; 32] = code_words(3);
const BFP2_WORDS: [u16; 32] = code_words(1);

/// Low and high bytes of the bf16 of magnitudes below 64.
const BFP8_LOW: [u8; 64] = code_bytes(0);
const BFP8_HIGH: [u8; 64] = code_bytes(1);

const fn code_bytes(at: usize) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut q = 0;
    while q < 64 {
        bytes[q as usize] = bf16_of(q).to_le_bytes()[at];
        q += 1;
    }
    bytes
}

/// bf16 bits of a number below 128, which is exact.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an exponent field and seven bits below it"
)]
const fn bf16_of(q: u32) -> u16 {
    if q == 0 {
        return 0;
    }
    let exponent = q.ilog2();
    (((127 + exponent) << 7) | (((q << 7) >> exponent) & 0x7f)) as u16
}

const fn byte(i: usize) -> u8 {
    assert!(i < 256);
    i.to_le_bytes()[0]
}
