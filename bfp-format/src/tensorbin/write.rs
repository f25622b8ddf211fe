//! The header's flatbuffer, and whole files, written.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, VOffsetT, WIPOffset};

use crate::FormatError;
use crate::tensorbin::header::{DATA_ALIGNMENT, unexpected};
use crate::tensorbin::memory::{Core, CoreRange, NdShardSpec, ShardSpec};
use crate::tensorbin::schema::{INLINE_STORAGE, ROW_MAJOR_PAGE, TILE_PAGE};
use crate::tensorbin::{Header, Layout, MemoryConfig, Placement, Shard, Topology};

type Builder = FlatBufferBuilder<'static>;
type Written = WIPOffset<TableFinishedWIPOffset>;

impl Header {
    /// All that comes before the data region in a file: the header and its padding. The data follows at once, its
    /// first byte at a multiple of 64.
    ///
    /// # Errors
    /// What [`TensorFile::parse`](crate::tensorbin::TensorFile::parse) would say about such a header, and
    /// [`FormatError::HeaderField`] for a shard that does not start at a multiple of 64.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        let step = DATA_ALIGNMENT as u64;
        if let Some(shard) = self.shards.iter().find(|shard| shard.offset % step != 0) {
            return Err(unexpected(
                "shards.storage",
                format!("a multiple of {step}"),
                shard.offset.to_string(),
            ));
        }
        let mut builder = FlatBufferBuilder::new();
        let root = tensor(&mut builder, self)?;
        builder.finish_minimal(root);
        let buffer = builder.finished_data();
        let start = (8 + buffer.len()).next_multiple_of(DATA_ALIGNMENT);
        let mut bytes = Vec::with_capacity(start);
        bytes.extend_from_slice(&((start - 8) as u64).to_le_bytes());
        bytes.extend_from_slice(buffer);
        bytes.resize(start, 0);
        Ok(bytes)
    }

    /// A whole file: the header, and `data` as its data region.
    ///
    /// # Errors
    /// As [`to_bytes`](Self::to_bytes), and [`FormatError::ShardRange`] when `data` is not as long as the header's
    /// [`data_bytes`](Self::data_bytes).
    pub fn to_file(&self, data: &[u8]) -> Result<Vec<u8>, FormatError> {
        let mut file = self.to_bytes()?;
        if data.len() as u64 != self.data_bytes() {
            let last = self
                .shards
                .iter()
                .enumerate()
                .max_by_key(|(_, shard)| shard.offset);
            let (shard, offset, size) = last.map_or((0, 0, 0), |(index, shard)| {
                (index, shard.offset, shard.size)
            });
            return Err(FormatError::ShardRange {
                shard,
                offset,
                size,
                data: data.len() as u64,
            });
        }
        file.extend_from_slice(data);
        Ok(file)
    }
}

/// The vtable place of field `index`: two sizes come first.
const fn slot(index: VOffsetT) -> VOffsetT {
    4 + 2 * index
}

/// A table with the fields that `fill` pushes. What they refer to must have been written before.
fn table(builder: &mut Builder, fill: impl FnOnce(&mut Builder)) -> Written {
    let start = builder.start_table();
    fill(builder);
    builder.end_table(start)
}

/// A table whose only field is a reference: the shape of most of the schema's small types.
fn boxed<T: 'static>(builder: &mut Builder, inner: WIPOffset<T>) -> Written {
    table(builder, |builder| builder.push_slot_always(slot(0), inner))
}

fn boxed_u32s(builder: &mut Builder, numbers: &[u32]) -> Written {
    let numbers = builder.create_vector(numbers);
    boxed(builder, numbers)
}

fn tensor(builder: &mut Builder, header: &Header) -> Result<Written, FormatError> {
    let spec = spec(builder, header)?;
    let mesh_shape = boxed_u32s(builder, &header.mesh_shape);
    let shards: Vec<_> = header
        .shards
        .iter()
        .map(|shard| self::shard(builder, shard))
        .collect();
    let shards = builder.create_vector(&shards);
    let topology = header
        .topology
        .as_ref()
        .map(|topology| self::topology(builder, topology));
    Ok(table(builder, |builder| {
        builder.push_slot_always(slot(0), spec);
        builder.push_slot_always(slot(1), mesh_shape);
        builder.push_slot_always(slot(2), shards);
        if let Some(topology) = topology {
            builder.push_slot_always(slot(3), topology);
        }
    }))
}

fn spec(builder: &mut Builder, header: &Header) -> Result<Written, FormatError> {
    let size = |&n: &usize| {
        u32::try_from(n).map_err(|_| unexpected("spec.shape", "sizes of 32 bits", n.to_string()))
    };
    let shape = header
        .shape
        .iter()
        .map(size)
        .collect::<Result<Vec<_>, _>>()?;
    let shape = builder.create_vector(&shape);
    let (kind, page) = page(builder, header.layout);
    let memory = memory(builder, &header.memory);
    let alignment = builder.create_vector(&header.alignment);
    let layout = table(builder, |builder| {
        builder.push_slot(slot(0), header.dtype.code(), 0);
        builder.push_slot(slot(1), kind, 0);
        builder.push_slot_always(slot(2), page);
        builder.push_slot_always(slot(3), memory);
        builder.push_slot_always(slot(4), alignment);
    });
    Ok(table(builder, |builder| {
        builder.push_slot_always(slot(0), shape);
        builder.push_slot_always(slot(1), layout);
    }))
}

fn page(builder: &mut Builder, layout: Layout) -> (u8, Written) {
    match layout {
        Layout::RowMajor => (ROW_MAJOR_PAGE, table(builder, |_| ())),
        Layout::Tile { shape, transposed } => {
            let [height, width] = shape.dimensions();
            let tile = table(builder, |builder| {
                builder.push_slot(slot(0), height, 0);
                builder.push_slot(slot(1), width, 0);
                builder.push_slot(slot(2), transposed, false);
            });
            (TILE_PAGE, boxed(builder, tile))
        }
    }
}

fn memory(builder: &mut Builder, memory: &MemoryConfig) -> Written {
    let shards = memory
        .shard_spec
        .as_ref()
        .map(|spec| shard_spec(builder, spec));
    let nd_shards = memory
        .nd_shard_spec
        .as_ref()
        .map(|spec| nd_shard_spec(builder, spec));
    table(builder, |builder| {
        builder.push_slot(slot(0), memory.layout.code(), 0);
        builder.push_slot(slot(1), memory.buffer.code(), 0);
        if let Some(shards) = shards {
            builder.push_slot_always(slot(2), shards);
        }
        if let Some(nd_shards) = nd_shards {
            builder.push_slot_always(slot(3), nd_shards);
        }
        builder.push_slot(slot(4), memory.made_with_nd, false);
    })
}

fn shard_spec(builder: &mut Builder, spec: &ShardSpec) -> Written {
    let grid = grid(builder, &spec.grid);
    table(builder, |builder| {
        builder.push_slot_always(slot(0), grid);
        builder.push_slot(slot(1), spec.height, 0);
        builder.push_slot(slot(2), spec.width, 0);
        builder.push_slot(slot(3), spec.orientation, 0);
    })
}

fn nd_shard_spec(builder: &mut Builder, spec: &NdShardSpec) -> Written {
    let shape = builder.create_vector(&spec.shape);
    let grid = grid(builder, &spec.grid);
    table(builder, |builder| {
        builder.push_slot_always(slot(0), shape);
        builder.push_slot_always(slot(1), grid);
        builder.push_slot(slot(2), spec.orientation, 0);
        builder.push_slot(slot(3), spec.distribution, 0);
    })
}

fn grid(builder: &mut Builder, ranges: &[CoreRange]) -> Written {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|range| {
            let [start, end] = [range.start, range.end].map(|Core { x, y }| {
                table(builder, |builder| {
                    builder.push_slot(slot(0), x, 0);
                    builder.push_slot(slot(1), y, 0);
                })
            });
            table(builder, |builder| {
                builder.push_slot_always(slot(0), start);
                builder.push_slot_always(slot(1), end);
            })
        })
        .collect();
    let ranges = builder.create_vector(&ranges);
    boxed(builder, ranges)
}

fn shard(builder: &mut Builder, shard: &Shard) -> Written {
    let coordinate = boxed_u32s(builder, &shard.coordinate);
    // A structure of two u64. The builder grows downwards, so the second field is pushed first.
    builder.push(shard.size);
    let storage = builder.push(shard.offset);
    table(builder, |builder| {
        builder.push_slot(slot(0), INLINE_STORAGE, 0);
        builder.push_slot_always(slot(1), storage);
        builder.push_slot_always(slot(2), coordinate);
    })
}

fn topology(builder: &mut Builder, topology: &Topology) -> Written {
    let shape = boxed_u32s(builder, &topology.shape);
    let placements: Vec<_> = topology
        .placements
        .iter()
        .map(|&placement| self::placement(builder, placement))
        .collect();
    let placements = builder.create_vector(&placements);
    let coordinates: Vec<_> = topology
        .coordinates
        .iter()
        .map(|at| boxed_u32s(builder, at))
        .collect();
    let coordinates = builder.create_vector(&coordinates);
    table(builder, |builder| {
        builder.push_slot_always(slot(0), shape);
        builder.push_slot_always(slot(1), placements);
        builder.push_slot_always(slot(2), coordinates);
    })
}

fn placement(builder: &mut Builder, placement: Placement) -> Written {
    let (kind, dimension) = match placement {
        Placement::Replicate => (0u8, -1),
        Placement::Shard(dimension) => (1, dimension),
    };
    table(builder, |builder| {
        builder.push_slot(slot(0), kind, 0);
        builder.push_slot(slot(1), dimension, 0);
    })
}
