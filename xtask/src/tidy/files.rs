//! The text files of the repository, in memory.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// A text file.
#[derive(Debug)]
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl File {
    /// The part of the file's name after its last dot; empty where there is none.
    pub fn extension(&self) -> &str {
        let name = self.name();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.split_terminator('\n').enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// All files of a repository; text is held, of other files only the path.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, File>,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads what git tracks below `root`, and what it neither tracks nor ignores; everything but
    /// `target` where there is no git.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        for path in listed_by_git(root).map_or_else(|| walked(root), Ok)? {
            let whole = root.join(&path);
            if !whole.is_file() {
                continue; // deleted, and not committed yet
            }
            let bytes = std::fs::read(&whole).with_context(|| format!("cannot read {path}"))?;
            tree.add(path, String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')));
        }
        Ok(tree)
    }

    /// A tree made up of paths and texts.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add((*path).to_owned(), Some((*text).to_owned()));
        }
        tree
    }

    fn add(&mut self, path: String, text: Option<String>) {
        let mut end = path.len();
        self.paths.insert(path.clone());
        while let Some(slash) = path[..end].rfind('/') {
            end = slash;
            self.paths.insert(path[..end].to_owned());
        }
        if let Some(text) = text {
            self.files.insert(path.clone(), File { path, text });
        }
    }

    /// Text files in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// The text file at this path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Whether a file of any kind, or a folder, is at this path; the root is the empty path.
    pub fn contains(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8(output.stdout).ok()?;
    Some(names.split_terminator('\0').map(str::to_owned).collect())
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot list {folder}"))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if entry.file_type()?.is_file() {
                found.push(path);
            } else if entry.file_type()?.is_dir() && !["target", ".git"].contains(&name.as_str()) {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_extensions_and_folders() {
        let tree = Tree::of(&[("a/b/c.tar.gz", ""), ("a/Makefile", "x\ny")]);
        let file = |path| tree.get(path).expect("it is there");
        assert_eq!(file("a/b/c.tar.gz").extension(), "gz");
        assert_eq!(file("a/Makefile").extension(), "");
        assert_eq!(file("a/Makefile").name(), "Makefile");
        assert_eq!(file("a/Makefile").lines().collect::<Vec<_>>(), [(1, "x"), (2, "y")]);
        for path in ["", "a", "a/b", "a/b/c.tar.gz"] {
            assert!(tree.contains(path), "{path}");
        }
        assert!(!tree.contains("b"));
    }

    #[test]
    fn without_git_the_folder_is_walked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut walked = walked(root).expect("this package can be listed");
        walked.retain(|path| !path.starts_with("src/tidy/"));
        walked.sort();
        let fuzz = ["src/fuzz.rs", "src/fuzz/outcome.rs"];
        assert_eq!(walked, [&["Cargo.toml"], &fuzz[..], &["src/lab.rs", "src/main.rs"]].concat());
    }

    #[test]
    fn the_repository_itself_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::read(&root).expect("the repository can be read");
        assert!(tree.get("xtask/src/main.rs").is_some());
        assert!(tree.contains("crates/core") && !tree.contains("target"));
    }

    #[test]
    fn binary_files_are_known_but_not_read() {
        let mut tree = Tree::default();
        tree.add("corpus/one".to_owned(), None);
        assert!(tree.contains("corpus/one"));
        assert!(tree.get("corpus/one").is_none());
    }
}
