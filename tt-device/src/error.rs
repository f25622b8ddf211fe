//! What can go wrong that a caller cannot know beforehand.

use crate::weight::{MatrixShape, WeightFormat};

/// An error of a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The operating system refused the compute threads.
    #[error("cannot start {threads} compute threads")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the operating system said.
        #[source]
        source: rayon::ThreadPoolBuildError,
    },
    /// An instruction set was asked for by name and this CPU does not have it.
    #[error("instruction set {asked:?} is not present on this cpu; present: {present}")]
    IsaAbsent {
        /// What was asked for.
        asked: String,
        /// What could be chosen.
        present: String,
    },
    /// A buffer or state larger than memory can hold.
    #[error("cannot allocate {bytes} bytes of device memory")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
    },
    /// More elements were copied than a buffer holds.
    #[error("a copy of {elements} elements at {offset} does not fit a buffer of {capacity}")]
    BufferRange {
        /// First element.
        offset: usize,
        /// Elements to copy.
        elements: usize,
        /// What the buffer holds.
        capacity: usize,
    },
    /// A weight's bytes are not those of its shape and format.
    #[error(
        "a weight of {}x{} in {format:?} takes {} bytes, found {found}",
        shape.inputs, shape.outputs,
        expected.map_or_else(|| "no representable number of".to_owned(), |n| n.to_string())
    )]
    WeightBytes {
        /// Logical shape.
        shape: MatrixShape,
        /// Stored format.
        format: WeightFormat,
        /// Bytes that shape and format take; none when they cannot be stored so.
        expected: Option<usize>,
        /// Bytes given.
        found: usize,
    },
}
