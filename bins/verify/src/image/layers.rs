//! What the layers of an image add up to, without unpacking them.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};

use native_manifest::{Digester, Sha256Digest};
use tar::{Archive, EntryType};

use crate::image::Content;

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;
/// Deletes what lower layers have under the rest of the name.
const WHITEOUT: &str = ".wh.";
/// Deletes all that lower layers have in its folder.
const OPAQUE: &str = ".wh..wh..opq";

/// The file system after the layers applied so far. Source of the rules: OCI image specification 1.1, `layer.md`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    layers: usize,
}

#[derive(Debug)]
struct Node {
    layer: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    File { bytes: u64, sha256: Sha256Digest },
    Folder,
    Link(String),
    Other,
}

/// Why a layer cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayerError {
    #[error("the archive cannot be read: {0}")]
    Archive(#[from] io::Error),
    #[error("entry {path:?} leads out of the image")]
    Escape { path: String },
    #[error("entry {path:?} is a hard link to {target:?}, which is no file")]
    HardLink { path: String, target: String },
    #[error("entry {path:?} lies behind links in a circle")]
    Circle { path: String },
}

impl Tree {
    /// Applies the next layer: an uncompressed archive, which is read to its end.
    pub(crate) fn apply(&mut self, mut archive: impl Read) -> Result<(), LayerError> {
        let layer = self.layers;
        self.layers += 1;
        for entry in Archive::new(&mut archive).entries()? {
            let mut entry = entry?;
            let written = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let parts = parts(&written).ok_or_else(|| LayerError::Escape {
                path: written.clone(),
            })?;
            let Some((name, parents)) = parts.split_last() else {
                continue;
            };
            let circle = || LayerError::Circle {
                path: written.clone(),
            };
            let parent = self.resolve(parents).ok_or_else(circle)?;
            if *name == OPAQUE {
                self.remove_below(&parent, Some(layer));
                continue;
            }
            if let Some(name) = name.strip_prefix(WHITEOUT) {
                self.remove(&joined(&parent, name), Some(layer));
                continue;
            }
            let path = joined(&parent, name);
            let target = entry
                .link_name_bytes()
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let target = target.unwrap_or_default();
            let kind = match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                    hash(&mut entry)?
                }
                EntryType::Directory => Kind::Folder,
                EntryType::Symlink => Kind::Link(target),
                EntryType::Link => {
                    let found = self::parts(&target).and_then(|parts| {
                        let (name, parents) = parts.split_last()?;
                        let path = joined(&self.resolve(parents)?, name);
                        self.nodes.get(&path).map(|node| node.kind.clone())
                    });
                    match found {
                        Some(kind @ (Kind::File { .. } | Kind::Link(_) | Kind::Other)) => kind,
                        _ => {
                            return Err(LayerError::HardLink {
                                path: written,
                                target,
                            });
                        }
                    }
                }
                // Extended headers are applied by the reader; what else there is has no content.
                EntryType::XGlobalHeader | EntryType::XHeader => continue,
                _ => Kind::Other,
            };
            self.put(path, Node { layer, kind });
        }
        // A gzip stream keeps its checksum behind the archive.
        io::copy(&mut archive, &mut io::sink())?;
        Ok(())
    }

    /// What a container has at `path`, links followed.
    pub(crate) fn content(&self, path: &str) -> Content {
        let parts: Vec<&str> = path.split('/').collect();
        let Some(resolved) = self.resolve(&parts) else {
            return Content::Other;
        };
        match self.nodes.get(&resolved).map(|node| &node.kind) {
            Some(Kind::File { bytes, sha256 }) => Content::File {
                bytes: *bytes,
                sha256: *sha256,
            },
            Some(_) => Content::Other,
            None => Content::Absent,
        }
    }

    /// The path with all links followed inside the root; `None` for a circle.
    fn resolve(&self, parts: &[&str]) -> Option<String> {
        let mut rest: VecDeque<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        let mut at: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    at.pop();
                    continue;
                }
                _ => at.push(part),
            }
            if let Some(Node {
                kind: Kind::Link(target),
                ..
            }) = self.nodes.get(&at.join("/"))
            {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                at.pop();
                if target.starts_with('/') {
                    at.clear();
                }
                for part in target.split('/').rev() {
                    rest.push_front(part.to_owned());
                }
            }
        }
        Some(at.join("/"))
    }

    /// A folder over a folder keeps what is in it; everything else replaces what was there.
    fn put(&mut self, path: String, node: Node) {
        let keeps = matches!(node.kind, Kind::Folder)
            && matches!(
                self.nodes.get(&path),
                Some(Node {
                    kind: Kind::Folder,
                    ..
                })
            );
        if !keeps {
            self.remove_below(&path, None);
        }
        self.nodes.insert(path, node);
    }

    /// Removes a path and all below it; of layers under `layer` only, where one is given.
    fn remove(&mut self, path: &str, layer: Option<usize>) {
        if self
            .nodes
            .get(path)
            .is_some_and(|node| layer.is_none_or(|layer| node.layer < layer))
        {
            self.nodes.remove(path);
        }
        self.remove_below(path, layer);
    }

    fn remove_below(&mut self, path: &str, layer: Option<usize>) {
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        let is_below = |(name, _): &(&String, &Node)| name.starts_with(&prefix);
        let below = self.nodes.range(prefix.clone()..).take_while(is_below);
        let gone: Vec<String> = below
            .filter(|(_, node)| layer.is_none_or(|layer| node.layer < layer))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.nodes.remove(&name);
        }
    }
}

/// The parts of an entry's name; `None` for one that leads out. The root itself has no parts.
fn parts(name: &str) -> Option<Vec<&str>> {
    let parts = name
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    let parts: Vec<&str> = parts.collect();
    (!parts.contains(&"..")).then_some(parts)
}

fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}/{name}")
    }
}

fn hash(reader: &mut impl Read) -> io::Result<Kind> {
    let mut digester = Digester::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match reader.read(&mut piece)? {
            0 => break,
            read => digester.update(&piece[..read]),
        }
    }
    Ok(Kind::File {
        bytes: digester.bytes(),
        sha256: digester.finish(),
    })
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    /// An entry: name, and what it is.
    enum Entry {
        File(&'static str),
        Folder,
        Link(&'static str),
        Hard(&'static str),
    }

    fn layer(entries: &[(&str, Entry)]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (name, entry) in entries {
            let mut header = Header::new_gnu();
            // The library's own setters refuse names that an attacker would write.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            let (kind, data, target) = match entry {
                Entry::File(text) => (EntryType::Regular, *text, ""),
                Entry::Folder => (EntryType::Directory, "", ""),
                Entry::Link(target) => (EntryType::Symlink, "", *target),
                Entry::Hard(target) => (EntryType::Link, "", *target),
            };
            header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
            header.set_entry_type(kind);
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn file(text: &str) -> Content {
        Content::File {
            bytes: text.len() as u64,
            sha256: Sha256Digest::of(text.as_bytes()),
        }
    }

    fn tree(layers: &[Vec<u8>]) -> Tree {
        let mut tree = Tree::default();
        layers
            .iter()
            .for_each(|layer| tree.apply(layer.as_slice()).unwrap());
        tree
    }

    #[test]
    fn a_later_layer_wins_and_whiteouts_delete_lower_layers_only() {
        let first = layer(&[
            ("./a", Entry::File("1")),
            ("d/", Entry::Folder),
            ("d/x", Entry::File("x")),
            ("d/y", Entry::File("y")),
            ("o/", Entry::Folder),
            ("o/low", Entry::File("low")),
        ]);
        let second = layer(&[
            ("a", Entry::File("2")),
            ("d/.wh.x", Entry::File("")),
            ("o/new", Entry::File("new")),
            ("o/.wh..wh..opq", Entry::File("")),
        ]);
        let tree = tree(&[first, second, layer(&[("d", Entry::File("was a folder"))])]);
        assert_eq!(tree.content("a"), file("2"));
        assert_eq!(tree.content("d"), file("was a folder"));
        assert_eq!(tree.content("d/y"), Content::Absent);
        assert_eq!(tree.content("o/low"), Content::Absent);
        assert_eq!(tree.content("o/new"), file("new"));
        assert_eq!(tree.content("o"), Content::Other);
    }

    #[test]
    fn links_are_followed_inside_the_image() {
        let tree = tree(&[
            layer(&[
                ("usr/lib/", Entry::Folder),
                ("lib", Entry::Link("usr/lib")),
                ("abs", Entry::Link("/usr/lib/a")),
            ]),
            layer(&[
                ("lib/a", Entry::File("a")),
                ("lib/up", Entry::Link("../../../../usr/lib/a")),
            ]),
            layer(&[
                ("hard", Entry::Hard("lib/a")),
                ("c1", Entry::Link("c2")),
                ("c2", Entry::Link("c1")),
            ]),
        ]);
        for path in ["lib/a", "usr/lib/a", "abs", "lib/up", "hard"] {
            assert_eq!(tree.content(path), file("a"), "{path}");
        }
        assert_eq!(tree.content("c1"), Content::Other);
        assert_eq!(tree.content("lib/none"), Content::Absent);
    }

    #[test]
    fn hostile_entries_are_refused() {
        let refused = |entries: &[(&str, Entry)]| {
            Tree::default()
                .apply(layer(entries).as_slice())
                .unwrap_err()
        };
        assert!(
            matches!(refused(&[("../a", Entry::File("x"))]), LayerError::Escape { path } if path == "../a")
        );
        assert!(matches!(
            refused(&[("a/../../b", Entry::Folder)]),
            LayerError::Escape { .. }
        ));
        assert!(matches!(
            refused(&[("a", Entry::Hard("../b"))]),
            LayerError::HardLink { .. }
        ));
        assert!(matches!(
            refused(&[("a", Entry::Hard("none"))]),
            LayerError::HardLink { .. }
        ));
        let circle = [("a", Entry::Link("a")), ("a/b", Entry::File("x"))];
        assert!(matches!(refused(&circle), LayerError::Circle { .. }));
        let whole = layer(&[("a", Entry::File("0123456789"))]);
        let cut = Tree::default().apply(&whole[..515]).unwrap_err();
        assert!(matches!(cut, LayerError::Archive(_)));
    }
}
