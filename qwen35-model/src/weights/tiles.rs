//! Row-major `[outputs, inputs]` elements, as a checkpoint has them, to `[inputs, outputs]` tiles.

use rayon::prelude::*;
use tt_device::MatrixShape;
use tt_device::weight::{FACE, TILE};

/// Transposes and tiles elements of `N` bytes: 32x32 tiles, row-major, each of four 16x16 faces, zero
/// padded. `elements` is `[shape.outputs, shape.inputs]`, row-major.
///
/// # Panics
/// When `elements` is not `outputs * inputs` elements long.
#[must_use]
pub fn transposed_tiles<const N: usize>(elements: &[u8], shape: MatrixShape) -> Vec<u8> {
    assert_eq!(
        elements.len(),
        shape.inputs * shape.outputs * N,
        "one element for each input and output"
    );
    let tile_bytes = TILE * TILE * N;
    let mut tiles = vec![0u8; shape.tile_rows() * shape.tile_columns() * tile_bytes];
    tiles
        .par_chunks_exact_mut(tile_bytes)
        .enumerate()
        .for_each(|(t, tile)| {
            let (first_input, first_output) = (
                t / shape.tile_columns() * TILE,
                t % shape.tile_columns() * TILE,
            );
            let inputs = TILE.min(shape.inputs - first_input);
            let outputs = TILE.min(shape.outputs - first_output);
            for output in 0..outputs {
                let row = &elements[((first_output + output) * shape.inputs + first_input) * N..]
                    [..inputs * N];
                for (input, element) in row.chunks_exact(N).enumerate() {
                    let face = input / FACE * 2 + output / FACE;
                    let at = (face * FACE * FACE + input % FACE * FACE + output % FACE) * N;
                    tile[at..at + N].copy_from_slice(element);
                }
            }
        });
    tiles
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test's numbers are small"
)]
mod tests {
    use super::*;

    #[test]
    fn an_element_lands_at_its_input_row_and_output_column() {
        let shape = MatrixShape {
            inputs: 40,
            outputs: 50,
        };
        let elements: Vec<u8> = (0..shape.outputs * shape.inputs)
            .flat_map(|i| (i as u16).to_le_bytes())
            .collect();
        let tiles = transposed_tiles::<2>(&elements, shape);
        assert_eq!(tiles.len(), 4 * 2048);
        let at = |input: usize, output: usize| {
            let tile = input / 32 * 2 + output / 32;
            let (i, o) = (input % 32, output % 32);
            let face = i / 16 * 2 + o / 16;
            let at = tile * 2048 + (face * 256 + i % 16 * 16 + o % 16) * 2;
            u16::from_le_bytes([tiles[at], tiles[at + 1]])
        };
        for input in 0..40 {
            for output in 0..50 {
                assert_eq!(at(input, output), (output * 40 + input) as u16);
            }
        }
        assert_eq!(at(41, 3), 0, "padding is zero");
    }
}
