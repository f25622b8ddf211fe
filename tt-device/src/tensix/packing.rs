//! How the device makes bytes of numbers, and numbers of bytes.
//!
//! The rule has a name wherever bytes are made: the **device's** packer ([`Rounding::DeviceNearestAway`])
//! truncates f32 to bf16, rounds that to BFP8 with ties away from zero, and truncates that to BFP4 and BFP2.
//! The **host's** encoder ([`Rounding::HostNearestEven`]) rounds f32 once, ties to even. Bytes of the two
//! differ; the weights in files are the host's, activations here are the device's.
//!
//! Source: tenstorrent/tt-isa-documentation
//! `WormholeB0/TensixTile/TensixCoprocessor/{Packers/FormatConversion,FloatBitPatterns}.md`,
//! conversions without stochastic rounding. A packer that is set to hand BFP8 its destination
//! through the 6-bit intermediate type rounds once more; that is not modelled.

use bfp_format::definition::encode_group;
use bfp_format::{BlockFormat, GROUP, Rounding};

/// What a matmul's activations are stored as on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActivationFormat {
    /// bf16, by [`truncate_to_bf16`].
    Bf16,
    /// BFP8 along k, by [`Rounding::DeviceNearestAway`].
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
            Self::Bf16 => out
                .iter_mut()
                .zip(row)
                .for_each(|(out, &x)| *out = truncate_to_bf16(x)),
            Self::Bfp8 => {
                for (out, row) in out.chunks_mut(GROUP).zip(row.chunks(GROUP)) {
                    let mut group = [0.0; GROUP];
                    group[..row.len()].copy_from_slice(row);
                    let (exponent, codes) =
                        encode_group(&group, BlockFormat::Bfp8, Rounding::DeviceNearestAway);
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

/// The bf16 number that the unpacker makes of a code and its group's exponent.
///
/// On bytes that an encoder made this is the value of [`bfp_format::definition::decode_value`]. It differs on
/// foreign bytes: a sign without magnitude is minus infinity (2^128 to the matrix unit), and an exponent
/// too small for its code wraps to a large one.
#[must_use]
pub fn unpack(format: BlockFormat, exponent: u8, code: u8) -> f32 {
    f32::from_bits(u32::from(unpack_bf16(format, exponent, code)) << 16)
}

#[inline(always)]
pub(super) fn unpack_bf16(format: BlockFormat, exponent: u8, code: u8) -> u16 {
    let bits = format.magnitude_bits();
    let magnitude = code & format.max_magnitude();
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

#[expect(
    clippy::cast_possible_truncation,
    reason = "every caller has masked to 16 bits"
)]
const fn low_half(x: u32) -> u16 {
    x as u16
}

#[cfg(test)]
mod tests {
    use bfp_format::definition::decode_value;

    use super::*;

    #[test]
    fn bf16_is_truncated_on_the_way_in_and_rounded_on_the_way_out() {
        let above = f32::from_bits(0x3f80_ffff);
        assert_eq!(truncate_to_bf16(above), 1.0);
        assert_eq!(round_to_bf16(above), f32::from_bits(0x3f81_0000));
        for sign in [1.0, -1.0] {
            assert_eq!(
                round_to_bf16(sign * f32::from_bits(0x3f80_8000)),
                sign * f32::from_bits(0x3f81_0000)
            );
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
    fn bfp8_activations_round_by_the_devices_rule() {
        // Beside 1.0 the unit is 2^-6: 2.5 units go to 3 with either sign, where ties to even give 2. The
        // low half of an f32 is dropped first, so 2.5 and a little less is 2.
        let unit = 2.0f32.powi(-6);
        let row = [
            1.0,
            2.5 * unit,
            -2.5 * unit,
            f32::from_bits((2.5 * unit).to_bits() - 1),
            -0.25 * unit,
        ];
        let mut out = [f32::NAN; 5];
        ActivationFormat::Bfp8.pack_row(&row, &mut out);
        assert_eq!(
            out.map(f32::to_bits),
            [1.0, 3.0 * unit, -3.0 * unit, 2.0 * unit, 0.0].map(f32::to_bits)
        );
    }

    #[test]
    fn a_group_of_activations_is_16_of_k() {
        let mut row = [1.0; 20];
        row[3] = 2.0f32.powi(20);
        let mut out = [f32::NAN; 20];
        ActivationFormat::Bfp8.pack_row(&row, &mut out);
        assert_eq!((out[0], out[15], out[16], out[19]), (0.0, 0.0, 1.0, 1.0));
        assert_eq!(out[3], row[3]);
    }

    #[test]
    fn codes_of_an_encoder_are_what_the_host_decodes() {
        for format in BlockFormat::ALL {
            for exponent in 7..=254 {
                for code in 0..=u8::MAX >> (8 - format.bits()) {
                    if code & format.max_magnitude() != 0 || code == 0 {
                        assert_eq!(
                            unpack(format, exponent, code),
                            decode_value(format, exponent, code)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_sign_without_magnitude_is_minus_infinity() {
        for format in BlockFormat::ALL {
            let code = format.max_magnitude() + 1;
            assert_eq!(unpack(format, 127, code), f32::NEG_INFINITY);
            assert_eq!(
                decode_value(format, 127, code).to_bits(),
                (-0.0f32).to_bits()
            );
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
