//! The header's flatbuffer, read. Slots are ttnn 0.81's schema (`tensor.fbs` of tenstorrent/tt-metal).

use crate::tensorbin::flat::Table;
use crate::tensorbin::header::unexpected;
use crate::tensorbin::memory::{Core, CoreRange, NdShardSpec, ShardSpec};
use crate::tensorbin::schema::{INLINE_STORAGE, ROW_MAJOR_PAGE, TILE_PAGE};
use crate::tensorbin::{
    BufferType, DataType, Header, Layout, MemoryConfig, MemoryLayout, Placement, Shard, Topology,
};
use crate::{FormatError, TileShape};

impl Header {
    /// The header of the flatbuffer `buffer`, checked.
    pub(super) fn from_flatbuffer(buffer: &[u8]) -> Result<Self, FormatError> {
        let tensor = Table::root(buffer, "tensor")?;
        let spec = tensor.required(0, "spec")?;
        let layout = spec.required(1, "spec.layout")?;
        let shards = tensor.tables(2, "shards")?;
        let header = Self {
            shape: dimensions(&spec)?,
            dtype: dtype(&layout)?,
            layout: page(&layout)?,
            memory: memory(&layout.required(3, "spec.layout.memory_config")?)?,
            alignment: layout.u32s(4, "spec.layout.alignment")?,
            mesh_shape: tensor.required(1, "mesh_shape")?.u32s(0, "mesh_shape")?,
            shards: shards.iter().map(shard).collect::<Result<_, _>>()?,
            topology: tensor
                .table(3, "topology")?
                .map(|table| topology(&table))
                .transpose()?,
        };
        header.check()?;
        Ok(header)
    }
}

fn dimensions(spec: &Table<'_>) -> Result<Vec<usize>, FormatError> {
    let dimensions = spec.u32s(0, "spec.shape")?;
    let count = |n: &u32| {
        usize::try_from(*n).map_err(|_| unexpected("spec.shape", "countable sizes", n.to_string()))
    };
    dimensions.iter().map(count).collect()
}

fn dtype(layout: &Table<'_>) -> Result<DataType, FormatError> {
    let field = "spec.layout.dtype";
    let code = layout.u8(0, field)?;
    DataType::from_code(code).ok_or(FormatError::UnknownCode {
        field,
        found: code.into(),
    })
}

fn page(layout: &Table<'_>) -> Result<Layout, FormatError> {
    let field = "spec.layout.page";
    match layout.u8(1, field)? {
        ROW_MAJOR_PAGE => Ok(Layout::RowMajor),
        TILE_PAGE => {
            let tile = layout
                .required(2, field)?
                .required(0, "spec.layout.page.tile")?;
            let [height, width] = [
                tile.u32(0, "spec.layout.page.tile")?,
                tile.u32(1, "spec.layout.page.tile")?,
            ];
            let count = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
            let shape = TileShape::new(count(height), count(width))?;
            Ok(Layout::Tile {
                shape,
                transposed: tile.u8(2, "spec.layout.page.tile")? != 0,
            })
        }
        code => Err(FormatError::UnknownCode {
            field,
            found: code.into(),
        }),
    }
}

fn memory(table: &Table<'_>) -> Result<MemoryConfig, FormatError> {
    let field = "spec.layout.memory_config.layout";
    let code = table.u16(0, field)?;
    let layout =
        MemoryLayout::from_code(code).ok_or(FormatError::UnknownCode { field, found: code })?;
    let field = "spec.layout.memory_config.buffer";
    let code = table.u16(1, field)?;
    let buffer =
        BufferType::from_code(code).ok_or(FormatError::UnknownCode { field, found: code })?;
    let shards = table.table(2, "spec.layout.memory_config.shard_spec")?;
    let nd_shards = table.table(3, "spec.layout.memory_config.nd_shard_spec")?;
    Ok(MemoryConfig {
        layout,
        buffer,
        shard_spec: shards.map(|table| shard_spec(&table)).transpose()?,
        nd_shard_spec: nd_shards.map(|table| nd_shard_spec(&table)).transpose()?,
        made_with_nd: table.u8(4, "spec.layout.memory_config.made_with_nd")? != 0,
    })
}

fn shard_spec(table: &Table<'_>) -> Result<ShardSpec, FormatError> {
    let field = "spec.layout.memory_config.shard_spec";
    Ok(ShardSpec {
        grid: grid(table, 0, field)?,
        height: table.u32(1, field)?,
        width: table.u32(2, field)?,
        orientation: table.u8(3, field)?,
    })
}

fn nd_shard_spec(table: &Table<'_>) -> Result<NdShardSpec, FormatError> {
    let field = "spec.layout.memory_config.nd_shard_spec";
    Ok(NdShardSpec {
        shape: table.u32s(0, field)?,
        grid: grid(table, 1, field)?,
        orientation: table.u8(2, field)?,
        distribution: table.u8(3, field)?,
    })
}

fn grid(
    table: &Table<'_>,
    slot: usize,
    field: &'static str,
) -> Result<Vec<CoreRange>, FormatError> {
    let core = |range: &Table<'_>, slot| {
        let Some(core) = range.table(slot, field)? else {
            return Ok(Core::default());
        };
        Ok(Core {
            x: core.i32(0, field)?,
            y: core.i32(1, field)?,
        })
    };
    let Some(grid) = table.table(slot, field)? else {
        return Ok(Vec::new());
    };
    let ranges = grid.tables(0, field)?;
    ranges
        .iter()
        .map(|range| {
            Ok(CoreRange {
                start: core(range, 0)?,
                end: core(range, 1)?,
            })
        })
        .collect()
}

fn shard(table: &Table<'_>) -> Result<Shard, FormatError> {
    let field = "shards.storage";
    match table.u8(0, field)? {
        INLINE_STORAGE => {
            let [offset, size] = table.u64_pair(1, field)?;
            let coordinate = table
                .required(2, "shards.coordinate")?
                .u32s(0, "shards.coordinate")?;
            Ok(Shard {
                coordinate,
                offset,
                size,
            })
        }
        code => Err(FormatError::UnknownCode {
            field,
            found: code.into(),
        }),
    }
}

fn topology(table: &Table<'_>) -> Result<Topology, FormatError> {
    let placements = table.tables(1, "topology.placements")?;
    let coordinates = table.tables(2, "topology.coordinates")?;
    Ok(Topology {
        shape: table
            .required(0, "topology.shape")?
            .u32s(0, "topology.shape")?,
        placements: placements.iter().map(placement).collect::<Result<_, _>>()?,
        coordinates: coordinates
            .iter()
            .map(|table| table.u32s(0, "topology.coordinates"))
            .collect::<Result<_, _>>()?,
    })
}

fn placement(table: &Table<'_>) -> Result<Placement, FormatError> {
    let field = "topology.placements";
    match table.u8(0, field)? {
        0 => Ok(Placement::Replicate),
        1 => Ok(Placement::Shard(table.i32(1, field)?)),
        code => Err(FormatError::UnknownCode {
            field,
            found: code.into(),
        }),
    }
}
