//! Instruction sets, and which of them this CPU has.

use std::fmt;
use std::str::FromStr;

/// An instruction set with kernels of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Isa {
    /// Plain Rust: the definition.
    Scalar,
    /// x86-64 AVX2 with FMA.
    Avx2,
    /// x86-64 AVX-512 F, BW, DQ, VL.
    Avx512,
    /// [`Isa::Avx512`] with VBMI and the bf16 dot product.
    Avx512Bf16,
}

impl Isa {
    /// All of them, weakest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Avx512Bf16];

    /// Whether this CPU and operating system have it.
    #[must_use]
    pub fn is_present(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_present()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => {
                Self::Avx512.is_present()
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512bf16")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Those present, weakest first; [`Isa::Scalar`] always is.
    #[must_use]
    pub fn present() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|isa| isa.is_present())
            .collect()
    }

    /// The quickest present: the strongest, but for [`Isa::Avx512Bf16`] where a short measurement
    /// finds f32 fused multiply-adds quicker than bf16 dot products (some Intel cores).
    #[must_use]
    pub fn best() -> Self {
        let worth = |isa: &Self| {
            isa.is_present() && (*isa != Self::Avx512Bf16 || super::kernels::prefers_dot())
        };
        Self::ALL
            .into_iter()
            .rev()
            .find(worth)
            .unwrap_or(Self::Scalar)
    }

    /// The name that `--isa` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no instruction set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown instruction set {0:?}: expected scalar, avx2, avx512 or avx512bf16")]
pub struct UnknownIsa(pub String);

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|isa| isa.name() == text)
            .ok_or_else(|| UnknownIsa(text.to_owned()))
    }
}
