//! Support for tests of several modules.

use crate::root::Root;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
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

/// Locks, as another user could, each file below a folder that others can open.
pub fn lock_what_others_can_open(folder: &Path) -> Vec<File> {
    let mut locked = Vec::new();
    let others =
        |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o5;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        match (path.is_dir(), others(&path)) {
            (true, 0o1 | 0o5) => locked.extend(lock_what_others_can_open(&path)),
            (false, 0o4 | 0o5) => {
                let file = File::open(&path).expect("readable");
                file.try_lock().expect("nobody holds it");
                locked.push(file);
            }
            _ => {}
        }
    }
    locked
}
