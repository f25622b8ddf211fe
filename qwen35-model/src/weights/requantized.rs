//! A source whose matrices are rounded to a block format when they are loaded.

use bfp_format::{BlockFormat, GROUP, Rounding, TileShape};
use bytes::Bytes;
use half::bf16;
use rayon::prelude::*;
use tt_device::{MatrixShape, WeightFormat, WeightView};

use super::TensorSource;
use crate::ModelError;

/// Wraps a source; its bf16 and f32 matrices come out in `format`, tables and vectors unchanged.
#[derive(Debug)]
pub struct Requantized<'a> {
    source: &'a dyn TensorSource,
    format: BlockFormat,
}

impl<'a> Requantized<'a> {
    /// Rounds by [`Rounding::HostNearestEven`].
    #[must_use]
    pub const fn new(source: &'a dyn TensorSource, format: BlockFormat) -> Self {
        Self { source, format }
    }
}

impl TensorSource for Requantized<'_> {
    fn origin(&self) -> String {
        self.source.origin()
    }

    fn contains(&self, name: &str) -> bool {
        self.source.contains(name)
    }

    fn norm_offset(&self) -> f32 {
        self.source.norm_offset()
    }

    fn matrix(&self, name: &str, shape: MatrixShape) -> Result<WeightView, ModelError> {
        let stored = self.source.matrix(name, shape)?;
        let tiles = match stored.format() {
            WeightFormat::Bf16 => blocks::<2>(stored.bytes(), self.format, |b| {
                bf16::from_le_bytes([b[0], b[1]]).to_f32()
            }),
            WeightFormat::F32 => blocks::<4>(stored.bytes(), self.format, |b| {
                f32::from_le_bytes([b[0], b[1], b[2], b[3]])
            }),
            // Already a block format: rounding it again would lose more and gain nothing.
            _ => return Ok(stored),
        };
        Ok(WeightView::tiles(
            shape,
            WeightFormat::Block(self.format),
            Bytes::from(tiles),
        )?)
    }

    fn table(&self, name: &str, rows: usize, width: usize) -> Result<WeightView, ModelError> {
        self.source.table(name, rows, width)
    }

    fn vector(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        self.source.vector(name, shape)
    }
}

/// Block tiles from tiles of `N`-byte elements: a face row of either is one group.
fn blocks<const N: usize>(
    tiles: &[u8],
    format: BlockFormat,
    widen: impl Fn(&[u8]) -> f32 + Sync,
) -> Vec<u8> {
    let elements = TileShape::T32.elements();
    let packed_bytes = format.tile_bytes(TileShape::T32);
    let mut packed = vec![0u8; tiles.len() / (elements * N) * packed_bytes];
    packed
        .par_chunks_exact_mut(packed_bytes)
        .zip(tiles.par_chunks_exact(elements * N))
        .for_each(|(packed, tile)| {
            let (exponents, codes) = packed.split_at_mut(elements / GROUP);
            let groups = exponents
                .iter_mut()
                .zip(codes.chunks_exact_mut(format.group_code_bytes()));
            for ((exponent, codes), group) in groups.zip(tile.chunks_exact(GROUP * N)) {
                let values: [f32; GROUP] = std::array::from_fn(|i| widen(&group[i * N..][..N]));
                let (shared, group) = bfp_format::definition::encode_group(
                    &values,
                    format,
                    Rounding::HostNearestEven,
                );
                *exponent = shared;
                codes.fill(0);
                let bits = format.bits() as usize;
                for (i, code) in group.iter().enumerate() {
                    codes[i * bits / 8] |= code << (i * bits % 8);
                }
            }
        });
    packed
}
