//! Files of the kernel, as an input holds them: one behind the other, with a line `%%` between them.

use frostline_linux::Root;
use std::path::Path;
use tempfile::TempDir;

/// What stands between two files.
const BETWEEN: &[u8] = b"%%\n";

/// A folder in memory where there is such a place.
pub fn folder() -> TempDir {
    let builder = || tempfile::Builder::new().prefix("frostline-fuzz").to_owned();
    builder().tempdir_in("/dev/shm").or_else(|_| builder().tempdir()).expect("there is room")
}

/// Files below a folder of their own.
pub struct Tree(TempDir);

impl Tree {
    /// Writes the parts of `bytes` to these places, in their order. Those without a part do not exist.
    pub fn new(bytes: &[u8], places: &[&str]) -> Self {
        let tree = Self(folder());
        for (place, part) in places.iter().zip(parts(bytes)) {
            let path = tree.0.path().join(place.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))
                .expect("there is room");
            std::fs::write(path, part).expect("there is room");
        }
        tree
    }

    /// Where they are.
    pub fn root(&self) -> Root {
        Root::at(self.0.path())
    }
}

/// The parts of an input.
pub fn parts(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let at = bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN);
        done = at.is_none();
        let (part, rest) = bytes.split_at(at.unwrap_or(bytes.len()));
        bytes = rest.get(BETWEEN.len()..).unwrap_or_default();
        Some(part)
    })
}

/// The input that has these parts.
pub fn joined(parts: &[&str]) -> Vec<u8> {
    parts.join("%%\n").into_bytes()
}
