//! Pages of our own, beside the program's memory.

use frostline_core::types::{PAGE_BYTES, Vpn};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr;

const PAGE: usize = PAGE_BYTES as usize;
/// `MADV_UNMERGEABLE`, where the program has equal pages merged everywhere.
const APART: Advice = Advice::LinuxUnmergeable;

/// Private pages without contents that forked children do not inherit.
#[derive(Debug)]
pub struct Room {
    mapped: *mut u8,
    mapped_bytes: usize,
    start: *mut u8,
    pages: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Room {}

impl Room {
    /// So many pages; with `huge`, from an address on that is a multiple of 2 MiB, of huge folios
    /// where the kernel has any.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn map(pages: usize, huge: bool) -> Result<Self, i32> {
        let bytes = pages * PAGE;
        let align = if huge { 2 << 20 } else { PAGE };
        let mapped_bytes = bytes + align - PAGE;
        let (prot, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: asks for a mapping at an address of the kernel's choice; replaces nothing.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), mapped_bytes, prot, flags) };
        let mapped = mapped.map_err(rustix::io::Errno::raw_os_error)?.cast::<u8>();
        let start = mapped.map_addr(|address| address.next_multiple_of(align));
        start.expose_provenance();
        let room = Self { mapped, mapped_bytes, start, pages };
        let pages = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        room.advise(Advice::LinuxDontFork)?;
        // A kernel without huge or merged pages does not know these, and need not.
        let _ = room.advise(pages);
        let _ = room.advise(APART);
        Ok(room)
    }

    fn advise(&self, advice: Advice) -> Result<(), i32> {
        // SAFETY: the mapping is ours, and none of the advice given here concerns contents but
        // `forget_contents`, which is called where nobody reads them any more.
        let done = unsafe { madvise(self.mapped.cast(), self.mapped_bytes, advice) };
        done.map_err(rustix::io::Errno::raw_os_error)
    }

    /// Gives all memory back; the pages are as they were in the beginning.
    pub fn forget_contents(&mut self) {
        let _ = self.advise(Advice::LinuxDontNeed);
    }

    /// No huge folios from now on.
    pub fn decline_huge(&mut self) {
        let _ = self.advise(Advice::LinuxNoHugepage);
    }

    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The first page.
    pub fn first(&self) -> Vpn {
        Vpn(self.start.addr() as u64 / PAGE_BYTES)
    }

    /// Address of a page, which must be one of them.
    pub fn address(&self, page: usize) -> u64 {
        (self.start.addr() + page % self.pages * PAGE) as u64
    }

    fn words(&self, page: usize) -> *mut u64 {
        self.start.wrapping_add(page % self.pages * PAGE).cast()
    }

    /// Writes something else than zeros into a page.
    pub fn mark(&mut self, page: usize) {
        // SAFETY: the page is ours, writable, and aligned.
        unsafe { self.words(page).write_volatile(u64::MAX) };
    }

    /// Copies a page of another room.
    ///
    /// Word by word, and by no function of the C library: a program may have put its own in place,
    /// which could need memory that is away at this moment.
    pub fn copy_from(&mut self, page: usize, other: &Self, from: usize) {
        let (to, from) = (self.words(page), other.words(from));
        for word in 0..PAGE / size_of::<u64>() {
            // SAFETY: both pages are ours, as large, and aligned.
            unsafe { to.add(word).write_volatile(from.add(word).read_volatile()) };
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody borrows from it.
        let _ = unsafe { munmap(self.mapped.cast(), self.mapped_bytes) };
    }
}
