//! 32x32 tiles as they lie in a file.

use bytemuck::{Pod, Zeroable};

use super::{LANES, Simd};

/// How far ahead, in bytes, codes are asked for into the first and into the second-level cache. Both
/// together read 1.4 times what either reads alone: see `kernels/linear.md`.
const NEAR: usize = 1024;
const FAR: usize = 4096;

/// Rows of the four faces of a tile, and so of signed bytes that block codes are spread to.
pub(super) const FACE_ROWS: usize = 64;

/// Signed bytes in the first-level cache, one for each weight of a tile.
pub(super) type Spread = [[i8; LANES]; FACE_ROWS];

/// A tile of one format: four faces (top left, top right, bottom left, bottom right) of sixteen rows
/// of sixteen weights.
pub(super) trait Tile: Pod {
    /// Whether weights share exponents.
    const BLOCK: bool;

    /// Units of the face rows of a face, one where there are no shared exponents: see [`Simd::units`].
    fn units<S: Simd>(&self, s: S, face: usize) -> S::V;

    /// Spreads the codes of a block format to signed bytes; nothing to do for others.
    fn spread<S: Simd>(&self, s: S, to: &mut Spread);

    /// Weights of face row `row` in their units; a block format's come from what it was spread to.
    fn row<S: Simd>(&self, s: S, spread: &Spread, row: usize) -> S::V;
}

macro_rules! block_tile {
    ($name:ident, $code_bytes:literal, $rows_at_once:literal, $spread:ident) => {
        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            exponents: [[u8; LANES]; 4],
            codes: [[u8; 64]; $code_bytes / 64],
        }

        impl Tile for $name {
            const BLOCK: bool = true;

            #[inline(always)]
            fn units<S: Simd>(&self, s: S, face: usize) -> S::V {
                s.units(&self.exponents[face])
            }

            #[inline(always)]
            fn spread<S: Simd>(&self, s: S, to: &mut Spread) {
                for (codes, to) in self.codes.iter().zip(to.as_chunks_mut::<$rows_at_once>().0) {
                    s.ask_near(codes, NEAR);
                    s.ask_far(codes, FAR);
                    s.$spread(codes, to);
                }
            }

            #[inline(always)]
            fn row<S: Simd>(&self, s: S, spread: &Spread, row: usize) -> S::V {
                s.bytes(&spread[row])
            }
        }
    };
}

macro_rules! plain_tile {
    ($name:ident, $bytes:literal, $weights:ident) => {
        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        pub(super) struct $name {
            rows: [[u8; $bytes]; FACE_ROWS],
        }

        impl Tile for $name {
            const BLOCK: bool = false;

            #[inline(always)]
            fn units<S: Simd>(&self, s: S, _: usize) -> S::V {
                s.splat(1.0)
            }

            #[inline(always)]
            fn spread<S: Simd>(&self, _: S, _: &mut Spread) {}

            #[inline(always)]
            fn row<S: Simd>(&self, s: S, _: &Spread, row: usize) -> S::V {
                s.$weights(&self.rows[row])
            }
        }
    };
}

block_tile!(Bfp8Tile, 1024, 4, spread_bfp8);
block_tile!(Bfp4Tile, 512, 8, spread_bfp4);
block_tile!(Bfp2Tile, 256, 16, spread_bfp2);
plain_tile!(Bf16Tile, 32, bf16_weights);
plain_tile!(F32Tile, 64, f32_weights);
