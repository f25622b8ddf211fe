//! The element types that can be packed.

#![expect(
    private_interfaces,
    unnameable_types,
    reason = "a sealed trait over the kernels, which stay private"
)]

use half::bf16;

use crate::arch::{Encoders, Kernels};

/// A number that packs as the f32 it stands for: `f32` itself, or `bf16` (widened exactly).
///
/// ttnn rounds other types to bf16 before it packs them (f16, f64, i64), and also f32 when the tensor's memory
/// config is sharded: convert to `bf16` first to get its bytes.
pub trait Source: Copy + Send + Sync + sealed::Encoded + 'static {
    /// The value as f32, exactly.
    fn widen(self) -> f32;
}

impl Source for f32 {
    fn widen(self) -> f32 {
        self
    }
}

impl Source for bf16 {
    fn widen(self) -> f32 {
        // Not `to_f32`, which makes signalling NaNs quiet: a payload is part of what is encoded.
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

pub(crate) mod sealed {
    use super::{Encoders, Kernels};

    pub trait Encoded: Sized {
        /// The kernels that read elements of this type.
        fn encoders(kernels: &Kernels) -> &Encoders<Self>;
    }
}

impl sealed::Encoded for f32 {
    fn encoders(kernels: &Kernels) -> &Encoders<Self> {
        &kernels.f32
    }
}

impl sealed::Encoded for bf16 {
    fn encoders(kernels: &Kernels) -> &Encoders<Self> {
        &kernels.bf16
    }
}
