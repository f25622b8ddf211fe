/// Rows of logits, row-major `[rows, vocab]` in f32, in storage that is kept between steps.
///
/// A model either appends whole rows ([`push_row`](Self::push_row)) or makes room and writes into it
/// ([`append_rows`](Self::append_rows), [`resize_rows`](Self::resize_rows)).
#[derive(Clone, Debug, Default)]
pub struct LogitRows {
    values: Vec<f32>,
    vocab_size: usize,
}

impl LogitRows {
    /// No rows yet, each to be `vocab_size` wide.
    #[must_use]
    pub const fn new(vocab_size: usize) -> Self {
        Self {
            values: Vec::new(),
            vocab_size,
        }
    }

    /// The width of a row.
    #[must_use]
    pub const fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.vocab_size).unwrap_or(0)
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Row `i`.
    ///
    /// # Panics
    /// When there are `i` rows or fewer.
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.vocab_size..][..self.vocab_size]
    }

    /// Row `i`, to be written.
    ///
    /// # Panics
    /// When there are `i` rows or fewer.
    pub fn row_mut(&mut self, i: usize) -> &mut [f32] {
        &mut self.values[i * self.vocab_size..][..self.vocab_size]
    }

    /// Every row, row-major.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Appends a copy of `row`.
    ///
    /// # Panics
    /// When `row` is not `vocab_size` wide.
    pub fn push_row(&mut self, row: &[f32]) {
        assert_eq!(
            row.len(),
            self.vocab_size,
            "a row is as wide as the vocabulary"
        );
        self.values.extend_from_slice(row);
    }

    /// Appends `rows` rows of zeros and returns them to be written, row-major.
    pub fn append_rows(&mut self, rows: usize) -> &mut [f32] {
        let start = self.values.len();
        self.values.resize(start + rows * self.vocab_size, 0.0);
        &mut self.values[start..]
    }

    /// Makes it exactly `rows` rows and returns them all to be written, row-major. What they hold is unspecified.
    pub fn resize_rows(&mut self, rows: usize) -> &mut [f32] {
        self.values.resize(rows * self.vocab_size, 0.0);
        &mut self.values
    }

    /// Keeps the first `rows` rows, or all when there are fewer.
    pub fn truncate_rows(&mut self, rows: usize) {
        self.values.truncate(rows.saturating_mul(self.vocab_size));
    }

    /// Drops every row and keeps the storage.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// Drops every row and sets another width.
    pub(crate) fn reshape(&mut self, vocab_size: usize) {
        self.values.clear();
        self.vocab_size = vocab_size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_row_major_and_the_storage_is_kept() {
        let mut rows = LogitRows::new(3);
        rows.push_row(&[1.0, 2.0, 3.0]);
        rows.append_rows(2)[3..].copy_from_slice(&[4.0, 5.0, 6.0]);
        assert_eq!(rows.rows(), 3);
        assert_eq!(rows.row(1), [0.0; 3]);
        assert_eq!(rows.row(2), [4.0, 5.0, 6.0]);
        let storage = rows.values().as_ptr();
        rows.clear();
        assert!(rows.is_empty());
        rows.resize_rows(3)[0] = 9.0;
        assert_eq!(rows.row(0)[0].to_bits(), 9.0_f32.to_bits());
        assert_eq!(rows.values().as_ptr(), storage);
        rows.truncate_rows(1);
        assert_eq!(rows.rows(), 1);
    }

    #[test]
    fn no_vocabulary_means_no_rows() {
        let mut rows = LogitRows::new(0);
        rows.append_rows(4);
        assert_eq!(rows.rows(), 0);
    }
}
