//! Cached pages of a file, and their way out of fast memory.
//!
//! Nothing here changes what a file contains: pages that were written and are not on the disk yet
//! stay, and pages that move between nodes are moved by the kernel.
//!
//! Sources: posix_fadvise(2), mincore(2), move_pages(2); `mapping_evict_folio` in `mm/truncate.c`.

use super::{File, FileId, regular};
use crate::moves::migrate::{self, NodeStatus};
use crate::sys::file_window::FileWindow;
use crate::{LinuxError, Target};
use frostline_core::event::MoveOutcome;
use frostline_core::types::{PAGE_BYTES, Vpn};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags, fadvise, open};
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;

/// A file that is open for us. Its contents are not read.
#[derive(Debug)]
pub struct CachedFile {
    fd: OwnedFd,
    id: FileId,
    pages: u64,
}

impl CachedFile {
    /// Opens a file by its name, if that still stands for it. `None` where it does not, or where we
    /// may not: it is then as if nothing of it were cached.
    pub fn open(file: &File) -> Option<Self> {
        // By its name it could be something by now that is not to be opened, such as a device.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = open(&file.path, flags, Mode::empty()).ok()?;
        let (id, bytes) = regular(&place, Path::new(""))?;
        if id != file.id {
            return None;
        }
        let path = format!("/proc/thread-self/fd/{}", place.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NOATIME | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).ok()?;
        Some(Self { fd, id, pages: bytes.div_ceil(PAGE_BYTES) })
    }

    /// Which file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Pages from its beginning to its end, cached or not.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// How many of some pages are cached.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn cached(&self, pages: Range<u64>) -> Result<u64, LinuxError> {
        let (_, cached) = self.look(&pages)?;
        Ok(cached.into_iter().filter(|cached| *cached).count() as u64)
    }

    fn look(&self, pages: &Range<u64>) -> Result<(FileWindow, Vec<bool>), LinuxError> {
        let refused = |call| move |errno| LinuxError::call(call, 0, errno);
        let count = usize::try_from(pages.end.saturating_sub(pages.start)).unwrap_or(usize::MAX);
        let window = FileWindow::map(&self.fd, pages.start, count).map_err(refused("mmap"))?;
        let cached = window.cached().map_err(refused("mincore"))?;
        Ok((window, cached))
    }

    /// Has the kernel forget what is cached of some pages; their next use reads the disk. Gives how many
    /// are gone and how many stay: those that are mapped by a program, or to be written, which is begun.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn drop_cache(&self, pages: Range<u64>) -> Result<Dropped, LinuxError> {
        let before = self.cached(pages.clone())?;
        let len = (pages.end - pages.start).saturating_mul(PAGE_BYTES);
        if let Some(len) = NonZeroU64::new(len).filter(|_| before > 0) {
            let first = pages.start.saturating_mul(PAGE_BYTES);
            fadvise(&self.fd, first, Some(len), Advice::DontNeed)
                .map_err(|errno| LinuxError::call("fadvise64", 0, errno.raw_os_error()))?;
        }
        let kept = if before > 0 { self.cached(pages)? } else { 0 };
        Ok(Dropped { gone: before.saturating_sub(kept), kept })
    }

    /// Moves what is cached of some pages to a node, and tells how many came to which end; those that
    /// were there before are not counted. Pages that programs have mapped are `Shared`.
    ///
    /// # Errors
    /// As [`migrate::move_to_node`], for this process.
    pub fn move_to_node(
        &self,
        own: &Target,
        pages: Range<u64>,
        node: u32,
        mut sink: impl FnMut(u64, MoveOutcome),
    ) -> Result<(), LinuxError> {
        let (window, cached) = self.look(&pages)?;
        // The kernel moves what is in our page table.
        let mut vpns = Vec::new();
        for run in runs(&cached).filter(|run| window.enter(run.clone())) {
            vpns.extend(run.map(|page| Vpn(window.first().0 + page as u64)));
        }
        let nodes = migrate::nodes_of(own, &vpns)?;
        let elsewhere =
            vpns.iter().zip(nodes).filter(|(_, status)| *status != NodeStatus::Node(node));
        let elsewhere: Vec<Vpn> = elsewhere.map(|(page, _)| *page).collect();
        for outcome in migrate::move_to_node(own, &elsewhere, node)? {
            sink(1, outcome);
        }
        Ok(())
    }
}

/// What became of cached pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Cached before, and not any more.
    pub gone: u64,
    /// Still cached.
    pub kept: u64,
}

/// Runs of true.
fn runs(flags: &[bool]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    flags.chunk_by(|a, b| a == b).filter_map(move |chunk| {
        let run = at..at + chunk.len();
        at = run.end;
        chunk[0].then_some(run)
    })
}
