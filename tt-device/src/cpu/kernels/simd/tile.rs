//! 32x32 tiles as they lie in a file.

use bytemuck::{Pod, Zeroable};

use super::{LANES, Simd};

/// A tile of one format: four faces (top left, top right, bottom left, bottom right) of sixteen rows
/// of sixteen weights.
pub(super) trait Tile: Pod {
    /// Whether weights share exponents.
    const BLOCK: bool;

    /// Units of the face rows of a face, one where there are no shared exponents: see [`Simd::units`].
    fn units<S: Simd>(&self, s: S, face: usize) -> S::V;

    /// Weights of face row `row` (0..64) in their units.
    fn row<S: Simd>(&self, s: S, row: usize) -> S::V;
}

macro_rules! block_tile {
    ($name:ident, $bytes:literal, $codes:ident) => {
        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            exponents: [[u8; LANES]; 4],
            codes: [[u8; $bytes]; 64],
        }

        impl Tile for $name {
            const BLOCK: bool = true;

            #[inline(always)]
            fn units<S: Simd>(&self, s: S, face: usize) -> S::V {
                s.units(&self.exponents[face])
            }

            #[inline(always)]
            fn row<S: Simd>(&self, s: S, row: usize) -> S::V {
                s.$codes(&self.codes[row])
            }
        }
    };
}

macro_rules! plain_tile {
    ($name:ident, $bytes:literal, $weights:ident) => {
        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            rows: [[u8; $bytes]; 64],
        }

        impl Tile for $name {
            const BLOCK: bool = false;

            #[inline(always)]
            fn units<S: Simd>(&self, s: S, _: usize) -> S::V {
                s.splat(1.0)
            }

            #[inline(always)]
            fn row<S: Simd>(&self, s: S, row: usize) -> S::V {
                s.$weights(&self.rows[row])
            }
        }
    };
}

block_tile!(Bfp8Tile, 16, bfp8_codes);
block_tile!(Bfp4Tile, 8, bfp4_codes);
block_tile!(Bfp2Tile, 4, bfp2_codes);
plain_tile!(Bf16Tile, 32, bf16_weights);
plain_tile!(F32Tile, 64, f32_weights);
