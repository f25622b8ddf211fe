//! Finding what no block format can hold.

use std::fmt;

use crate::Source;

/// The first value of a tensor that is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NonFinite {
    /// Its index in the row-major tensor; see [`coordinates`].
    pub index: usize,
    /// What it is.
    pub kind: NonFiniteKind,
}

/// What a value is that is no finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NonFiniteKind {
    /// Not a number.
    Nan,
    /// Positive infinity.
    Infinity,
    /// Negative infinity.
    NegativeInfinity,
}

impl fmt::Display for NonFiniteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nan => "NaN",
            Self::Infinity => "inf",
            Self::NegativeInfinity => "-inf",
        })
    }
}

/// Values looked at without a branch; only the chunk with the culprit is searched.
const CHUNK: usize = 1024;

/// The first NaN or infinity of `values`.
///
/// The codec takes either as ttnn does, and they ruin the 15 other elements of their group: whoever makes files
/// asks this first.
pub fn first_non_finite<S: Source>(values: &[S]) -> Option<NonFinite> {
    let finite = |value: &S| value.widen().is_finite();
    let chunk = values
        .chunks(CHUNK)
        .position(|chunk| !chunk.iter().fold(true, |all, value| all & finite(value)))?;
    let index = chunk * CHUNK
        + values[chunk * CHUNK..]
            .iter()
            .position(|value| !finite(value))?;
    let value = values[index].widen();
    let kind = match (value.is_nan(), value.is_sign_negative()) {
        (true, _) => NonFiniteKind::Nan,
        (false, false) => NonFiniteKind::Infinity,
        (false, true) => NonFiniteKind::NegativeInfinity,
    };
    Some(NonFinite { index, kind })
}

/// The coordinates of element `index` of a row-major tensor.
///
/// Of an index past the end, the first coordinate is past its dimension.
#[must_use]
pub fn coordinates(index: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = index;
    let mut coordinates = vec![0; shape.len()];
    for (axis, (coordinate, &size)) in coordinates.iter_mut().zip(shape).enumerate().rev() {
        let size = size.max(1);
        (rest, *coordinate) = if axis == 0 {
            (0, rest)
        } else {
            (rest / size, rest % size)
        };
    }
    coordinates
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn the_first_of_several_is_found_wherever_it_lies() {
        for index in [0, 5, 1023, 1024, 2047, 2999] {
            let mut values = vec![1.0f32; 3000];
            assert_eq!(first_non_finite(&values), None);
            values[2999] = f32::NAN;
            values[index] = f32::NEG_INFINITY;
            let kind = NonFiniteKind::NegativeInfinity;
            assert_eq!(first_non_finite(&values), Some(NonFinite { index, kind }));
            let halves: Vec<bf16> = values.iter().map(|&x| bf16::from_f32(x)).collect();
            assert_eq!(first_non_finite(&halves), Some(NonFinite { index, kind }));
        }
    }

    #[test]
    fn a_nan_is_named_with_its_coordinates() {
        let mut values = vec![0.0f32; 4 * 6];
        values[3 * 6 + 5] = f32::NAN;
        let found = first_non_finite(&values).unwrap();
        assert_eq!(found.kind, NonFiniteKind::Nan);
        assert_eq!(coordinates(found.index, &[4, 6]), [3, 5]);
        assert_eq!(coordinates(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(coordinates(0, &[]), [0usize; 0]);
        assert_eq!(coordinates(7, &[2, 0]), [7, 0]);
    }
}
