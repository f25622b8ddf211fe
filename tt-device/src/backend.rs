//! A device: memory, weights, and a recorder that operations go into.

use std::fmt::Debug;

use bytemuck::Pod;

use crate::ops::Ops;
use crate::weight::WeightView;
use crate::{Contract, DeviceError};

/// An element type of a device buffer.
pub trait Element: Pod + Debug + Send + Sync {}

impl Element for f32 {}
impl Element for u32 {}

/// The key and value rows of one attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Rows that can be stored: the context length.
    pub capacity: usize,
    /// Key/value heads.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

/// A device that runs Qwen3.5.
///
/// A new device implements the required methods of [`Ops`] on its recorder and works; then it
/// overrides the provided ones that pay. The model validates shapes once, when it loads; a backend
/// reports only what a caller cannot know (lost device, no memory). Passing buffers shorter than
/// an operation's shape is a bug of the caller and may panic.
pub trait Backend: Debug + Send + Sync + Sized + 'static {
    /// Device memory of elements.
    type Buf<T: Element>: Debug + Send + Sync;
    /// A matrix as this device likes it.
    type Weight: Debug + Send + Sync;
    /// Key and value rows of one layer, stored as the contract says.
    type Kv: Debug + Send + Sync;
    /// Runs operations at once (host), or writes them down (card).
    type Rec<'d>: Ops<Self>;
    /// A recording that can be replayed; uninhabited where there is none.
    type Graph: Debug + Send;

    /// The numerics contract this device computes.
    fn contract(&self) -> Contract;

    /// Device, instruction set and threads, in words: for logs and proofs.
    fn describe(&self) -> String;

    /// Zeroed memory for `len` elements.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn alloc<T: Element>(&self, len: usize) -> Result<Self::Buf<T>, DeviceError>;

    /// Copies `src` to the elements from `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::BufferRange`] when it does not fit.
    fn write<T: Element>(
        &self,
        dst: &mut Self::Buf<T>,
        offset: usize,
        src: &[T],
    ) -> Result<(), DeviceError>;

    /// Copies elements from `offset` on to `dst`.
    ///
    /// # Errors
    /// [`DeviceError::BufferRange`] when the buffer is shorter.
    fn read<T: Element>(
        &self,
        src: &Self::Buf<T>,
        offset: usize,
        dst: &mut [T],
    ) -> Result<(), DeviceError>;

    /// Takes a weight into the device. On the host it is a borrow of the same bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] on devices that copy.
    fn load(&self, weight: WeightView) -> Result<Self::Weight, DeviceError>;

    /// Room for key and value rows.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn alloc_kv(&self, shape: KvShape) -> Result<Self::Kv, DeviceError>;

    /// Reads stored rows `first..first + rows` as `[rows, heads, head_dim]` keys and values.
    ///
    /// # Errors
    /// [`DeviceError::BufferRange`] when there are fewer rows.
    fn read_kv(
        &self,
        kv: &Self::Kv,
        first: usize,
        rows: usize,
        keys: &mut Vec<f32>,
        values: &mut Vec<f32>,
    ) -> Result<(), DeviceError>;

    /// Runs what `f` records, to the end.
    ///
    /// # Errors
    /// What the device reports; on the host, only what `f` returns.
    fn execute<R: Send>(
        &self,
        f: impl FnOnce(&mut Self::Rec<'_>) -> Result<R, DeviceError> + Send,
    ) -> Result<R, DeviceError>;

    /// Records `f` for replay, where the device can; `None` where it cannot.
    ///
    /// # Errors
    /// What the device reports.
    fn capture(
        &self,
        f: impl FnOnce(&mut Self::Rec<'_>) -> Result<(), DeviceError> + Send,
    ) -> Result<Option<Self::Graph>, DeviceError>;

    /// Runs a recording again.
    ///
    /// # Errors
    /// What the device reports.
    fn replay(&self, graph: &Self::Graph) -> Result<(), DeviceError>;
}
