//! A target with the failings of a recurrent model: its state cannot be truncated, only kept lane by lane.

use mtp_spec::{LogitRows, PromptLogits, Target, TokenId};

/// A table of random logits for every pair of last tokens, scaled so that `spread` is about the distance between likely and unlikely.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) vocab: usize,
    rows: Vec<f32>,
}

impl Table {
    pub(crate) fn random(vocab: usize, spread: f32, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let rows = (0..vocab * vocab * vocab)
            .map(|_| spread * numbers.symmetric())
            .collect();
        Self { vocab, rows }
    }

    /// The same table with noise added: a drafter that knows the target, more or less.
    pub(crate) fn blurred(&self, noise: f32, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let rows = self
            .rows
            .iter()
            .map(|logit| logit + noise * numbers.symmetric())
            .collect();
        Self { rows, ..*self }
    }

    /// A table in which every row is `row`.
    pub(crate) fn constant(row: &[f32]) -> Self {
        let vocab = row.len();
        Self {
            vocab,
            rows: row.repeat(vocab * vocab),
        }
    }

    /// A table in which each token is followed by the next, and the last by the first.
    pub(crate) fn cycle(vocab: usize) -> Self {
        let mut rows = vec![0.0; vocab * vocab * vocab];
        for (pair, row) in rows.chunks_mut(vocab).enumerate() {
            row[(pair + 1) % vocab] = 9.0;
        }
        Self { vocab, rows }
    }

    /// The row behind a sequence. Before the first token stands token 0.
    pub(crate) fn row(&self, tokens: &[TokenId]) -> &[f32] {
        let back = |n: usize| tokens.len().checked_sub(n).map_or(0, |i| tokens[i].index());
        let pair = back(2) * self.vocab + back(1);
        &self.rows[pair * self.vocab..][..self.vocab]
    }
}

/// A reproducible sequence of numbers for tables and hostile drafters (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        // A seed of 0 would stay 0.
        self.0 |= u64::from(self.0 == 0);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from((self.next() >> 33) % bound as u64).unwrap()
    }

    /// In (-1, 1), bell shaped.
    fn symmetric(&mut self) -> f32 {
        let sum: f32 = (0..4)
            .map(|_| (self.next() >> 40) as f32 / (1 << 24) as f32)
            .sum();
        (sum - 2.0) / 2.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device is gone")]
pub(crate) struct Gone;

/// What happens in the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fails half way through the block.
    Fails,
    /// Unwinds half way through the block.
    Panics,
    /// Returns one row too few.
    Short,
    /// Returns a row with a NaN.
    NotANumber,
}

/// A Markov chain over pairs of tokens as a target. Its recurrent state is a digest of all tokens fed, one lane for each row of the block,
/// and it checks that its caller keeps the order of calls.
#[derive(Clone, Debug)]
pub(crate) struct Markov {
    pub(crate) table: Table,
    pub(crate) capacity: usize,
    pub(crate) fault: Option<Fault>,
    /// Widths of the blocks verified.
    pub(crate) blocks: Vec<usize>,
    tokens: Vec<TokenId>,
    committed: usize,
    /// The state behind the committed tokens, then behind each token of the block.
    lanes: Vec<u64>,
}

impl Markov {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            table,
            capacity: usize::MAX,
            fault: None,
            blocks: Vec::new(),
            tokens: Vec::new(),
            committed: 0,
            lanes: vec![1],
        }
    }

    /// What the committed tokens left: their number, themselves, and the state.
    pub(crate) fn state(&self) -> (usize, &[TokenId], u64) {
        assert_eq!(self.lanes.len(), 1, "nothing is tentative between calls");
        assert_eq!(self.tokens.len(), self.committed);
        (self.committed, &self.tokens, self.lanes[0])
    }

    fn feed(&mut self, token: TokenId) {
        assert!(
            token.index() < self.table.vocab,
            "only tokens of the vocabulary are fed"
        );
        self.tokens.push(token);
        let state = *self.lanes.last().unwrap();
        self.lanes.push(
            (state ^ u64::from(token.0 + 1))
                .wrapping_mul(0x100_0000_01b3)
                .rotate_left(17),
        );
    }
}

impl Target for Markov {
    type Error = Gone;

    fn vocab_size(&self) -> usize {
        self.table.vocab
    }

    fn position(&self) -> usize {
        self.committed
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn prefill(
        &mut self,
        chunk: &[TokenId],
        wanted: PromptLogits,
        out: &mut LogitRows,
    ) -> Result<(), Gone> {
        assert!(!chunk.is_empty() && out.is_empty());
        assert_eq!(self.lanes.len(), 1, "prefill with a block undecided");
        if self.fault.take().is_some() {
            return Err(Gone);
        }
        for (i, &token) in chunk.iter().enumerate() {
            self.feed(token);
            let last = i + 1 == chunk.len();
            if wanted == PromptLogits::Every || wanted == PromptLogits::Last && last {
                out.push_row(self.table.row(&self.tokens));
            }
        }
        self.committed = self.tokens.len();
        self.lanes.drain(..self.lanes.len() - 1);
        assert!(self.committed <= self.capacity);
        Ok(())
    }

    fn verify(&mut self, block: &[TokenId], out: &mut LogitRows) -> Result<(), Gone> {
        assert!(!block.is_empty() && out.is_empty());
        assert_eq!(self.lanes.len(), 1, "verify with a block undecided");
        assert!(
            self.committed + block.len() <= self.capacity,
            "a block over the capacity"
        );
        self.blocks.push(block.len());
        let fault = self.fault.take();
        for (i, &token) in block.iter().enumerate() {
            self.feed(token);
            let last = i + 1 == block.len();
            match fault {
                Some(Fault::Fails) if last => return Err(Gone),
                Some(Fault::Panics) if last => panic!("the target unwinds"),
                Some(Fault::Short) if last => return Ok(()),
                _ => {}
            }
            out.push_row(self.table.row(&self.tokens));
            if fault == Some(Fault::NotANumber) && last {
                out.row_mut(i)[0] = f32::NAN;
            }
        }
        Ok(())
    }

    fn commit(&mut self, keep: usize) {
        let tentative = self.lanes.len() - 1;
        assert!(
            (1..=tentative).contains(&keep),
            "commit of {keep} of {tentative}"
        );
        self.committed += keep;
        self.tokens.truncate(self.committed);
        self.lanes = vec![self.lanes[keep]];
    }

    fn rollback(&mut self) {
        self.tokens.truncate(self.committed);
        self.lanes.truncate(1);
    }
}
