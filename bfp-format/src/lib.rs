#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![deny(unsafe_code)]

#[expect(
    unsafe_code,
    reason = "SIMD kernels: features are detected once, every load and store is of a checked array"
)]
mod arch;
mod canonical;
mod codec;
pub mod definition;
mod error;
mod face;
mod finite;
mod format;
mod grid;
mod packing;
mod rounding;
mod source;
mod strided;
pub mod tensorbin;
mod tile;
mod tilize;

pub use arch::Isa;
pub use canonical::{NotCanonical, first_not_canonical};
pub use codec::{Codec, pack, pack_into, pack_transposed, unpack, unpack_into};
pub use error::FormatError;
pub use finite::{NonFinite, NonFiniteKind, coordinates, first_non_finite};
pub use format::{BlockFormat, GROUP};
pub use grid::TileGrid;
pub use packing::Packing;
pub use rounding::Rounding;
pub use source::Source;
pub use tile::TileShape;
pub use tilize::{tilize, untilize, untilize_into};
