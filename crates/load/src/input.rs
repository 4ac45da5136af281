//! A file that is read more than once, and is closed in between.

use anyhow::Context;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read in one go.
const PIECE: usize = 1 << 20;

/// A file, and what it contained.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    digest: Digest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    bytes: u64,
    checksum: u32,
}

impl Input {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.into(), digest: digest(path)? })
    }

    /// Reads it again, and tells what is wrong where it is not what it was.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn check(&self, wrong: impl FnOnce(String)) -> anyhow::Result<()> {
        let (path, now) = (self.path.display(), digest(&self.path)?);
        if now != self.digest {
            wrong(format!("{path} is not what it was: {now:?}, not {:?}", self.digest));
        }
        Ok(())
    }
}

fn digest(path: &Path) -> anyhow::Result<Digest> {
    let read = || -> std::io::Result<Digest> {
        let mut file = File::open(path)?;
        let (mut hasher, mut bytes) = (crc32fast::Hasher::new(), 0);
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(Digest { bytes, checksum: hasher.finalize() }),
                read => {
                    bytes += read as u64;
                    hasher.update(&piece[..read]);
                }
            }
        }
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, vec![7; PIECE + 5]).unwrap();
        let input = Input::read(&path).unwrap();
        let wrong = || {
            let mut wrong = 0;
            input.check(|_| wrong += 1).map(|()| wrong)
        };
        assert_eq!(wrong().unwrap(), 0);
        let mut other = vec![7; PIECE + 5];
        other[PIECE] = 8;
        std::fs::write(&path, &other).unwrap();
        assert_eq!(wrong().unwrap(), 1);
        std::fs::write(&path, vec![7; PIECE + 4]).unwrap();
        assert_eq!(wrong().unwrap(), 1);
        std::fs::remove_file(&path).unwrap();
        assert!(wrong().is_err());
    }
}
