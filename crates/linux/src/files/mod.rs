//! Files that programs have closed, and what is still cached of them.
//!
//! A file is known by its device and its number there. No descriptor of it is kept: that would keep
//! a deleted file on its disk, and a file system from being unmounted.

pub mod cached;
pub mod closings;
pub mod holders;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use std::path::{Path, PathBuf};

/// A file, by whatever name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Numbers of its device, major and minor.
    pub device: (u32, u32),
    /// Its number there.
    pub inode: u64,
}

/// A regular file, as it was when somebody closed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What it is.
    pub id: FileId,
    /// The name by which it was opened, as this process sees it; another file may have it by now.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Identity and length of a regular file, `None` for anything else. `path` is relative to `folder`,
/// and empty for `folder` itself. A server on the network is not asked.
fn regular(folder: impl AsFd, path: &Path) -> Option<(FileId, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(folder, path, flags, StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE);
    let stat = stat.ok()?;
    let device = (stat.stx_dev_major, stat.stx_dev_minor);
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    kind.is_file().then_some((FileId { device, inode: stat.stx_ino }, stat.stx_size))
}
