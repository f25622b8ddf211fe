//! Host memory: cache-line aligned buffers, and key/value rows in the order attention reads them.

use bytemuck::{Pod, Zeroable};
use half::bf16;

use crate::backend::{Element, KvShape};
use crate::{Contract, DeviceError};

/// Keys of one block share a vector: element d of 16 keys lies side by side.
pub(crate) const KEY_BLOCK: usize = 16;

/// One cache line, so that no vector load straddles two.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Elements in zeroed, 64-byte aligned host memory.
#[derive(Debug)]
pub struct HostBuf<T> {
    lines: Vec<Line>,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Pod> HostBuf<T> {
    pub(crate) fn zeroed(len: usize) -> Result<Self, DeviceError> {
        let bytes = len.saturating_mul(size_of::<T>());
        let count = bytes.div_ceil(size_of::<Line>());
        let mut lines = Vec::new();
        lines
            .try_reserve_exact(count)
            .map_err(|_| DeviceError::OutOfMemory { bytes })?;
        lines.resize(count, Line([0; 64]));
        Ok(Self {
            lines,
            len,
            element: std::marker::PhantomData,
        })
    }

    /// The elements.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    /// The elements, to change.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }

    pub(crate) const fn empty() -> Self {
        Self {
            lines: Vec::new(),
            len: 0,
            element: std::marker::PhantomData,
        }
    }

    /// The first `len` elements, grown to them where it is shorter; contents are unspecified.
    pub(crate) fn grown(&mut self, len: usize) -> &mut [T] {
        if self.len < len {
            self.lines.resize(
                (len * size_of::<T>()).div_ceil(size_of::<Line>()),
                Line([0; 64]),
            );
            self.len = len;
        }
        &mut self.as_mut_slice()[..len]
    }
}

impl<T: Element> HostBuf<T> {
    pub(crate) fn write(&mut self, offset: usize, src: &[T]) -> Result<(), DeviceError> {
        let range = self.range(offset, src.len())?;
        self.as_mut_slice()[range].copy_from_slice(src);
        Ok(())
    }

    pub(crate) fn read(&self, offset: usize, dst: &mut [T]) -> Result<(), DeviceError> {
        let range = self.range(offset, dst.len())?;
        dst.copy_from_slice(&self.as_slice()[range]);
        Ok(())
    }

    fn range(&self, offset: usize, elements: usize) -> Result<std::ops::Range<usize>, DeviceError> {
        match offset.checked_add(elements) {
            Some(end) if end <= self.len => Ok(offset..end),
            _ => Err(DeviceError::BufferRange {
                offset,
                elements,
                capacity: self.len,
            }),
        }
    }
}

/// Key and value rows of one layer.
///
/// Keys: `[head][block of 16 keys][element][16]`, so that the scores of 16 keys are one accumulator.
/// Values: `[head][key][element]`. Blocks are aligned to absolute positions.
#[derive(Debug)]
pub struct HostKv {
    shape: KvShape,
    rows: KvRows,
}

/// The stored elements, as the contract says.
#[derive(Debug)]
pub(crate) enum KvRows {
    Bf16 {
        keys: HostBuf<u16>,
        values: HostBuf<u16>,
    },
    F32 {
        keys: HostBuf<f32>,
        values: HostBuf<f32>,
    },
}

impl HostKv {
    pub(crate) fn zeroed(shape: KvShape, contract: Contract) -> Result<Self, DeviceError> {
        let shape = KvShape {
            capacity: shape.capacity.next_multiple_of(KEY_BLOCK),
            ..shape
        };
        let len = shape
            .capacity
            .checked_mul(shape.heads)
            .and_then(|n| n.checked_mul(shape.head_dim))
            .ok_or(DeviceError::OutOfMemory { bytes: usize::MAX })?;
        let rows = match contract {
            Contract::Host1 => KvRows::Bf16 {
                keys: HostBuf::zeroed(len)?,
                values: HostBuf::zeroed(len)?,
            },
            Contract::HostF32 => KvRows::F32 {
                keys: HostBuf::zeroed(len)?,
                values: HostBuf::zeroed(len)?,
            },
        };
        Ok(Self { shape, rows })
    }

    pub(crate) const fn shape(&self) -> KvShape {
        self.shape
    }

    pub(crate) const fn rows(&self) -> &KvRows {
        &self.rows
    }

    /// Stores one token's keys and values, `[heads, head_dim]` each.
    pub(crate) fn store(&mut self, position: usize, keys: &[f32], values: &[f32]) {
        let shape = self.shape;
        assert!(
            position < shape.capacity,
            "the model keeps positions below the capacity"
        );
        for head in 0..shape.heads {
            let from = head * shape.head_dim;
            for d in 0..shape.head_dim {
                let (key, value) = (
                    key_at(shape, head, position, d),
                    value_at(shape, head, position, d),
                );
                match &mut self.rows {
                    KvRows::Bf16 { keys: k, values: v } => {
                        k.as_mut_slice()[key] = bf16::from_f32(keys[from + d]).to_bits();
                        v.as_mut_slice()[value] = bf16::from_f32(values[from + d]).to_bits();
                    }
                    KvRows::F32 { keys: k, values: v } => {
                        k.as_mut_slice()[key] = keys[from + d];
                        v.as_mut_slice()[value] = values[from + d];
                    }
                }
            }
        }
    }

    pub(crate) fn key(&self, head: usize, position: usize, d: usize) -> f32 {
        let at = key_at(self.shape, head, position, d);
        match &self.rows {
            KvRows::Bf16 { keys, .. } => bf16::from_bits(keys.as_slice()[at]).to_f32(),
            KvRows::F32 { keys, .. } => keys.as_slice()[at],
        }
    }

    pub(crate) fn value(&self, head: usize, position: usize, d: usize) -> f32 {
        let at = value_at(self.shape, head, position, d);
        match &self.rows {
            KvRows::Bf16 { values, .. } => bf16::from_bits(values.as_slice()[at]).to_f32(),
            KvRows::F32 { values, .. } => values.as_slice()[at],
        }
    }
}

/// Index of element `d` of a key.
pub(crate) const fn key_at(shape: KvShape, head: usize, position: usize, d: usize) -> usize {
    let block = head * (shape.capacity / KEY_BLOCK) + position / KEY_BLOCK;
    (block * shape.head_dim + d) * KEY_BLOCK + position % KEY_BLOCK
}

/// Index of element `d` of a value.
pub(crate) const fn value_at(shape: KvShape, head: usize, position: usize, d: usize) -> usize {
    (head * shape.capacity + position) * shape.head_dim + d
}
