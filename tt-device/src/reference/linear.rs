//! `y = x W`, the one operation that carries nearly all the work.

use bfp_format::BlockFormat;
use half::bf16;

use crate::numerics::{bf16_weight, weight_exponent};
use crate::weight::{FACE, MatrixShape, TILE, WeightFormat};

/// Bytes of the exponent section of a 32x32 block tile: one for each of 64 face rows.
pub(crate) const TILE_EXPONENTS: usize = 64;

/// One row: `out[n]` from `x[k]`, for the tile columns that `out` starts at.
///
/// `x` is already rounded ([`crate::Contract::activation`]) and padded with zeros to a whole number of
/// tiles. `tiles` are the bytes of the whole matrix. Each output is one f32 accumulator from 0:
///
/// ```text
/// for i ascending: acc = fma(x[2i+1], w[2i+1], acc); acc = fma(x[2i], w[2i], acc)
/// ```
///
/// which is the order of one lane of `vdpbf16ps`.
///
/// # Panics
/// When `x` or `tiles` is shorter than the shape says.
pub fn linear_columns(
    x: &[f32],
    tiles: &[u8],
    shape: MatrixShape,
    format: WeightFormat,
    first_tile_column: usize,
    out: &mut [f32],
) {
    let columns = shape.tile_columns();
    let bytes = format.tile_bytes();
    for (block, out) in out.chunks_mut(TILE).enumerate() {
        let mut acc = [0.0f32; TILE];
        for tile_row in 0..shape.tile_rows() {
            let tile = &tiles[(tile_row * columns + first_tile_column + block) * bytes..][..bytes];
            for pair in 0..TILE / 2 {
                for k in [2 * pair + 1, 2 * pair] {
                    let x = x[tile_row * TILE + k];
                    for side in 0..2 {
                        let w = face_row(tile, format, k, side);
                        for (acc, w) in acc[side * FACE..].iter_mut().zip(w) {
                            *acc = x.mul_add(w, *acc);
                        }
                    }
                }
            }
        }
        out.copy_from_slice(&acc[..out.len()]);
    }
}

/// Row `k` (0..32) of the left (`side` 0) or right face of a tile: 16 weights as a linear sees them.
///
/// Block formats: `(-1)^s q 2^(E - 127 - (W - 1))` with the shared exponent bounded as
/// [`weight_exponent`] says. bf16: [`bf16_weight`]. f32: as stored.
///
/// # Panics
/// When `tile` is shorter than a tile of `format`, or `k` or `side` is out of range.
#[must_use]
pub fn face_row(tile: &[u8], format: WeightFormat, k: usize, side: usize) -> [f32; FACE] {
    let row = (k / FACE * 2 + side) * FACE + k % FACE;
    match format {
        WeightFormat::Block(block) => block_row(tile, block, row),
        WeightFormat::Bf16 => std::array::from_fn(|i| {
            let at = (row * FACE + i) * 2;
            bf16_weight(bf16::from_le_bytes([tile[at], tile[at + 1]]))
        }),
        WeightFormat::F32 => std::array::from_fn(|i| {
            let at = (row * FACE + i) * 4;
            f32::from_le_bytes([tile[at], tile[at + 1], tile[at + 2], tile[at + 3]])
        }),
    }
}

fn block_row(tile: &[u8], block: BlockFormat, row: usize) -> [f32; FACE] {
    let Some(exponent) = weight_exponent(tile[row]) else {
        return [0.0; FACE];
    };
    let codes = &tile[TILE_EXPONENTS..];
    let (bits, magnitude) = match block {
        BlockFormat::Bfp8 => (8, 7),
        BlockFormat::Bfp4 => (4, 3),
        BlockFormat::Bfp2 => (2, 1),
    };
    // E - 127 - (W - 1) is at least 55 - 133, so the unit is a normal number.
    let unit = f32::from_bits((u32::from(exponent) + 1 - magnitude) << 23);
    std::array::from_fn(|i| {
        let at = (row * FACE + i) * bits;
        let code = (codes[at / 8] >> (at % 8)) & (0xff >> (8 - bits));
        let q = f32::from(code & ((1 << magnitude) - 1)) * unit;
        if code >> magnitude == 0 { q } else { -q }
    })
}
