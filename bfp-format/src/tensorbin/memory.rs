//! Where a device is to put a tensor. On the host it changes nothing but the header.

/// How a tensor is spread over the banks or cores of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryLayout {
    /// Page by page over all banks.
    #[default]
    Interleaved,
    /// Cut along the height.
    HeightSharded,
    /// Cut along the width.
    WidthSharded,
    /// Cut along both.
    BlockSharded,
    /// Cut by an n-dimensional shard shape.
    NdSharded,
}

impl MemoryLayout {
    const CODES: [(u16, Self); 5] = [
        (0, Self::Interleaved),
        (2, Self::HeightSharded),
        (3, Self::WidthSharded),
        (4, Self::BlockSharded),
        (5, Self::NdSharded),
    ];

    pub(super) fn from_code(code: u16) -> Option<Self> {
        Self::CODES
            .into_iter()
            .find_map(|(known, layout)| (known == code).then_some(layout))
    }

    pub(super) fn code(self) -> u16 {
        Self::CODES
            .into_iter()
            .find_map(|(code, layout)| (layout == self).then_some(code))
            .unwrap_or(0)
    }
}

/// The memory that a device keeps a tensor in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BufferType {
    /// The card's DRAM.
    #[default]
    Dram,
    /// The cores' SRAM.
    L1,
    /// The host's memory.
    SystemMemory,
    /// The small part of the cores' SRAM.
    L1Small,
    /// The region of recorded commands.
    Trace,
}

impl BufferType {
    const ALL: [Self; 5] = [
        Self::Dram,
        Self::L1,
        Self::SystemMemory,
        Self::L1Small,
        Self::Trace,
    ];

    pub(super) fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub(super) const fn code(self) -> u16 {
        self as u16
    }
}

/// A core of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Core {
    /// Column.
    pub x: i32,
    /// Row.
    pub y: i32,
}

/// A rectangle of cores, both corners included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoreRange {
    /// Upper left corner.
    pub start: Core,
    /// Lower right corner.
    pub end: Core,
}

/// A two-dimensional sharding over cores. Orientation codes: 0 row-major, 1 column-major.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardSpec {
    /// The cores.
    pub grid: Vec<CoreRange>,
    /// Rows of a shard.
    pub height: u32,
    /// Columns of a shard.
    pub width: u32,
    /// The order in which cores take shards, ttnn's code.
    pub orientation: u8,
}

/// An n-dimensional sharding over cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NdShardSpec {
    /// Shape of a shard.
    pub shape: Vec<u32>,
    /// The cores.
    pub grid: Vec<CoreRange>,
    /// The order in which cores take shards, ttnn's code.
    pub orientation: u8,
    /// How shards are handed out to cores, ttnn's code.
    pub distribution: u8,
}

/// Where a device is to put a tensor. The default is interleaved in DRAM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryConfig {
    /// How it is spread.
    pub layout: MemoryLayout,
    /// In which memory.
    pub buffer: BufferType,
    /// Of a sharded layout.
    pub shard_spec: Option<ShardSpec>,
    /// The same (or more) in n dimensions.
    pub nd_shard_spec: Option<NdShardSpec>,
    /// Whether the n-dimensional form is the one that was given.
    pub made_with_nd: bool,
}
