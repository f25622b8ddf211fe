//! The vocabulary of stored tensors: element types, orders, images.

use std::fmt;
use std::str::FromStr;

use bfp_format::BlockFormat;
use bfp_format::tensorbin::{DataType, Layout};
use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;
use crate::error::ManifestError;

/// Element types of stored tensors: those that a `.tensorbin` file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoredType {
    /// Block float, 8 bits an element and 8 for each 16.
    #[serde(rename = "bfp8_b")]
    Bfp8,
    /// Block float, 4 bits an element and 8 for each 16.
    #[serde(rename = "bfp4_b")]
    Bfp4,
    /// bfloat16.
    #[serde(rename = "bf16")]
    Bf16,
    /// IEEE 754 binary32.
    #[serde(rename = "f32")]
    F32,
    /// Unsigned, 8 bits.
    #[serde(rename = "u8")]
    U8,
    /// Unsigned, 16 bits.
    #[serde(rename = "u16")]
    U16,
    /// Unsigned, 32 bits.
    #[serde(rename = "u32")]
    U32,
    /// Signed, 8 bits.
    #[serde(rename = "i8")]
    I8,
    /// Signed, 32 bits.
    #[serde(rename = "i32")]
    I32,
}

/// Orders of stored elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoredLayout {
    /// 32x32 tiles of 16x16 faces, both trailing dimensions padded to whole tiles.
    #[serde(rename = "tile-32x32")]
    Tile,
    /// Row after row, unpadded.
    #[serde(rename = "row-major")]
    RowMajor,
}

impl StoredType {
    /// All types.
    pub const ALL: [Self; 9] = [
        Self::Bfp8,
        Self::Bfp4,
        Self::Bf16,
        Self::F32,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::I8,
        Self::I32,
    ];

    /// The name that manifests carry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bfp8 => "bfp8_b",
            Self::Bfp4 => "bfp4_b",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::I8 => "i8",
            Self::I32 => "i32",
        }
    }

    /// The type as a `.tensorbin` header has it.
    pub const fn data_type(self) -> DataType {
        match self {
            Self::Bfp8 => DataType::BFloat8B,
            Self::Bfp4 => DataType::BFloat4B,
            Self::Bf16 => DataType::BFloat16,
            Self::F32 => DataType::Float32,
            Self::U8 => DataType::UInt8,
            Self::U16 => DataType::UInt16,
            Self::U32 => DataType::UInt32,
            Self::I8 => DataType::Int8,
            Self::I32 => DataType::Int32,
        }
    }

    /// The block format, for the two types that are one.
    pub const fn block_format(self) -> Option<BlockFormat> {
        match self {
            Self::Bfp8 => Some(BlockFormat::Bfp8),
            Self::Bfp4 => Some(BlockFormat::Bfp4),
            _ => None,
        }
    }
}

impl StoredLayout {
    /// The name that manifests carry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tile => "tile-32x32",
            Self::RowMajor => "row-major",
        }
    }

    /// The order as a `.tensorbin` header has it.
    pub const fn layout(self) -> Layout {
        match self {
            Self::Tile => Layout::TILE,
            Self::RowMajor => Layout::RowMajor,
        }
    }
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for StoredLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StoredType {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        Self::ALL
            .into_iter()
            .find(|dtype| dtype.name() == text)
            .ok_or_else(|| ManifestError::Invalid {
                what: "element type",
                text: text.to_owned(),
                rule: "must be bfp8_b, bfp4_b, bf16, f32, u8, u16, u32, i8 or i32",
            })
    }
}

/// A container image named so that it cannot change: `registry/repository@sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ImageRef {
    repository: String,
    digest: Sha256Digest,
}

impl ImageRef {
    /// Registry and repository, with neither tag nor digest.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest of the image's manifest.
    pub const fn digest(&self) -> Sha256Digest {
        self.digest
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@sha256:{}", self.repository, self.digest)
    }
}

impl FromStr for ImageRef {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        let refuse = |rule| ManifestError::Invalid {
            what: "image",
            text: text.to_owned(),
            rule,
        };
        let (repository, digest) = text
            .split_once("@sha256:")
            .ok_or_else(|| refuse("must be repository@sha256:digest, a tag may move"))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "./_-:".contains(c);
        // An option of a container runtime starts with a dash; a tag after the last slash would name something else.
        let has_tag = repository
            .rsplit('/')
            .next()
            .is_some_and(|last| last.contains(':'));
        if repository.is_empty()
            || !repository.chars().all(is_plain)
            || repository.starts_with('-')
            || has_tag
        {
            return Err(refuse(
                "must name a repository by letters, digits and ./_- without a tag",
            ));
        }
        Ok(Self {
            repository: repository.to_owned(),
            digest: digest.parse()?,
        })
    }
}

impl TryFrom<String> for ImageRef {
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Self, ManifestError> {
        text.parse()
    }
}

impl From<ImageRef> for String {
    fn from(image: ImageRef) -> Self {
        image.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json_and_come_back() {
        for dtype in StoredType::ALL {
            assert_eq!(
                serde_json::to_string(&dtype).unwrap(),
                format!("\"{dtype}\"")
            );
            assert_eq!(dtype.name().parse::<StoredType>().unwrap(), dtype);
            assert_eq!(dtype.data_type().block_format(), dtype.block_format());
        }
        for layout in [StoredLayout::Tile, StoredLayout::RowMajor] {
            assert_eq!(
                serde_json::to_string(&layout).unwrap(),
                format!("\"{layout}\"")
            );
        }
        assert!("bfp8".parse::<StoredType>().is_err());
    }

    #[test]
    fn an_image_is_named_by_digest_only() {
        let digest = "ab".repeat(32);
        let text = format!("registry.example:5000/qwen35/runtime@sha256:{digest}");
        let image: ImageRef = text.parse().unwrap();
        assert_eq!(image.repository(), "registry.example:5000/qwen35/runtime");
        assert_eq!(image.to_string(), text);
        for bad in [
            "registry.example/runtime:latest".to_owned(),
            format!("@sha256:{digest}"),
            format!("--privileged@sha256:{digest}"),
            format!("a b@sha256:{digest}"),
            format!("registry.example/runtime:latest@sha256:{digest}"),
            format!("runtime@sha256:{}", &digest[1..]),
        ] {
            assert!(
                matches!(bad.parse::<ImageRef>(), Err(ManifestError::Invalid { .. })),
                "{bad}"
            );
        }
    }
}
