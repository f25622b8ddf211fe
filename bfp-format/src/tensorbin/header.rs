//! What a file says about its data.

use crate::FormatError;
use crate::tensorbin::{DataType, Layout, MemoryConfig};

/// The header of a file: one tensor, or one spread in equal shards over a mesh of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The logical shape of **one shard**.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: DataType,
    /// Their order.
    pub layout: Layout,
    /// Where a device is to put them.
    pub memory: MemoryConfig,
    /// What ttnn rounds the trailing dimensions up to: the tile, or `[1]` row-major.
    pub alignment: Vec<u32>,
    /// The shape of the mesh of devices, `[1, 1]` for one.
    pub mesh_shape: Vec<u32>,
    /// The parts of the data region, one for each device that has one.
    pub shards: Vec<Shard>,
    /// How the shards make up the tensor; older or foreign writers may leave it out.
    pub topology: Option<Topology>,
}

/// One device's part of the data region. Replicas share one range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    /// The device's coordinate in the mesh.
    pub coordinate: Vec<u32>,
    /// First byte, counted from the start of the data region.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// How shards make up a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    /// The shape of the distribution; its positions are numbered row-major.
    pub shape: Vec<u32>,
    /// What each dimension of the distribution does.
    pub placements: Vec<Placement>,
    /// The mesh coordinate of each position.
    pub coordinates: Vec<Vec<u32>>,
}

/// What one dimension of a distribution does with the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Every position has the same data. ttnn writes the dimension -1 with it.
    Replicate,
    /// Positions have consecutive parts of the tensor's dimension; counted from the end when negative.
    Shard(i32),
}

/// The step that the data region and each shard start at, since ttnn 0.79 (before: 8).
pub const DATA_ALIGNMENT: usize = 64;

impl Header {
    /// The header of a whole tensor for one device, interleaved in DRAM.
    ///
    /// # Errors
    /// As [`Layout::data_bytes`].
    pub fn new(dtype: DataType, layout: Layout, shape: &[usize]) -> Result<Self, FormatError> {
        Self::placed(dtype, layout, shape, 1, Placement::Replicate)
    }

    /// The header of a tensor on `devices` devices in a row: mesh `[1, devices]`. `shape` is one shard's.
    ///
    /// # Errors
    /// As [`Layout::data_bytes`], and [`FormatError::HeaderField`] for no device.
    pub fn placed(
        dtype: DataType,
        layout: Layout,
        shape: &[usize],
        devices: u32,
        placement: Placement,
    ) -> Result<Self, FormatError> {
        let size = layout.data_bytes(dtype, shape)?;
        let overflow = || FormatError::ShapeOverflow {
            shape: shape.to_vec(),
        };
        let step = match placement {
            Placement::Replicate => 0,
            Placement::Shard(_) => size
                .checked_next_multiple_of(DATA_ALIGNMENT)
                .ok_or_else(overflow)? as u64,
        };
        let shard = |device: u32| {
            let offset = step.checked_mul(device.into()).ok_or_else(overflow)?;
            Ok(Shard {
                coordinate: vec![0, device],
                offset,
                size: size as u64,
            })
        };
        let alignment = match layout {
            Layout::RowMajor => vec![1],
            Layout::Tile { shape, .. } => shape.dimensions().to_vec(),
        };
        let header = Self {
            shape: shape.to_vec(),
            dtype,
            layout,
            memory: MemoryConfig::default(),
            alignment,
            mesh_shape: vec![1, devices],
            shards: (0..devices)
                .map(shard)
                .collect::<Result<_, FormatError>>()?,
            topology: Some(Topology {
                shape: vec![devices],
                placements: vec![placement],
                coordinates: (0..devices).map(|device| vec![0, device]).collect(),
            }),
        };
        header.check()?;
        Ok(header)
    }

    /// Bytes of the data region: up to the end of the last shard.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.offset.saturating_add(shard.size))
            .max()
            .unwrap_or(0)
    }

    /// What a header must hold to describe data at all; reader and writer ask it alike.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        let size = self.layout.data_bytes(self.dtype, &self.shape)? as u64;
        if self.shards.is_empty() {
            return Err(unexpected("shards", "at least one", "none"));
        }
        for (index, shard) in self.shards.iter().enumerate() {
            if shard.size != size {
                return Err(FormatError::ShardBytes {
                    shard: index,
                    expected: size,
                    found: shard.size,
                });
            }
            if shard.offset.checked_add(size).is_none() {
                return Err(FormatError::ShardRange {
                    shard: index,
                    offset: shard.offset,
                    size,
                    data: u64::MAX,
                });
            }
            self.check_coordinate("shards.coordinate", &shard.coordinate)?;
        }
        let mut coordinates: Vec<_> = self.shards.iter().map(|shard| &shard.coordinate).collect();
        coordinates.sort_unstable();
        if let Some(pair) = coordinates.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(unexpected(
                "shards.coordinate",
                "each once",
                format!("{:?} twice", pair[0]),
            ));
        }
        self.check_overlap()?;
        let Some(topology) = &self.topology else {
            return Ok(());
        };
        if topology.placements.len() != topology.shape.len() {
            let expected = format!("{} entries, one a dimension", topology.shape.len());
            return Err(unexpected(
                "topology.placements",
                expected,
                topology.placements.len().to_string(),
            ));
        }
        let mut coordinates = topology.coordinates.iter();
        coordinates
            .try_for_each(|coordinate| self.check_coordinate("topology.coordinates", coordinate))
    }

    fn check_coordinate(&self, field: &'static str, coordinate: &[u32]) -> Result<(), FormatError> {
        let inside = coordinate
            .iter()
            .zip(&self.mesh_shape)
            .all(|(at, size)| at < size);
        if inside && coordinate.len() == self.mesh_shape.len() {
            return Ok(());
        }
        Err(unexpected(
            field,
            format!("one inside mesh {:?}", self.mesh_shape),
            format!("{coordinate:?}"),
        ))
    }

    /// Shards lie apart, or are the same range (replicas).
    fn check_overlap(&self) -> Result<(), FormatError> {
        let mut ranges: Vec<_> = self
            .shards
            .iter()
            .enumerate()
            .map(|(index, shard)| (shard.offset, shard.size, index))
            .collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            let [(first_offset, size, first), (offset, _, second)] = pair else {
                continue;
            };
            if first_offset != offset && offset - first_offset < *size {
                return Err(FormatError::ShardOverlap {
                    first: *first,
                    second: *second,
                });
            }
        }
        Ok(())
    }
}

pub(super) fn unexpected(
    field: &'static str,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> FormatError {
    FormatError::HeaderField {
        field,
        expected: expected.into(),
        found: found.into(),
    }
}
