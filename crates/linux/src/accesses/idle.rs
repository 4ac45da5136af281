//! Idle page tracking: a bit for every physical page that says "not touched since it was set".
//!
//! Source: `Documentation/admin-guide/mm/idle_page_tracking.rst` in the kernel
//! (`CONFIG_IDLE_PAGE_TRACKING`).

use crate::error::LinuxError;
use crate::root::Root;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
const BITS: u64 = 64;
const WORD_BYTES: usize = 8;
/// Words that are read or written at once.
const MOST_WORDS: usize = 512;

/// The kernel's bitmap, one bit for each page frame. Touches through any mapping clear it. Frames
/// that are not in the page lists of user memory are never idle; of a huge folio only the first
/// frame counts, for all of it.
#[derive(Debug)]
pub struct IdleBitmap {
    file: File,
    path: PathBuf,
}

impl IdleBitmap {
    /// Opens it.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where the kernel has none; without the right to it.
    pub fn open(root: &Root) -> Result<Self, LinuxError> {
        let path = root.path(BITMAP);
        match File::options().read(true).write(true).open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(LinuxError::Unsupported {
                    what: "the kernel does not track idle pages".into(),
                    hint: "needs CONFIG_IDLE_PAGE_TRACKING, which Fedora and RHEL have".into(),
                })
            }
            Err(error) => Err(LinuxError::io("open", path, &error)),
        }
    }

    /// Marks frames as idle. Ascending frames take fewer calls than others. Clears the access bits
    /// of their mappings.
    ///
    /// # Errors
    /// Where the kernel refuses, for frames beyond its memory for example.
    pub fn mark(&self, frames: &[u64]) -> Result<(), LinuxError> {
        let words = words(frames);
        for run in runs(&words) {
            let bytes: Vec<u8> = run.iter().flat_map(|(_, bits)| bits.to_ne_bytes()).collect();
            self.file
                .write_all_at(&bytes, run[0].0 * WORD_BYTES as u64)
                .map_err(|error| LinuxError::io("write", &self.path, &error))?;
        }
        Ok(())
    }

    /// Whether each of `frames` is still idle, in their order. Frames beyond the kernel's memory
    /// are not.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn are_idle(&self, frames: &[u64]) -> Result<Vec<bool>, LinuxError> {
        let mut words = words(frames);
        words.sort_unstable_by_key(|(word, _)| *word);
        words.dedup_by_key(|(word, _)| *word);
        let mut found = words.clone();
        let mut at = 0;
        let mut bytes = vec![0; MOST_WORDS * WORD_BYTES];
        for run in runs(&words) {
            let bytes = &mut bytes[..run.len() * WORD_BYTES];
            bytes.fill(0);
            self.read(bytes, run[0].0 * WORD_BYTES as u64)?;
            for chunk in bytes.chunks_exact(WORD_BYTES) {
                found[at].1 = u64::from_ne_bytes(chunk.try_into().unwrap_or_default());
                at += 1;
            }
        }
        let is_idle = |frame: &u64| {
            let at = found.binary_search_by_key(&(frame / BITS), |(word, _)| *word);
            at.is_ok_and(|at| found[at].1 & 1 << (frame % BITS) != 0)
        };
        Ok(frames.iter().map(is_idle).collect())
    }

    /// Fills as much of `bytes` as the file has.
    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), LinuxError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                // Beyond the last frame the kernel answers so instead of with an end.
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => break,
                Err(error) => return Err(LinuxError::io("read", &self.path, &error)),
            }
        }
        Ok(())
    }
}

/// Words of the bitmap with the bits of `frames`; neighbours of one word together.
fn words(frames: &[u64]) -> Vec<(u64, u64)> {
    let mut words: Vec<(u64, u64)> = Vec::new();
    for frame in frames {
        let (word, bit) = (frame / BITS, 1 << (frame % BITS));
        match words.last_mut() {
            Some((last, bits)) if *last == word => *bits |= bit,
            _ => words.push((word, bit)),
        }
    }
    words
}

/// Stretches of consecutive words, none too long for one call.
fn runs(words: &[(u64, u64)]) -> impl Iterator<Item = &[(u64, u64)]> {
    words.chunk_by(|(a, _), (b, _)| a + 1 == *b).flat_map(|run| run.chunks(MOST_WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use proptest::prelude::*;

    fn bitmap(bytes: &[u8]) -> (Tree, IdleBitmap) {
        let tree = Tree::new();
        tree.file(BITMAP, bytes);
        let bitmap = IdleBitmap::open(tree.root()).expect("it is there");
        (tree, bitmap)
    }

    #[test]
    fn a_kernel_without_it_is_told_apart() {
        let error = IdleBitmap::open(Tree::new().root()).expect_err("there is none").to_string();
        assert!(error.contains("hint: needs CONFIG_IDLE_PAGE_TRACKING"), "{error}");
    }

    #[test]
    fn bits_are_written_where_the_kernel_looks_for_them() {
        let (tree, bitmap) = bitmap(&[0; 32]);
        bitmap.mark(&[0, 63, 64, 200]).expect("a file can be written");
        let bytes = std::fs::read(tree.root().path(BITMAP)).expect("it is there");
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect();
        assert_eq!(words, [1 | 1 << 63, 1, 0, 1 << 8]);
    }

    proptest! {
        #[test]
        fn what_is_marked_is_idle(
            marked in proptest::collection::btree_set(0u64..50_000, 0..300),
            asked in proptest::collection::vec(0u64..60_000, 0..300),
        ) {
            let (_tree, bitmap) = bitmap(&[0; 50_048 / 8]);
            let frames: Vec<u64> = marked.iter().copied().collect();
            bitmap.mark(&frames).expect("a file can be written");
            let idle = bitmap.are_idle(&asked).expect("a file can be read");
            let expected: Vec<bool> = asked.iter().map(|frame| marked.contains(frame)).collect();
            prop_assert_eq!(idle, expected);
            prop_assert!(bitmap.are_idle(&frames).expect("a file can be read").iter().all(|i| *i));
        }
    }
}
