//! What a file consists of.

use bytes::Bytes;

/// Bytes of a file, without holding all of a large one in memory.
#[derive(Clone, Debug)]
pub enum Content {
    /// The bytes themselves.
    Whole(Bytes),
    /// A block again and again, up to a length.
    Repeated {
        /// The block.
        block: Bytes,
        /// Length of the file.
        bytes: u64,
    },
}

impl Content {
    /// Length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Repeated { bytes, .. } => *bytes,
        }
    }

    /// A piece from `at` on, of at most `most` bytes and not beyond `end`. Shares memory.
    #[must_use]
    pub fn piece(&self, at: u64, end: u64, most: usize) -> Bytes {
        let length = usize::try_from(end.saturating_sub(at))
            .unwrap_or(usize::MAX)
            .min(most);
        match self {
            Self::Whole(bytes) => {
                let start = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                bytes.slice(start..(start + length).min(bytes.len()))
            }
            Self::Repeated { block, .. } => {
                let start = usize::try_from(at % block.len() as u64).unwrap_or(0);
                block.slice(start..(start + length).min(block.len()))
            }
        }
    }

    /// Calls `take` with the pieces in order.
    pub fn for_each(&self, mut take: impl FnMut(&[u8])) {
        let (mut at, end) = (0, self.bytes());
        while at < end {
            let piece = self.piece(at, end, 1 << 20);
            take(&piece);
            at += piece.len() as u64;
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(bytes.into())
    }
}

impl From<&'static str> for Content {
    fn from(text: &'static str) -> Self {
        Self::Whole(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}
