//! How the device makes bytes of numbers, and numbers of bytes.
//!
//! The rule has a name wherever bytes are made: the **device's** packer truncates f32 to bf16,
//! rounds that to BFP8 with ties away from zero, and truncates that to BFP4 and BFP2. The **host's**
//! encoder (`bfp-format`) rounds f32 once, ties to even. Bytes of the two differ; files carry the
//! host's.
//!
//! Source: tenstorrent/tt-isa-documentation
//! `WormholeB0/TensixTile/TensixCoprocessor/{Packers/FormatConversion,FloatBitPatterns}.md`,
//! conversions without stochastic rounding. A packer that is set to hand BFP8 its destination
//! through the 6-bit intermediate type rounds once more; that is not modelled.

use bfp_format::BlockFormat;

/// Consecutive elements that share one exponent byte.
pub const BLOCK_GROUP: usize = 16;

/// What a matmul's activations are stored as on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActivationFormat {
    /// bf16, by [`truncate_to_bf16`].
    Bf16,
    /// BFP8 along k, by [`pack_group`].
    Bfp8,
}

impl ActivationFormat {
    /// Both formats.
    pub const ALL: [Self; 2] = [Self::Bf16, Self::Bfp8];

    /// The name that settings and proofs carry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Bfp8 => "bfp8",
        }
    }

    /// The values that `row` has once the device has stored it, to `out`.
    ///
    /// A group is 16 consecutive elements from the row's start, the last one padded with zeros.
    ///
    /// # Panics
    /// When `out` is not as long as `row`.
    pub fn pack_row(self, row: &[f32], out: &mut [f32]) {
        assert_eq!(row.len(), out.len(), "a packed row is as long as the row");
        match self {
            Self::Bf16 => out.iter_mut().zip(row).for_each(|(out, &x)| *out = truncate_to_bf16(x)),
            Self::Bfp8 => {
                for (out, row) in out.chunks_mut(BLOCK_GROUP).zip(row.chunks(BLOCK_GROUP)) {
                    let mut group = [0.0; BLOCK_GROUP];
                    group[..row.len()].copy_from_slice(row);
                    let (exponent, codes) = pack_group(&group, BlockFormat::Bfp8);
                    for (out, code) in out.iter_mut().zip(codes) {
                        *out = unpack(BlockFormat::Bfp8, exponent, code);
                    }
                }
            }
        }
    }
}

/// bf16 by dropping the low 16 bits; subnormals become +0. The late conversion of the packer.
///
/// A NaN whose payload lies in the dropped bits becomes infinity.
#[must_use]
pub fn truncate_to_bf16(x: f32) -> f32 {
    f32::from_bits(flushed(x.to_bits() & 0xffff_0000))
}

/// bf16 by rounding to nearest, ties away from zero: the early conversion, from a destination
/// register. Subnormals and -0 become +0, NaN becomes infinity.
#[must_use]
pub fn round_to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    if x.is_nan() {
        return f32::from_bits(bits & 0x8000_0000 | 0x7f80_0000);
    }
    // The carry of the largest finite numbers ends in infinity, never in the sign.
    f32::from_bits(flushed((bits + 0x8000) & 0xffff_0000))
}

fn flushed(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { 0 } else { bits }
}

/// Sixteen numbers as the packer stores them: the exponent byte and the codes, a sign above
/// [`BlockFormat`]'s magnitude bits each.
///
/// Truncates to bf16, takes the largest exponent field (255 is an exponent like any other), rounds to 7 bits with
/// ties away from zero, saturates at 127, and for BFP4 and BFP2 drops the low bits. A code of magnitude 0 has
/// no sign: the device reads that code as minus infinity.
#[must_use]
pub fn pack_group(group: &[f32; BLOCK_GROUP], format: BlockFormat) -> (u8, [u8; BLOCK_GROUP]) {
    let halves = group.map(|x| truncate_to_bf16(x).to_bits() >> 16);
    let field = |half: u32| (half >> 7) & 0xff;
    let exponent = halves.map(field).into_iter().max().unwrap_or(0);
    let codes = halves.map(|half| {
        let distance = exponent - field(half);
        if field(half) == 0 || distance >= 8 {
            return 0;
        }
        let mantissa = half & 0x7f | 0x80;
        let rounded = ((mantissa + (1 << distance)) >> (distance + 1)).min(0x7f);
        let magnitude = rounded >> (7 - magnitude_bits(format));
        let sign = if magnitude == 0 { 0 } else { half >> 15 };
        low_byte(sign << magnitude_bits(format) | magnitude)
    });
    (low_byte(exponent), codes)
}

/// The bf16 number that the unpacker makes of a code and its group's exponent.
///
/// On bytes that an encoder made this is the value that `bfp-format` decodes. It differs on foreign
/// bytes: a sign without magnitude is minus infinity (2^128 to the matrix unit), and an exponent
/// too small for its code wraps to a large one.
#[must_use]
pub fn unpack(format: BlockFormat, exponent: u8, code: u8) -> f32 {
    f32::from_bits(u32::from(unpack_bf16(format, exponent, code)) << 16)
}

#[inline(always)]
pub(super) fn unpack_bf16(format: BlockFormat, exponent: u8, code: u8) -> u16 {
    let bits = magnitude_bits(format);
    let magnitude = code & low_byte((1 << bits) - 1);
    let sign = u32::from((code >> bits) & 1) << 15;
    // The conversion to f32 is exact and normalises; its exponent field is 127 + the leading bit's place.
    let normal = f32::from(magnitude).to_bits() >> 16;
    let scale = u32::from(exponent).wrapping_sub(127 + bits - 1) << 7;
    let value = if magnitude == 0 {
        if sign == 0 { 0 } else { 0x7f80 }
    } else {
        normal.wrapping_add(scale) & 0x7fff
    };
    low_half(sign | value)
}

const fn magnitude_bits(format: BlockFormat) -> u32 {
    match format {
        BlockFormat::Bfp8 => 7,
        BlockFormat::Bfp4 => 3,
        BlockFormat::Bfp2 => 1,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "every caller has masked to 8 bits")]
const fn low_byte(x: u32) -> u8 {
    x as u8
}

#[expect(clippy::cast_possible_truncation, reason = "every caller has masked to 16 bits")]
const fn low_half(x: u32) -> u16 {
    x as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(values: &[f32]) -> [f32; BLOCK_GROUP] {
        let mut group = [0.0; BLOCK_GROUP];
        group[..values.len()].copy_from_slice(values);
        group
    }

    #[test]
    fn bf16_is_truncated_on_the_way_in_and_rounded_on_the_way_out() {
        let above = f32::from_bits(0x3f80_ffff);
        assert_eq!(truncate_to_bf16(above), 1.0);
        assert_eq!(round_to_bf16(above), f32::from_bits(0x3f81_0000));
        for sign in [1.0, -1.0] {
            assert_eq!(round_to_bf16(sign * f32::from_bits(0x3f80_8000)), sign * f32::from_bits(0x3f81_0000));
            assert_eq!(round_to_bf16(sign * f32::from_bits(0x3f80_7fff)), sign);
            assert_eq!(round_to_bf16(sign * f32::MAX), sign * f32::INFINITY);
            assert_eq!(round_to_bf16(sign * f32::INFINITY), sign * f32::INFINITY);
            assert_eq!(truncate_to_bf16(sign * 1e-39).to_bits(), 0);
            assert_eq!(round_to_bf16(sign * 1e-39).to_bits(), 0);
        }
        assert_eq!(round_to_bf16(f32::NAN), f32::INFINITY);
        assert_eq!(truncate_to_bf16(f32::from_bits(0x7f80_0001)), f32::INFINITY);
    }

    #[test]
    fn bfp8_ties_go_away_from_zero_and_saturate() {
        // Beside 1.0 the unit is 2^-6: 2.5 units go to 3 with either sign, where ties to even give 2.
        let unit = 2.0f32.powi(-6);
        let (exponent, codes) = pack_group(&group(&[1.0, 2.5 * unit, -2.5 * unit, 2.25 * unit]), BlockFormat::Bfp8);
        assert_eq!(exponent, 127);
        assert_eq!(codes[..4], [64, 3, 0x83, 2]);
        let (exponent, codes) = pack_group(&group(&[1.9921875, -1.9921875]), BlockFormat::Bfp8);
        assert_eq!((exponent, codes[0], codes[1]), (127, 127, 0xff));
    }

    #[test]
    fn what_rounds_to_nothing_keeps_no_sign() {
        let unit = 2.0f32.powi(-6);
        let (_, codes) = pack_group(&group(&[1.0, -0.25 * unit, -0.5 * unit, -1e-20]), BlockFormat::Bfp8);
        assert_eq!(codes[..4], [64, 0, 0x81, 0]);
        let (_, codes) = pack_group(&group(&[1.0, -15.0 * unit, -16.0 * unit]), BlockFormat::Bfp4);
        assert_eq!(codes[..3], [4, 0, 0b1001]);
        let (_, codes) = pack_group(&group(&[1.0, -0.75, -1.5]), BlockFormat::Bfp2);
        assert_eq!(codes[..3], [1, 0, 0b11]);
    }

    #[test]
    fn bfp4_is_bfp8_cut_short() {
        // 15.5 units of BFP8 round up to 16, which is the first that BFP4 keeps a bit of.
        let unit = 2.0f32.powi(-6);
        let (_, codes) = pack_group(&group(&[1.0, 15.5 * unit, 15.25 * unit]), BlockFormat::Bfp4);
        assert_eq!(codes[..3], [4, 1, 0]);
    }

    #[test]
    fn every_code_of_a_normal_exponent_is_its_plain_value() {
        for (format, bits) in [(BlockFormat::Bfp8, 7), (BlockFormat::Bfp4, 3), (BlockFormat::Bfp2, 1)] {
            for exponent in [7u8, 100, 127, 254] {
                for code in 0..=u8::MAX >> (7 - bits) {
                    let magnitude = code & ((1 << bits) - 1);
                    let negative = code >> bits != 0;
                    if magnitude == 0 && negative {
                        assert_eq!(unpack(format, exponent, code), f32::NEG_INFINITY);
                        continue;
                    }
                    let unit = 2.0f64.powi(i32::from(exponent) - 127 - (bits - 1));
                    let value = f64::from(magnitude) * unit * if negative { -1.0 } else { 1.0 };
                    assert_eq!(f64::from(unpack(format, exponent, code)), value);
                }
            }
        }
    }

    #[test]
    fn an_exponent_too_small_for_its_code_wraps() {
        assert_eq!(unpack_bf16(BlockFormat::Bfp8, 0, 1), 0x7d00);
        assert_eq!(unpack_bf16(BlockFormat::Bfp8, 0, 0x81), 0xfd00);
        assert_eq!(unpack_bf16(BlockFormat::Bfp8, 6, 1), 0);
    }

    #[test]
    fn a_packed_row_packs_to_itself() {
        let row: Vec<f32> = (0..40u8).map(|i| (f32::from(i) - 17.3) * 0.37).collect();
        for format in ActivationFormat::ALL {
            let mut once = vec![0.0; row.len()];
            format.pack_row(&row, &mut once);
            let mut twice = vec![0.0; row.len()];
            format.pack_row(&once, &mut twice);
            assert_eq!(once, twice);
            assert_ne!(once, row);
        }
    }
}
