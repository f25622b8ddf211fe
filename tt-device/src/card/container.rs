//! The command line of the release's container, and nothing that runs it.
//!
//! The Docker CLI is called with exactly the arguments of [`Container::run_arguments`]: the port on loopback only, the
//! checkpoint read-only, the tensor cache, the one device, both hugepage mounts, and `/dev/shm`, without which the
//! vendor's lock on the card would mean nothing outside the container. No privilege, no network of the host, no variable.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::error::CardError;
use super::preflight::{HUGEPAGES, HUGEPAGES_1G};

/// Where the checkpoint stands in the container.
pub const CHECKPOINT: &str = "/checkpoint";
/// Where the tensor cache stands in the container.
pub const TENSOR_CACHE: &str = "/tensor-cache";
/// Port that the server listens on in the container.
pub const INNER_PORT: u16 = 8000;

/// An image named by its digest. A tag can be moved to other bytes, so it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRef {
    name: String,
    digest: String,
}

impl ImageRef {
    /// The name before the `@`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `sha256:` and 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl FromStr for ImageRef {
    type Err = CardError;

    /// Reads `[registry[:port]/]name@sha256:<64 digits>`.
    fn from_str(given: &str) -> Result<Self, CardError> {
        let refuse = |reason| CardError::Image {
            given: given.to_owned(),
            reason,
        };
        let (name, digest) = given
            .split_once('@')
            .ok_or_else(|| refuse("it must be pinned: name@sha256:digest"))?;
        let digits = digest
            .strip_prefix("sha256:")
            .ok_or_else(|| refuse("only sha256 digests are known"))?;
        if digits.len() != 64
            || !digits
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Err(refuse("a digest has 64 lower-case hexadecimal digits"));
        }
        let last = name.rsplit('/').next().unwrap_or_default();
        if last.contains(':') {
            return Err(refuse(
                "a tag beside a digest is ignored by Docker and misleads; leave it out",
            ));
        }
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-/:".contains(&b);
        let shaped = !name.is_empty()
            && name.bytes().all(allowed)
            && name.split('/').all(|part| !part.is_empty());
        if !shaped || !name.as_bytes()[0].is_ascii_alphanumeric() {
            return Err(refuse("the name has characters that no image name has"));
        }
        Ok(Self {
            name: name.to_owned(),
            digest: digest.to_owned(),
        })
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.digest)
    }
}

/// A container of one release on one card.
#[derive(Clone, Debug)]
pub struct Container {
    /// The image.
    pub image: ImageRef,
    /// Name of the container, for a person who looks at a list of them.
    pub name: String,
    /// Port on 127.0.0.1 of the host.
    pub port: u16,
    /// The card.
    pub card: u32,
    /// Folder of the verified checkpoint, mounted read-only.
    pub checkpoint: PathBuf,
    /// Folder that the runtime may write converted tensors to, if there is one.
    pub tensor_cache: Option<PathBuf>,
    /// File that Docker writes the container's identity to.
    pub id_file: PathBuf,
    /// Arguments of the server in the container.
    pub server_arguments: Vec<String>,
}

impl Container {
    /// Arguments of `docker` that run it in the foreground.
    ///
    /// # Errors
    ///
    /// [`CardError::Mount`] for a folder that is not absolute or whose name has a comma or a quotation mark, which Docker's
    /// mount option cannot carry.
    pub fn run_arguments(&self) -> Result<Vec<OsString>, CardError> {
        let device = format!("/dev/tenstorrent/{}", self.card);
        let mut arguments: Vec<OsString> = ["run", "--rm", "--name", &self.name, "--cidfile"]
            .map(Into::into)
            .into();
        arguments.push(self.id_file.clone().into());
        let publish = format!("127.0.0.1:{}:{INNER_PORT}", self.port);
        let device = format!("{device}:{device}");
        arguments.extend(["--publish", &publish, "--device", &device].map(Into::into));
        let mut mounts = vec![(self.checkpoint.as_path(), CHECKPOINT, true)];
        mounts.extend(
            self.tensor_cache
                .as_deref()
                .map(|folder| (folder, TENSOR_CACHE, false)),
        );
        mounts.extend(
            [HUGEPAGES, HUGEPAGES_1G, "/dev/shm"].map(|path| (Path::new(path), path, false)),
        );
        for (from, to, read_only) in mounts {
            arguments.push("--mount".into());
            arguments.push(mount(from, to, read_only)?);
        }
        arguments.push(self.image.to_string().into());
        arguments.extend(self.server_arguments.iter().map(Into::into));
        Ok(arguments)
    }
}

fn mount(from: &Path, to: &str, read_only: bool) -> Result<OsString, CardError> {
    let refuse = |reason| CardError::Mount {
        path: from.to_owned(),
        reason,
    };
    if !from.is_absolute() {
        return Err(refuse("it is not absolute"));
    }
    let text = from
        .to_str()
        .ok_or_else(|| refuse("its name is not UTF-8"))?;
    if text.contains([',', '"', '\n']) {
        return Err(refuse("its name has a comma or a quotation mark"));
    }
    let ending = if read_only { ",readonly" } else { "" };
    Ok(format!("type=bind,source={text},target={to}{ending}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> String {
        "ab".repeat(32)
    }

    #[test]
    fn only_a_pinned_image_is_an_image() {
        let good = format!(
            "registry.example:5000/team/qwen35-runtime@sha256:{}",
            digest()
        );
        assert_eq!(good.parse::<ImageRef>().unwrap().to_string(), good);
        for bad in [
            "runtime:latest".to_owned(),
            "runtime".to_owned(),
            format!("runtime:v1@sha256:{}", digest()),
            format!("runtime@sha512:{}", digest()),
            format!("runtime@sha256:{}", &digest()[1..]),
            format!("runtime@sha256:{}", digest().to_uppercase()),
            format!("@sha256:{}", digest()),
            format!("--privileged@sha256:{}", digest()),
            format!("a b@sha256:{}", digest()),
            format!("a//b@sha256:{}", digest()),
        ] {
            assert!(
                matches!(bad.parse::<ImageRef>(), Err(CardError::Image { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_folder_cannot_smuggle_in_a_mount_option() {
        let path = Path::new("/cache,readonly=false");
        assert!(matches!(
            mount(path, "/x", true),
            Err(CardError::Mount { .. })
        ));
        assert!(matches!(
            mount(Path::new("relative"), "/x", true),
            Err(CardError::Mount { .. })
        ));
        assert_eq!(
            mount(Path::new("/a b"), "/x", true).unwrap(),
            "type=bind,source=/a b,target=/x,readonly"
        );
    }
}
