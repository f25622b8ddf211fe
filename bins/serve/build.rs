//! Lists the files of the demo package, so that they can be compiled in.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../../assets/demo-package").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut list = String::from("[\n");
    for file in files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        let name = name
            .to_str()
            .ok_or_else(|| io::Error::other("a name is not text"))?;
        list.push_str(&format!(
            "    ({:?}, include_bytes!({:?}).as_slice()),\n",
            name.replace('\\', "/"),
            file
        ));
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("demo_files.rs"), list)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
