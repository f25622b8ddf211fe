//! The codec, one group at a time, in plain scalar code: the definition that every fast path must equal.
//!
//! Encoding one group, on the bits (sign, exponent field e, fraction) of its 16 numbers:
//!
//! 1. `E` is the largest `e`; 255 (infinity, NaN) is an exponent like any other.
//! 2. A number with `e = 0` (zero, denormal) is code 0.
//! 3. The 24-bit significand, leading one included, is shifted right by `E - e`. The bits that fall off are
//!    forgotten before rounding: there is no sticky bit.
//! 4. It is rounded to the format's magnitude bits by the [`Rounding`], then limited to the largest magnitude:
//!    a carry saturates, `E` is never raised.
//! 5. Magnitude 0 has no sign.
//!
//! Sources: ttnn 0.81.1's `bfp_utils.pack_bfp{8,4,2}` (measured; `tt_metal/impl/data_format/` in
//! tenstorrent/tt-metal) for the host's rule and for decoding, tt-isa-documentation for the device's rule.

use crate::{BlockFormat, GROUP, Rounding};

/// The shared exponent of a group and the code of each element, in the low bits of a byte.
#[must_use]
pub fn encode_group(
    group: &[f32; GROUP],
    format: BlockFormat,
    rounding: Rounding,
) -> (u8, [u8; GROUP]) {
    let exponent = group
        .iter()
        .map(|x| exponent_field(x.to_bits()))
        .max()
        .unwrap_or(0);
    let codes = group.map(|x| encode_value(x.to_bits(), exponent, format, rounding));
    (low_byte(exponent), codes)
}

fn encode_value(bits: u32, exponent: u32, format: BlockFormat, rounding: Rounding) -> u8 {
    let own = exponent_field(bits);
    if own == 0 {
        return 0;
    }
    let significand = bits & 0x007f_ffff | 0x0080_0000;
    let shifted = |significand: u32| significand.checked_shr(exponent - own).unwrap_or(0);
    let width = format.magnitude_bits();
    let magnitude = match rounding {
        Rounding::HostNearestEven => {
            let aligned = shifted(significand);
            let cut = 24 - width;
            let (kept, rest, half) = (aligned >> cut, aligned & ((1 << cut) - 1), 1 << (cut - 1));
            let up = rest > half || (rest == half && kept & 1 == 1);
            (kept + u32::from(up)).min(u32::from(format.max_magnitude()))
        }
        Rounding::DeviceNearestAway => {
            // Truncated to bf16's 8 significant bits, which leaves the exponent field as it is.
            let aligned = shifted(significand & 0x00ff_0000);
            let bfp8 = ((aligned + (1 << 16)) >> 17).min(127);
            bfp8 >> (7 - width)
        }
    };
    let sign = if magnitude == 0 { 0 } else { bits >> 31 };
    low_byte(sign << width | magnitude)
}

/// The number that `code` stands for in a group with the shared exponent `exponent`. Bits of `code` above the
/// format's are ignored.
///
/// The result fits bf16 exactly. Codes that an encoder writes decode to zeros, normal numbers, or (with exponent
/// 255) infinities and NaNs. Foreign codes follow ttnn: a sign without magnitude is -0.0; a leading one that lies
/// below the smallest normal exponent by one place loses its leading bit, by more gives +0.0.
#[must_use]
pub fn decode_value(format: BlockFormat, exponent: u8, code: u8) -> f32 {
    let width = format.magnitude_bits();
    let magnitude = u32::from(code & format.max_magnitude());
    let sign = u32::from(code >> width & 1) << 31;
    if magnitude == 0 {
        return f32::from_bits(sign);
    }
    let missing = magnitude.leading_zeros() - (32 - width);
    let Some(own) = u32::from(exponent).checked_sub(missing) else {
        return 0.0;
    };
    let fraction = magnitude << (missing + 1) & u32::from(format.max_magnitude());
    f32::from_bits(sign | own << 23 | fraction << (23 - width))
}

/// Packs the codes of one group to bytes, earlier elements in lower bits, into the first
/// [`group_code_bytes`](BlockFormat::group_code_bytes) of `packed`.
///
/// # Panics
/// When `packed` is shorter than that.
pub fn pack_codes(format: BlockFormat, codes: &[u8; GROUP], packed: &mut [u8]) {
    let bits = format.bits() as usize;
    for (byte, codes) in packed[..format.group_code_bytes()]
        .iter_mut()
        .zip(codes.chunks(8 / bits))
    {
        *byte = codes
            .iter()
            .rev()
            .fold(0, |byte, code| byte.unbounded_shl(format.bits()) | code);
    }
}

/// The codes of one group, from the first [`group_code_bytes`](BlockFormat::group_code_bytes) of `packed`.
///
/// # Panics
/// When `packed` is shorter than that.
#[must_use]
pub fn unpack_codes(format: BlockFormat, packed: &[u8]) -> [u8; GROUP] {
    let packed = &packed[..format.group_code_bytes()];
    let bits = format.bits() as usize;
    std::array::from_fn(|i| (packed[i * bits / 8] >> (i * bits % 8)) & (u8::MAX >> (8 - bits)))
}

fn exponent_field(bits: u32) -> u32 {
    bits >> 23 & 0xff
}

#[expect(clippy::cast_possible_truncation, reason = "both callers pass 8 bits")]
const fn low_byte(bits: u32) -> u8 {
    bits as u8
}
