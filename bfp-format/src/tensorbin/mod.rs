//! `.tensorbin`, the files of ttnn's `dump_tensor` and `load_tensor`.
//!
//! A file is `u64 header_size (little endian) | flatbuffer | zeros | data`, and the data starts at byte
//! `8 + header_size`. There is no magic and no version. Since ttnn 0.79 the data and every shard start at multiples of
//! 64, before of 8; both are read, the former is written.
//!
//! Bytes of tiles are those of [`pack`](crate::pack) for block formats and of [`tilize`](crate::tilize), little endian,
//! for others. A tensor over a mesh of devices has one shard for each, all of one shape; replicas share their bytes.
//!
//! ```
//! use bfp_format::tensorbin::{DataType, Header, Layout, TensorFile};
//! use bfp_format::{BlockFormat, pack};
//!
//! let values: Vec<f32> = (0..35u8).map(f32::from).collect();
//! let header = Header::new(DataType::BFloat8B, Layout::TILE, &[5, 7])?;
//! let file = header.to_file(&pack(&values, &[5, 7], BlockFormat::Bfp8)?)?;
//!
//! let read = TensorFile::parse(file)?;
//! assert_eq!(read.header().shape, [5, 7]);
//! assert_eq!(read.values()?.elements, values);
//! # Ok::<(), bfp_format::FormatError>(())
//! ```
//!
//! Source: files written and read by ttnn 0.76.0 and 0.81.1.

mod dtype;
mod file;
mod flat;
mod header;
mod memory;
mod parse;
mod schema;
mod values;
mod write;

pub use dtype::{DataType, Layout};
pub use file::TensorFile;
pub use header::{DATA_ALIGNMENT, Header, Placement, Shard, Topology};
pub use memory::{BufferType, Core, CoreRange, MemoryConfig, MemoryLayout, NdShardSpec, ShardSpec};
pub use values::Values;
