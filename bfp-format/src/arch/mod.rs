//! The kernels, one table an instruction set, chosen once.

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::fmt;
use std::sync::LazyLock;

use half::bf16;

use crate::{BlockFormat, Rounding};

/// An instruction set that the codec has kernels for. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Isa {
    /// Portable code: the definition.
    Scalar,
    /// x86-64 with AVX2.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// The instruction sets of this machine, slowest first. The first is always [`Isa::Scalar`].
    pub fn present() -> impl Iterator<Item = Self> {
        [Self::Scalar, Self::Avx2, Self::Avx512]
            .into_iter()
            .filter(|isa| isa.kernels().is_some())
    }

    /// `scalar`, `avx2` or `avx512`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    pub(crate) fn kernels(self) -> Option<&'static Kernels> {
        match self {
            Self::Scalar => Some(&scalar::KERNELS),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx512 => x86_64::kernels(self),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => None,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The table of the best instruction set present.
pub(crate) fn best() -> &'static Kernels {
    static BEST: LazyLock<&'static Kernels> = LazyLock::new(|| {
        Isa::present()
            .filter_map(Isa::kernels)
            .last()
            .unwrap_or(&scalar::KERNELS)
    });
    *BEST
}

/// The functions of one instruction set. A call works on one face; what its slices must hold is asserted.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub(crate) isa: Isa,
    pub(crate) f32: Encoders<f32>,
    pub(crate) bf16: Encoders<bf16>,
    pub(crate) decode_rows: DecodeRows,
}

/// The functions that read elements of type `S`.
#[derive(Debug)]
pub(crate) struct Encoders<S> {
    pub(crate) rows: EncodeRows<S>,
    pub(crate) columns: EncodeColumns<S>,
}

/// Encodes `source[r * stride..][..16]` as group `r`, one for each exponent:
/// `(format, rounding, source, stride, exponents, codes)`.
type EncodeRows<S> = fn(BlockFormat, Rounding, &[S], usize, &mut [u8], &mut [u8]);

/// Encodes `source[r], source[stride + r], .., source[15 * stride + r]` as group `r`, for 16 of them:
/// `(format, rounding, source, stride, exponents, codes)`.
type EncodeColumns<S> = fn(BlockFormat, Rounding, &[S], usize, &mut [u8; 16], &mut [u8]);

/// Writes group `r` to `out[r * stride..][..16]`, one for each exponent: `(format, exponents, codes, out, stride)`.
type DecodeRows = fn(BlockFormat, &[u8], &[u8], &mut [f32], usize);
