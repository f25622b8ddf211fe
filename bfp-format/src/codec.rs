//! Whole tensors to bytes and back.

use std::ops::Range;

use crate::arch::{self, Kernels};
use crate::face::{Face, packed_faces, packed_faces_mut};
use crate::strided::Strided;
use crate::{BlockFormat, FormatError, GROUP, Isa, Packing, Source, TileGrid, TileShape};

/// Packs and unpacks with the kernels of one instruction set. The bytes do not depend on which.
///
/// A linear layer's weight, `[outputs, inputs]`, packed as ttnn stores it and written band by band:
///
/// ```
/// use bfp_format::tensorbin::{DataType, Header, Layout};
/// use bfp_format::{BlockFormat, Codec, Packing, TileGrid, TileShape, first_non_finite};
///
/// let (outputs, inputs) = (96, 2000);
/// let weights = vec![0.25f32; outputs * inputs];
/// assert_eq!(first_non_finite(&weights), None);
///
/// let packing = Packing::new(BlockFormat::Bfp4);
/// let grid = TileGrid::new(&[inputs, outputs], packing.tile)?;
/// let tile_row = grid.tile_columns() * packing.format.tile_bytes(packing.tile);
/// let header = Header::new(DataType::BFloat4B, Layout::TILE, &[inputs, outputs])?;
/// let mut file = header.to_bytes()?;
/// for start in (0..grid.tile_rows()).step_by(32) {
///     let rows = start..(start + 32).min(grid.tile_rows());
///     let mut band = vec![0; rows.len() * tile_row];
///     Codec::default().pack_transposed_band(&weights, outputs, inputs, rows, packing, &mut band)?;
///     file.extend(band);
/// }
/// # assert_eq!(bfp_format::tensorbin::TensorFile::parse(file)?.values()?.elements, weights);
/// # Ok::<(), bfp_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    kernels: &'static Kernels,
}

impl Default for Codec {
    /// With the fastest instruction set of this machine, found once.
    fn default() -> Self {
        Self {
            kernels: arch::best(),
        }
    }
}

impl Codec {
    /// With the kernels of `isa`, or `None` when this machine does not have it.
    #[must_use]
    pub fn with_isa(isa: Isa) -> Option<Self> {
        isa.kernels().map(|kernels| Self { kernels })
    }

    /// The instruction set in use.
    #[must_use]
    pub const fn isa(self) -> Isa {
        self.kernels.isa
    }

    /// Packs the row-major tensor `values` of logical `shape`.
    ///
    /// # Errors
    /// [`FormatError::ShapeOverflow`], or [`FormatError::ValueCount`] when `values` are not as many as the shape's.
    pub fn pack<S: Source>(
        self,
        values: &[S],
        shape: &[usize],
        packing: Packing,
    ) -> Result<Vec<u8>, FormatError> {
        let grid = TileGrid::new(shape, packing.tile)?;
        expect_values(shape, grid.elements(), values.len())?;
        let mut bytes = vec![0; grid.packed_bytes(packing.format)];
        self.encode_tiles(
            Strided::rows_of(values, &grid),
            &grid,
            packing,
            0,
            &mut bytes,
        );
        Ok(bytes)
    }

    /// [`pack`](Self::pack) into `bytes`, which are to be exactly as many as the packed tensor's.
    ///
    /// # Errors
    /// As [`pack`](Self::pack), and [`FormatError::PackedBytes`] when `bytes` has another length.
    pub fn pack_into<S: Source>(
        self,
        values: &[S],
        shape: &[usize],
        packing: Packing,
        bytes: &mut [u8],
    ) -> Result<(), FormatError> {
        let grid = TileGrid::new(shape, packing.tile)?;
        expect_values(shape, grid.elements(), values.len())?;
        expect_bytes(
            shape,
            packing.tile,
            grid.packed_bytes(packing.format),
            bytes.len(),
        )?;
        self.encode_tiles(Strided::rows_of(values, &grid), &grid, packing, 0, bytes);
        Ok(())
    }

    /// Packs the transpose of a matrix: `values` are `[outputs, inputs]`, row-major, as checkpoints store the weight
    /// of a linear layer; the bytes are those of the tensor `[inputs, outputs]`.
    ///
    /// # Errors
    /// [`FormatError::ShapeOverflow`], or [`FormatError::ValueCount`] when there are not `outputs * inputs` values.
    pub fn pack_transposed<S: Source>(
        self,
        values: &[S],
        outputs: usize,
        inputs: usize,
        packing: Packing,
    ) -> Result<Vec<u8>, FormatError> {
        let grid = TileGrid::new(&[inputs, outputs], packing.tile)?;
        expect_values(&[outputs, inputs], grid.elements(), values.len())?;
        let mut bytes = vec![0; grid.packed_bytes(packing.format)];
        self.encode_tiles(
            Strided::columns_of(values, &grid),
            &grid,
            packing,
            0,
            &mut bytes,
        );
        Ok(bytes)
    }

    /// A band of [`pack_transposed`](Self::pack_transposed): the tile rows `tile_rows` of the result, which lie
    /// together in a file. Bands one after another are the whole, in the memory of one.
    ///
    /// Each tile row takes 32 neighbouring inputs of every output, so `values` are best memory or a mapped file, and
    /// bands of 32 tile rows or more are twice as fast as single ones.
    ///
    /// # Errors
    /// As [`pack_transposed`](Self::pack_transposed), [`FormatError::TileRows`] for rows that are not there, and
    /// [`FormatError::PackedBytes`] when `bytes` is not exactly as long as the band.
    pub fn pack_transposed_band<S: Source>(
        self,
        values: &[S],
        outputs: usize,
        inputs: usize,
        tile_rows: Range<usize>,
        packing: Packing,
        bytes: &mut [u8],
    ) -> Result<(), FormatError> {
        let shape = [inputs, outputs];
        let grid = TileGrid::new(&shape, packing.tile)?;
        expect_values(&[outputs, inputs], grid.elements(), values.len())?;
        if tile_rows.start > tile_rows.end || tile_rows.end > grid.tile_rows() {
            let Range { start, end } = tile_rows;
            return Err(FormatError::TileRows {
                start,
                end,
                tile_rows: grid.tile_rows(),
            });
        }
        let tiles = tile_rows.len() * grid.tile_columns();
        expect_bytes(
            &shape,
            packing.tile,
            tiles * packing.format.tile_bytes(packing.tile),
            bytes.len(),
        )?;
        let first = tile_rows.start * grid.tile_columns();
        self.encode_tiles(
            Strided::columns_of(values, &grid),
            &grid,
            packing,
            first,
            bytes,
        );
        Ok(())
    }

    /// The values of a packed tensor of logical `shape`, row-major, padding cut off.
    ///
    /// # Errors
    /// [`FormatError::ShapeOverflow`], or [`FormatError::PackedBytes`] when `bytes` are not as many as the shape's.
    pub fn unpack(
        self,
        bytes: &[u8],
        shape: &[usize],
        format: BlockFormat,
        tile: TileShape,
    ) -> Result<Vec<f32>, FormatError> {
        let grid = TileGrid::new(shape, tile)?;
        expect_bytes(shape, tile, grid.packed_bytes(format), bytes.len())?;
        let mut values = vec![0.0; grid.elements()];
        self.decode_tiles(bytes, &grid, format, &mut values);
        Ok(values)
    }

    /// [`unpack`](Self::unpack) into `values`, which are to be exactly as many as the shape's.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack), and [`FormatError::ValueCount`] when `values` has another length.
    pub fn unpack_into(
        self,
        bytes: &[u8],
        shape: &[usize],
        format: BlockFormat,
        tile: TileShape,
        values: &mut [f32],
    ) -> Result<(), FormatError> {
        let grid = TileGrid::new(shape, tile)?;
        expect_bytes(shape, tile, grid.packed_bytes(format), bytes.len())?;
        expect_values(shape, grid.elements(), values.len())?;
        self.decode_tiles(bytes, &grid, format, values);
        Ok(())
    }

    fn encode_tiles<S: Source>(
        self,
        source: Strided<'_, S>,
        grid: &TileGrid,
        packing: Packing,
        first: usize,
        bytes: &mut [u8],
    ) {
        let Packing { format, tile, .. } = packing;
        let tile_bytes = format.tile_bytes(tile);
        for index in source.order(bytes.len() / tile_bytes, grid.tile_columns()) {
            let packed = &mut bytes[index * tile_bytes..][..tile_bytes];
            for (face, (exponents, codes)) in packed_faces_mut(packed, format, tile).enumerate() {
                let face = Face::of(grid, first + index, face);
                self.encode_face(source, &face, packing, exponents, codes);
            }
        }
    }

    fn encode_face<S: Source>(
        self,
        source: Strided<'_, S>,
        face: &Face,
        packing: Packing,
        exponents: &mut [u8],
        codes: &mut [u8],
    ) {
        let Packing {
            format, rounding, ..
        } = packing;
        if face.is_full(packing.tile) {
            let corner = &source.values[source.index(face, 0, 0)..];
            if source.column_step == 1 {
                return (S::encoders(self.kernels).rows)(
                    format,
                    rounding,
                    corner,
                    source.row_step,
                    exponents,
                    codes,
                );
            }
            if let (1, Ok(exponents)) = (source.row_step, exponents.try_into()) {
                let encode = S::encoders(self.kernels).columns;
                return encode(
                    format,
                    rounding,
                    corner,
                    source.column_step,
                    exponents,
                    codes,
                );
            }
        }
        let mut padded = [packing.pad_value; 16 * GROUP];
        for (row, padded) in padded
            .chunks_exact_mut(GROUP)
            .enumerate()
            .take(face.rows.len())
        {
            for (column, padded) in padded.iter_mut().enumerate().take(face.columns.len()) {
                *padded = source.values[source.index(face, row, column)].widen();
            }
        }
        (self.kernels.f32.rows)(format, rounding, &padded, GROUP, exponents, codes);
    }

    fn decode_tiles(self, bytes: &[u8], grid: &TileGrid, format: BlockFormat, values: &mut [f32]) {
        let tile = grid.tile();
        let stride = grid.columns();
        for (index, packed) in bytes.chunks_exact(format.tile_bytes(tile)).enumerate() {
            for (face, (exponents, codes)) in packed_faces(packed, format, tile).enumerate() {
                let face = Face::of(grid, index, face);
                if face.is_padding() {
                    continue;
                }
                let values = &mut values[face.start(grid)..];
                if face.is_full(tile) {
                    (self.kernels.decode_rows)(format, exponents, codes, values, stride);
                    continue;
                }
                let mut padded = [0.0; 16 * GROUP];
                (self.kernels.decode_rows)(format, exponents, codes, &mut padded, GROUP);
                for (row, padded) in padded.chunks_exact(GROUP).enumerate().take(face.rows.len()) {
                    let width = face.columns.len();
                    values[row * stride..][..width].copy_from_slice(&padded[..width]);
                }
            }
        }
    }
}

/// Packs a row-major tensor of any rank; see [`Codec::pack`].
///
/// # Errors
/// As [`Codec::pack`].
pub fn pack<S: Source>(
    values: &[S],
    shape: &[usize],
    packing: impl Into<Packing>,
) -> Result<Vec<u8>, FormatError> {
    Codec::default().pack(values, shape, packing.into())
}

/// Packs a row-major tensor into bytes at hand; see [`Codec::pack_into`].
///
/// # Errors
/// As [`Codec::pack_into`].
pub fn pack_into<S: Source>(
    values: &[S],
    shape: &[usize],
    packing: impl Into<Packing>,
    bytes: &mut [u8],
) -> Result<(), FormatError> {
    Codec::default().pack_into(values, shape, packing.into(), bytes)
}

/// Packs a `[outputs, inputs]` matrix as the tensor `[inputs, outputs]`; see [`Codec::pack_transposed`], and
/// [`Codec::pack_transposed_band`] for doing so piece by piece.
///
/// # Errors
/// As [`Codec::pack_transposed`].
pub fn pack_transposed<S: Source>(
    values: &[S],
    outputs: usize,
    inputs: usize,
    packing: impl Into<Packing>,
) -> Result<Vec<u8>, FormatError> {
    Codec::default().pack_transposed(values, outputs, inputs, packing.into())
}

/// The values of a packed tensor; see [`Codec::unpack`].
///
/// # Errors
/// As [`Codec::unpack`].
pub fn unpack(
    bytes: &[u8],
    shape: &[usize],
    format: BlockFormat,
    tile: TileShape,
) -> Result<Vec<f32>, FormatError> {
    Codec::default().unpack(bytes, shape, format, tile)
}

/// The values of a packed tensor into a slice at hand; see [`Codec::unpack_into`].
///
/// # Errors
/// As [`Codec::unpack_into`].
pub fn unpack_into(
    bytes: &[u8],
    shape: &[usize],
    format: BlockFormat,
    tile: TileShape,
    values: &mut [f32],
) -> Result<(), FormatError> {
    Codec::default().unpack_into(bytes, shape, format, tile, values)
}

pub(crate) fn expect_values(
    shape: &[usize],
    expected: usize,
    found: usize,
) -> Result<(), FormatError> {
    if expected == found {
        return Ok(());
    }
    Err(FormatError::ValueCount {
        shape: shape.to_vec(),
        expected,
        found,
    })
}

pub(crate) fn expect_bytes(
    shape: &[usize],
    tile: TileShape,
    expected: usize,
    found: usize,
) -> Result<(), FormatError> {
    if expected == found {
        return Ok(());
    }
    Err(FormatError::PackedBytes {
        shape: shape.to_vec(),
        tile,
        expected,
        found,
    })
}
