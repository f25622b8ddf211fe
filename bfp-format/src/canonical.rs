//! Whether bytes are what an encoder writes.

use crate::arch;
use crate::codec::expect_bytes;
use crate::face::packed_faces;
use crate::{BlockFormat, FormatError, GROUP, Rounding, TileGrid, TileShape};

/// Packed bytes that decoding and encoding again would change: no encoder wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotCanonical {
    /// A group is not its values' encoding: a sign without magnitude, a shared exponent above every element's, or
    /// elements below the smallest normal number.
    #[error(
        "group {group} of tile {tile} is no encoder's: exponent {exponent}, would be {canonical}"
    )]
    Group {
        /// The tile, in file order.
        tile: usize,
        /// The group in its tile, in file order.
        group: usize,
        /// The shared exponent stored.
        exponent: u8,
        /// The exponent that its values encode to. Where it is the one stored, some code differs.
        canonical: u8,
    },
    /// The padding of a small tile's exponent section is not zero.
    #[error("padding byte {byte} of tile {tile}'s exponents is {found}, not 0")]
    Padding {
        /// The tile, in file order.
        tile: usize,
        /// The byte in its exponent section.
        byte: usize,
        /// What it holds.
        found: u8,
    },
}

/// The first place where `encode(decode(bytes))` is not `bytes` again, or `None` when there is none.
///
/// Both rounding rules write only codes that the other keeps, so the answer does not depend on the rule.
///
/// # Errors
/// [`FormatError::ShapeOverflow`], or [`FormatError::PackedBytes`] when `bytes` are not as many as the shape's.
pub fn first_not_canonical(
    bytes: &[u8],
    shape: &[usize],
    format: BlockFormat,
    tile: TileShape,
) -> Result<Option<NotCanonical>, FormatError> {
    let grid = TileGrid::new(shape, tile)?;
    expect_bytes(shape, tile, grid.packed_bytes(format), bytes.len())?;
    let mut tiles = bytes.chunks_exact(format.tile_bytes(tile)).enumerate();
    Ok(tiles.find_map(|(index, packed)| find_in_tile(packed, index, format, tile)))
}

fn find_in_tile(
    packed: &[u8],
    tile: usize,
    format: BlockFormat,
    shape: TileShape,
) -> Option<NotCanonical> {
    let mut padding = packed[..shape.exponent_bytes()]
        .iter()
        .enumerate()
        .skip(shape.groups());
    if let Some((byte, &found)) = padding.find(|&(_, &found)| found != 0) {
        return Some(NotCanonical::Padding { tile, byte, found });
    }
    packed_faces(packed, format, shape)
        .enumerate()
        .find_map(|(face, (exponents, codes))| {
            let (group, canonical) = find_in_face(exponents, codes, format)?;
            let exponent = exponents[group];
            let group = face * shape.face_rows() + group;
            Some(NotCanonical::Group {
                tile,
                group,
                exponent,
                canonical,
            })
        })
}

/// The first group of a face that changes, and the exponent it changes to.
fn find_in_face(exponents: &[u8], codes: &[u8], format: BlockFormat) -> Option<(usize, u8)> {
    let kernels = arch::best();
    let (mut values, mut again, mut codes_again) = ([0.0; 16 * GROUP], [0; 16], [0; 16 * GROUP]);
    let again = &mut again[..exponents.len()];
    let codes_again = &mut codes_again[..codes.len()];
    (kernels.decode_rows)(format, exponents, codes, &mut values, GROUP);
    let rounding = Rounding::HostNearestEven;
    (kernels.f32.rows)(format, rounding, &values, GROUP, again, codes_again);
    if exponents == again && codes == codes_again {
        return None;
    }
    let groups = |codes| <[u8]>::chunks_exact(codes, format.group_code_bytes());
    let differs = |group: usize| {
        exponents[group] != again[group]
            || groups(codes).nth(group) != groups(codes_again).nth(group)
    };
    let group = (0..exponents.len()).find(|&group| differs(group))?;
    Some((group, again[group]))
}
