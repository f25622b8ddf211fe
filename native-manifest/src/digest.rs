//! SHA-256 digests of a constant size, and the means to compute them while bytes pass by.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::ManifestError;

/// A SHA-256 digest: 32 bytes, written as 64 lower-case hexadecimal digits.
///
/// ```
/// use native_manifest::Sha256Digest;
/// let digest = Sha256Digest::of(b"");
/// assert!(digest.to_string().starts_with("e3b0c44298fc1c14"));
/// assert_eq!(digest.to_string().parse::<Sha256Digest>()?, digest);
/// # Ok::<(), native_manifest::ManifestError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Sha256Digest([u8; 32]);

impl Sha256Digest {
    /// The digest that has these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads `reader` to its end in pieces of 1 MiB; gives the digest and the number of bytes read.
    ///
    /// # Errors
    /// Whatever the reader reports.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut digester = Digester::new();
        let mut piece = vec![0; 1 << 20];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok((digester.clone().finish(), digester.bytes())),
                Ok(read) => digester.update(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Digest({self})")
    }
}

impl FromStr for Sha256Digest {
    type Err = ManifestError;

    fn from_str(text: &str) -> Result<Self, ManifestError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ManifestError::Invalid {
                what: "sha-256 digest",
                text: text.to_owned(),
                rule: "must be 64 lower-case hexadecimal digits",
            })
    }
}

impl TryFrom<String> for Sha256Digest {
    type Error = ManifestError;

    fn try_from(text: String) -> Result<Self, ManifestError> {
        text.parse()
    }
}

impl From<Sha256Digest> for String {
    fn from(digest: Sha256Digest) -> Self {
        digest.to_string()
    }
}

/// A SHA-256 that is fed piece by piece and counts the bytes.
///
/// ```
/// use native_manifest::{Digester, Sha256Digest};
/// let mut digester = Digester::new();
/// digester.update(b"ab");
/// digester.update(b"c");
/// assert_eq!(digester.bytes(), 3);
/// assert_eq!(digester.finish(), Sha256Digest::of(b"abc"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Digester {
    sha: Sha256,
    bytes: u64,
}

impl Digester {
    /// A digester that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The number of bytes taken so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of everything taken.
    pub fn finish(self) -> Sha256Digest {
        Sha256Digest(self.sha.finalize().into())
    }
}

pub(crate) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// `2 * N` lower-case hexadecimal digits as `N` bytes.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (hex_value(pair[0])? << 4) | hex_value(pair[1])?;
    }
    Some(bytes)
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_abc_is_the_one_of_fips_180() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256Digest::of(b"abc").to_string(), text);
    }

    #[test]
    fn anything_but_64_lower_case_digits_is_refused() {
        let good = "0".repeat(64);
        assert!(good.parse::<Sha256Digest>().is_ok());
        for bad in [
            "",
            "00",
            &"0".repeat(63),
            &"0".repeat(65),
            &"A".repeat(64),
            &"g".repeat(64),
            &"é".repeat(32),
        ] {
            assert!(
                matches!(
                    bad.parse::<Sha256Digest>(),
                    Err(ManifestError::Invalid {
                        what: "sha-256 digest",
                        ..
                    })
                ),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_reader_gives_the_digest_of_its_bytes_whatever_its_pieces() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let (digest, read) = Sha256Digest::of_reader(bytes.as_slice().take(u64::MAX)).unwrap();
        assert_eq!((digest, read), (Sha256Digest::of(&bytes), 3_000_000));
    }
}
