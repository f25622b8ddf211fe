//! The one order of every reduction over a row.

/// Lanes that a reduction keeps: element `i` goes to lane `i % 16`.
pub const LANES: usize = 16;

/// `sum(x_i * y_i)`: 16 strided lanes, each `fma(x, y, lane)` in ascending order from 0, then
/// [`tree`]. A tail shorter than 16 leaves the remaining lanes as they are.
///
/// # Panics
/// When the slices differ in length.
#[must_use]
pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len(), "a dot product takes rows of one length");
    let mut lanes = [0.0f32; LANES];
    for (i, (a, b)) in x.iter().zip(y).enumerate() {
        lanes[i % LANES] = a.mul_add(*b, lanes[i % LANES]);
    }
    tree(lanes)
}

/// `sum(x_i)` in the same lanes, by additions.
#[must_use]
pub fn total(x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for (i, a) in x.iter().enumerate() {
        lanes[i % LANES] += *a;
    }
    tree(lanes)
}

/// Adds 16 lanes: lane `i` to lane `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
#[must_use]
pub fn tree(mut lanes: [f32; LANES]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}
