//! Precisions, presets, and the overrides a user types.

use std::fmt;
use std::str::FromStr;

use bfp_format::BlockFormat;
use qwen35_model::tensors::TensorRole;
use regex::Regex;
use serde::{Serialize, Serializer};

/// How a package stores a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// BFP4_b: 4.5 bits an element.
    Bfp4,
    /// BFP8_b: 8.5 bits an element.
    Bfp8,
    /// bfloat16.
    Bf16,
    /// IEEE binary32.
    F32,
}

impl Precision {
    /// The name in plans and manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfp4 => "bfp4_b",
            Self::Bfp8 => "bfp8_b",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
        }
    }

    /// The block format, where it is one.
    #[must_use]
    pub const fn block(self) -> Option<BlockFormat> {
        match self {
            Self::Bfp4 => Some(BlockFormat::Bfp4),
            Self::Bfp8 => Some(BlockFormat::Bfp8),
            Self::Bf16 | Self::F32 => None,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Precision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A starting point for the precisions of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// Every linear in BFP8.
    Bfp8,
    /// Every linear in BFP4, but for the projections to one number a head.
    Bfp4,
    /// MLP gate and up in BFP4, the rest in BFP8: what tt-metal's demo of this family does
    /// (tenstorrent/tt-metal `models/demos/blackhole/qwen36`).
    #[default]
    Mixed,
}

impl Preset {
    /// The name that `--preset` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfp8 => "bfp8",
            Self::Bfp4 => "bfp4",
            Self::Mixed => "mixed",
        }
    }

    /// What a linear of this role gets.
    #[must_use]
    pub const fn linear(self, role: TensorRole) -> Precision {
        match (self, role) {
            (Self::Bfp4, TensorRole::DeltaGate) => Precision::Bfp8,
            (Self::Bfp4, _) | (Self::Mixed, TensorRole::Widen) => Precision::Bfp4,
            (Self::Bfp8 | Self::Mixed, _) => Precision::Bfp8,
        }
    }
}

/// A name that is no preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown preset {0:?}: expected bfp8, bfp4 or mixed")]
pub struct UnknownPreset(pub String);

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Bfp8, Self::Bfp4, Self::Mixed]
            .into_iter()
            .find(|preset| preset.name() == text)
            .ok_or_else(|| UnknownPreset(text.to_owned()))
    }
}

/// `REGEX=PRECISION`: linears whose name the expression matches get that precision; of several that match,
/// the last one given counts.
#[derive(Clone, Debug)]
pub struct Override {
    /// Matched anywhere in the canonical name.
    pub pattern: Regex,
    /// What they get.
    pub precision: Precision,
}

/// Why an override cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// No `=`.
    #[error("{0:?} is not of the form REGEX=bfp4|bfp8|bf16|f32")]
    Form(String),
    /// An unknown precision.
    #[error("unknown precision {0:?}: expected bfp4, bfp8, bf16 or f32")]
    Precision(String),
    /// A malformed expression.
    #[error("{pattern:?} is not a regular expression")]
    Pattern {
        /// As typed.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: Box<regex::Error>,
    },
}

impl FromStr for Override {
    type Err = OverrideError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (pattern, precision) = text
            .rsplit_once('=')
            .ok_or_else(|| OverrideError::Form(text.to_owned()))?;
        let precision = match precision {
            "bfp4" => Precision::Bfp4,
            "bfp8" => Precision::Bfp8,
            "bf16" => Precision::Bf16,
            "f32" => Precision::F32,
            other => return Err(OverrideError::Precision(other.to_owned())),
        };
        let compiled = Regex::new(pattern).map_err(|source| OverrideError::Pattern {
            pattern: pattern.to_owned(),
            source: Box::new(source),
        })?;
        Ok(Self {
            pattern: compiled,
            precision,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read_and_their_faults_named() {
        let good: Override = r"layers\.[0-3]\.mlp\..*=bfp8".parse().unwrap();
        assert!(good.pattern.is_match("layers.2.mlp.up_proj.weight"));
        assert_eq!(good.precision, Precision::Bfp8);
        assert!(matches!(
            "mlp".parse::<Override>(),
            Err(OverrideError::Form(_))
        ));
        assert!(
            matches!("mlp=int4".parse::<Override>(), Err(OverrideError::Precision(p)) if p == "int4")
        );
        assert!(matches!(
            "(=bfp4".parse::<Override>(),
            Err(OverrideError::Pattern { .. })
        ));
    }
}
