//! What tests of several modules use.

use crate::root::Root;
use std::path::Path;

/// A tree of files like those of `/proc` and `/sys`, gone when it is dropped.
#[derive(Debug)]
pub struct Tree {
    root: Root,
    _folder: tempfile::TempDir,
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        Self { root: Root::at(folder.path()), _folder: folder }
    }

    /// Its root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Makes a file, with the folders that lead to it, or replaces its contents.
    pub fn file(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
        let path = self.root.path(path);
        let folder = path.parent().expect("a path below the root");
        std::fs::create_dir_all(folder).expect("folders can be made");
        std::fs::write(path, contents).expect("files can be written");
    }

    /// Text of a file, without white space at its end.
    pub fn text(&self, path: impl AsRef<Path>) -> String {
        self.root.read(path).expect("the file is there")
    }
}
