//! Stored bytes to values: of one shard, and of a tensor spread over a mesh.

use std::collections::BTreeMap;

use half::bf16;

use crate::tensorbin::header::unexpected;
use crate::tensorbin::{DataType, Header, Layout, Placement, TensorFile, Topology};
use crate::{FormatError, Source, unpack, untilize};

/// A row-major tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements.
    pub elements: Vec<f32>,
}

impl Header {
    /// The values of one shard's stored bytes, row-major, of the header's shape; integers to the nearest f32.
    ///
    /// # Errors
    /// [`FormatError::HeaderField`] for transposed tiles, [`FormatError::ShapeOverflow`], or
    /// [`FormatError::ShardBytes`] when `bytes` are not as many as the shape's.
    pub fn decode(&self, bytes: &[u8]) -> Result<Vec<f32>, FormatError> {
        let expected = self.layout.data_bytes(self.dtype, &self.shape)? as u64;
        if bytes.len() as u64 != expected {
            return Err(FormatError::ShardBytes {
                shard: 0,
                expected,
                found: bytes.len() as u64,
            });
        }
        if let Layout::Tile {
            transposed: true, ..
        } = self.layout
        {
            return Err(unexpected(
                "spec.layout.page.tile",
                "plain tiles",
                "transposed ones",
            ));
        }
        if let (Some(format), Layout::Tile { shape: tile, .. }) =
            (self.dtype.block_format(), self.layout)
        {
            return unpack(bytes, &self.shape, format, tile);
        }
        let stored = elements(self.dtype, bytes);
        match self.layout {
            Layout::RowMajor => Ok(stored),
            Layout::Tile { shape: tile, .. } => untilize(&stored, &self.shape, tile),
        }
    }
}

impl<D: AsRef<[u8]>> TensorFile<D> {
    /// The whole tensor: its shards put together as the topology says. Without a topology there must be one shard.
    ///
    /// # Errors
    /// As [`shard_values`](Self::shard_values), and [`FormatError::HeaderField`] for a topology that does not place
    /// every shard's data once.
    pub fn values(&self) -> Result<Values, FormatError> {
        let header = self.header();
        let plan = Assembly::of(header)?;
        let mut elements = vec![0.0; plan.elements()?];
        for (position, &shard) in plan.shards.iter().enumerate() {
            plan.place(
                &self.shard_values(shard)?,
                position,
                &header.shape,
                &mut elements,
            );
        }
        Ok(Values {
            shape: plan.shape,
            elements,
        })
    }
}

/// How many blocks each dimension of the tensor is cut in, and the shard of each block, row-major.
struct Assembly {
    shape: Vec<usize>,
    blocks: Vec<usize>,
    shards: Vec<usize>,
}

impl Assembly {
    fn of(header: &Header) -> Result<Self, FormatError> {
        let mut blocks = vec![1; header.shape.len()];
        let Some(topology) = &header.topology else {
            if header.shards.len() > 1 {
                return Err(unexpected("topology", "one, for several shards", "none"));
            }
            return Ok(Self {
                shape: header.shape.clone(),
                blocks,
                shards: vec![0],
            });
        };
        let axes = cut_axes(topology, header.shape.len())?;
        for (axis, &count) in axes.iter().zip(&topology.shape) {
            if let Some(axis) = *axis {
                blocks[axis] = usize::try_from(count).unwrap_or(usize::MAX);
            }
        }
        let overflow = || FormatError::ShapeOverflow {
            shape: header.shape.clone(),
        };
        let shape = header
            .shape
            .iter()
            .zip(&blocks)
            .map(|(size, count)| size.checked_mul(*count).ok_or_else(overflow));
        let shape = shape.collect::<Result<_, _>>()?;
        let count = blocks
            .iter()
            .try_fold(1usize, |all, &count| all.checked_mul(count))
            .ok_or_else(overflow)?;
        // Each block needs bytes of its own in the file, which bounds what the file can make us allocate.
        if count > header.shards.len() {
            let expected = format!("{count} shards for the distribution {:?}", topology.shape);
            return Err(unexpected(
                "shards",
                expected,
                header.shards.len().to_string(),
            ));
        }
        let by_coordinate: BTreeMap<&[u32], usize> = header
            .shards
            .iter()
            .enumerate()
            .map(|(index, shard)| (&shard.coordinate[..], index))
            .collect();
        let mut shards = vec![None; count];
        for (position, coordinate) in topology.coordinates.iter().enumerate() {
            let Some(&shard) = by_coordinate.get(&coordinate[..]) else {
                continue;
            };
            let block = block_of(position, topology, &axes, &blocks);
            if let Some(slot) = block.and_then(|block| shards.get_mut(block)) {
                slot.get_or_insert(shard);
            }
        }
        let shards: Option<Vec<usize>> = shards.into_iter().collect();
        let shards = shards.ok_or_else(|| {
            unexpected(
                "topology.coordinates",
                "a shard for each part",
                "parts without",
            )
        })?;
        let mut offsets: Vec<_> = shards
            .iter()
            .map(|&shard| header.shards[shard].offset)
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        if offsets.len() < count && header.shards[0].size > 0 {
            return Err(unexpected(
                "shards",
                "bytes of its own for each part",
                "shared bytes",
            ));
        }
        Ok(Self {
            shape,
            blocks,
            shards,
        })
    }

    fn elements(&self) -> Result<usize, FormatError> {
        let elements = self
            .shape
            .iter()
            .try_fold(1usize, |all, &size| all.checked_mul(size));
        elements.ok_or_else(|| FormatError::ShapeOverflow {
            shape: self.shape.clone(),
        })
    }

    /// Copies a block's rows to their places.
    fn place(&self, block: &[f32], position: usize, block_shape: &[usize], whole: &mut [f32]) {
        let Some((&width, outer)) = block_shape.split_last() else {
            return whole.copy_from_slice(block);
        };
        if width == 0 {
            return;
        }
        let origin: Vec<usize> = crate::coordinates(position, &self.blocks)
            .iter()
            .zip(block_shape)
            .map(|(at, size)| at * size)
            .collect();
        for (row, values) in block.chunks_exact(width).enumerate() {
            let inner = crate::coordinates(row, outer);
            let leading = inner
                .iter()
                .zip(&origin)
                .map(|(inner, origin)| inner + origin);
            let start = leading
                .zip(&self.shape)
                .fold(0, |at, (index, size)| at * size + index);
            let start = start * self.shape[outer.len()] + origin[outer.len()];
            whole[start..][..width].copy_from_slice(values);
        }
    }
}

/// The tensor axis that each dimension of the distribution cuts.
fn cut_axes(topology: &Topology, rank: usize) -> Result<Vec<Option<usize>>, FormatError> {
    let mut axes = Vec::with_capacity(topology.placements.len());
    for placement in &topology.placements {
        let Placement::Shard(dimension) = *placement else {
            axes.push(None);
            continue;
        };
        let signed = i64::from(dimension);
        let from_start = if signed < 0 {
            signed.checked_add_unsigned(rank as u64)
        } else {
            Some(signed)
        };
        let axis = from_start
            .and_then(|axis| usize::try_from(axis).ok())
            .filter(|&axis| axis < rank);
        let axis = axis.filter(|&axis| !axes.contains(&Some(axis)));
        let expected = || format!("a dimension of {rank}, each once");
        axes.push(Some(axis.ok_or_else(|| {
            unexpected("topology.placements", expected(), dimension.to_string())
        })?));
    }
    Ok(axes)
}

/// The block that a position of the distribution holds.
fn block_of(
    position: usize,
    topology: &Topology,
    axes: &[Option<usize>],
    blocks: &[usize],
) -> Option<usize> {
    let sizes: Vec<usize> = topology
        .shape
        .iter()
        .map(|&n| usize::try_from(n).unwrap_or(usize::MAX))
        .collect();
    let mut at = vec![0; blocks.len()];
    for ((coordinate, size), axis) in crate::coordinates(position, &sizes)
        .iter()
        .zip(&sizes)
        .zip(axes)
    {
        if coordinate >= size {
            return None;
        }
        if let Some(axis) = *axis {
            at[axis] = *coordinate;
        }
    }
    Some(
        at.iter()
            .zip(blocks)
            .fold(0, |block, (at, count)| block * count + at),
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "documented: integers to the nearest f32"
)]
fn elements(dtype: DataType, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        DataType::BFloat16 => words(bytes, |word| bf16::from_le_bytes(word).widen()),
        DataType::Float32 => words(bytes, f32::from_le_bytes),
        DataType::UInt32 => words(bytes, |word| u32::from_le_bytes(word) as f32),
        DataType::Int32 => words(bytes, |word| i32::from_le_bytes(word) as f32),
        DataType::UInt16 => words(bytes, |word| u16::from_le_bytes(word).into()),
        DataType::UInt8 => words(bytes, |[byte]: [u8; 1]| byte.into()),
        DataType::Int8 => words(bytes, |byte| i8::from_le_bytes(byte).into()),
        // Block formats have no elements of their own; `decode` has dealt with them.
        DataType::BFloat8B | DataType::BFloat4B => Vec::new(),
    }
}

fn words<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<N>();
    words.iter().map(|&word| value(word)).collect()
}
