#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod counting;
mod digest;
mod error;
mod files;
mod identity;
mod inventory;
mod json;
#[expect(
    unsafe_code,
    reason = "mapping a file is unsafe: the file must not change while it is mapped"
)]
mod map;
mod path;
mod progress;
pub mod proof;
mod record;
mod report;
pub mod schema;
mod snapshot;
mod statement;
mod stored;
mod sums;
#[cfg(feature = "testing")]
pub mod testing;
mod verify;
mod writer;

pub use counting::elements;
pub use digest::{Digester, Sha256Digest};
pub use error::ManifestError;
pub use files::EmbeddedFile;
pub use identity::{CommitId, RepoId, Revision};
pub use inventory::{Entry, Inventory, Totals};
pub use json::to_json;
pub use map::map_file;
pub use path::{PackagePath, PathRule};
pub use progress::Progress;
pub use record::{Stamp, VerifiedRecord};
pub use report::{Finding, FindingClass, FindingKind, Report};
pub use schema::{
    LosslessTensor, ModelIdentity, MtpRecord, NativeManifest, PrecisionOverrides, PrecisionSummary,
    Publication, RuntimeRelease, TensorOrigin, TensorRecord, TensorTotals,
};
pub use snapshot::{Claimed, Snapshot, Tensor, Verified};
pub use statement::in_toto_statement;
pub use stored::{ImageRef, StoredLayout, StoredType};
pub use sums::Sha256Sums;
pub use verify::VerifyOptions;
pub use writer::{Colophon, FileSink, PackageWriter};
