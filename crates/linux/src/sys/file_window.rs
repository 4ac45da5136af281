//! A piece of a file in our address space, to see and to move its cached pages. Its bytes are never
//! looked at: a file that somebody makes shorter meanwhile could kill whoever does (`SIGBUS`).

use frostline_core::types::{PAGE_BYTES, Vpn};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Unmapped when it is dropped.
#[derive(Debug)]
pub struct FileWindow {
    base: NonNull<u8>,
    pages: usize,
}

impl FileWindow {
    /// Maps `pages` pages, at least one, from page `first` of a file on, readable and shared; the
    /// file may end before.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn map(file: impl AsFd, first: u64, pages: usize) -> Result<Self, i32> {
        let offset = first.checked_mul(PAGE_BYTES).ok_or(libc::EOVERFLOW)?;
        let bytes = pages.checked_mul(PAGE_BYTES as usize).ok_or(libc::EOVERFLOW)?;
        // SAFETY: asks for a mapping at an address of the kernel's choice; replaces nothing.
        let base = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, offset)
        };
        let base = base.map_err(rustix::io::Errno::raw_os_error)?;
        Ok(Self { base: NonNull::new(base.cast()).ok_or(libc::ENOMEM)?, pages })
    }

    /// Its first page in our address space.
    pub fn first(&self) -> Vpn {
        Vpn(self.base.as_ptr() as usize as u64 / PAGE_BYTES)
    }

    /// Which of its pages are cached, mapped by anybody or not: mincore(2). All of them where the
    /// file is neither ours nor writable for us.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn cached(&self) -> Result<Vec<bool>, i32> {
        let mut resident = vec![0u8; self.pages];
        let bytes = self.pages * PAGE_BYTES as usize;
        // SAFETY: the range is a mapping of ours for the life of `self`, and the kernel writes one
        // byte for each of its pages.
        let result =
            unsafe { libc::mincore(self.base.as_ptr().cast(), bytes, resident.as_mut_ptr()) };
        if result != 0 {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        Ok(resident.into_iter().map(|byte| byte & 1 == 1).collect())
    }

    /// Enters a page that is cached in our page table, and those after it; one that is not is read
    /// from the disk. Whether that worked for all, without a signal where the file is shorter.
    ///
    /// Source: `MADV_POPULATE_READ` in madvise(2), Linux 5.14.
    pub fn enter(&self, pages: Range<usize>) -> bool {
        let Range { start, end } = pages;
        if start >= end || end > self.pages {
            return false;
        }
        let (offset, bytes) = (start * PAGE_BYTES as usize, (end - start) * PAGE_BYTES as usize);
        // SAFETY: the range lies in a mapping of ours, of which nothing but the page table changes.
        unsafe {
            let start = self.base.as_ptr().add(offset).cast();
            libc::madvise(start, bytes, libc::MADV_POPULATE_READ) == 0
        }
    }
}

impl Drop for FileWindow {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone, and nobody has a reference into it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.pages * PAGE_BYTES as usize) };
    }
}
