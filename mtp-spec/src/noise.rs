use crate::TokenId;
use crate::math::ln;

/// The step of SplitMix64: 2^64 over the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64: a bijection of 64-bit words in which every input bit reaches every output bit.
///
/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), with the multipliers of its Java reference.
#[inline]
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Number `index` of the SplitMix64 sequence whose state starts at `origin`.
#[inline]
const fn number(origin: u64, index: u64) -> u64 {
    mix(origin.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// The start of the sequence that belongs to (seed, position): a number of the sequence of the hashed seed.
const fn origin(seed: u64, position: u64) -> u64 {
    number(mix(seed ^ GOLDEN), position)
}

/// 64 bits that are a function of (seed, position, index) alone.
pub(crate) const fn stream_bits(seed: u64, position: u64, index: u64) -> u64 {
    number(origin(seed, position), index)
}

/// The Gumbel noise of one absolute position: a number per token, a function of (seed, position, token) alone.
///
/// No state is advanced, so the target and any drafter see the same noise, in any order, on any machine. The token's 64 bits are
/// the token-th number of a SplitMix64 sequence that starts at a hash of (seed, position); the high 52 of them,
/// `k`, are the uniform number `u = (k + 1/2) / 2^52`, and the noise is `-ln(-ln u)`, between -3.61 and 36.74.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    origin: u64,
}

impl Noise {
    /// The noise for the token at `position` of a sequence sampled with `seed`.
    #[must_use]
    pub const fn at(seed: u64, position: usize) -> Self {
        Self {
            origin: origin(seed, position as u64),
        }
    }

    /// The token's noise.
    #[must_use]
    pub fn gumbel(self, token: TokenId) -> f64 {
        gumbel_of(self.bits(token))
    }

    /// The token's 64 bits, from which the noise is made.
    #[inline]
    pub(crate) const fn bits(self, token: TokenId) -> u64 {
        number(self.origin, token.0 as u64)
    }
}

/// The noise that `bits` stand for.
pub(crate) fn gumbel_of(bits: u64) -> f64 {
    // Both the sum and the scaling are exact: k + 1/2 has at most 53 significant bits.
    let uniform = ((bits >> 12) as f64 + 0.5) * (1.0 / (1_u64 << 52) as f64);
    -ln(-ln(uniform))
}

/// No less than the noise that `bits` stand for, without a logarithm.
///
/// -ln u >= 1 - u, so the noise is at most -ln(1 - u); and 1 - u >= 2^-(z + 1), where z counts the zeros that lead the
/// complement of `bits`.
#[inline]
pub(crate) fn gumbel_bound(bits: u64) -> f64 {
    // The slack covers the rounding of `gumbel_of`, whose error is below 1e-14.
    f64::from((!bits).leading_zeros() + 1) * std::f64::consts::LN_2 + 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> impl Iterator<Item = u64> {
        (0..300).flat_map(|position| {
            let noise = Noise::at(11, position);
            (0..1000).map(move |token| noise.bits(TokenId(token)))
        })
    }

    #[test]
    fn the_bound_is_never_below_the_noise() {
        let edges = [
            0,
            u64::MAX,
            u64::MAX - 1,
            1 << 12,
            u64::MAX << 12,
            u64::MAX << 11,
            1 << 63,
        ];
        for bits in samples().chain(edges) {
            assert!(gumbel_of(bits) <= gumbel_bound(bits), "{bits:#x}");
            assert!(gumbel_of(bits).is_finite());
        }
        assert!((gumbel_of(u64::MAX) - 36.7368).abs() < 1e-4);
        assert!((gumbel_of(0) + 3.6038).abs() < 1e-4, "{}", gumbel_of(0));
    }

    #[test]
    fn the_noise_has_the_moments_of_a_gumbel() {
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for noise in samples().map(gumbel_of) {
            sum += noise;
            squares += noise * noise;
            count += 1.0;
        }
        let mean: f64 = sum / count;
        let variance = squares / count - mean * mean;
        // Euler's constant and pi^2/6; six standard errors of 300,000 draws are 0.014 and 0.038.
        assert!((mean - 0.577_215_66).abs() < 0.014, "{mean}");
        assert!((variance - 1.644_934).abs() < 0.038, "{variance}");
    }

    #[test]
    fn the_noise_is_pinned() {
        // Sequence of SplitMix64 from state 0, as printed by its reference program.
        assert_eq!(
            [number(0, 0), number(0, 1), number(0, 2)],
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
        // The bits and, to the last bit or its neighbour, the noise were computed with integers and 200-bit arithmetic elsewhere.
        let golden = [
            (0, 0, 0, 0x2382_75bc_38fc_be91, 0xbfe5_c8c4_9649_6466),
            (1, 0, 0, 0xfc04_2709_5604_21da, 0x4010_9ed6_6640_d3ba),
            (1, 1, 0, 0x85d7_4c12_5558_4cab, 0x3fdb_b72b_ed53_3182),
            (1, 1, 1, 0x10cc_2a3d_ce92_bece, 0xbff0_0886_c2d0_0582),
            (
                u64::MAX,
                262_143,
                248_319,
                0xb225_0241_5077_0eac,
                0x3ff0_3b69_08da_7363_u64,
            ),
        ];
        for (seed, position, token, bits, gumbel) in golden {
            let noise = Noise::at(seed, position);
            assert_eq!(noise.bits(TokenId(token)), bits);
            assert_eq!(noise.gumbel(TokenId(token)).to_bits(), gumbel);
        }
    }
}
