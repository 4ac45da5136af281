//! Page tables of a process: `/proc/PID/pagemap`, `PAGEMAP_SCAN` and `/proc/kpageflags`.
//!
//! Sources: `Documentation/admin-guide/mm/pagemap.rst`, `fs/proc/task_mmu.c`,
//! `include/uapi/linux/kernel-page-flags.h` in the kernel.

use crate::process::Target;
use crate::sys::memory::shares_our_memory;
use crate::sys::pagemap::{PageRegion, ScanMasks, scan};
use crate::{LinuxError, Root};
use frostline_core::span::{REGION_PAGES, Span, push_run};
use frostline_core::types::{PAGE_BYTES, Vpn};
use rustix::fd::{AsFd, BorrowedFd};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of an entry in both files.
const ENTRY_BYTES: usize = 8;
/// Entries in one read: more gain nothing, the kernel walks 512 at a time.
const READ_ENTRIES: u64 = 64 * 1024;
/// Runs in one scan request.
const SCAN_RUNS: usize = 1024;
/// Pages that are looked up in one go where the kernel cannot be asked for those that are there.
pub const PART_PAGES: u64 = 16_384;

/// Entries for pages in swap, under migration, poisoned, and marks without any page share a format.
/// Swap devices have the lowest numbers, of which no kernel has more than 27 and none leaves fewer
/// than these; the highest is the mark's (`MAX_SWAPFILES` in `include/linux/swap.h`).
const NOT_SWAP: u64 = 23;
const MARKER: u64 = 31;

/// One page as `/proc/PID/pagemap` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageEntry(pub u64);

impl PageEntry {
    const fn bit(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
    /// Number of the swap device, or what an entry that looks like one of swap is instead.
    const fn kind(self) -> u64 {
        self.0 & 31
    }
    /// Mapped to memory; the zero page counts, too.
    pub const fn present(self) -> bool {
        self.bit(63)
    }
    /// In swap.
    pub const fn swapped(self) -> bool {
        self.bit(62) && !self.guard() && self.kind() < NOT_SWAP
    }
    /// On its way from one frame to another at this moment. Told only to who has `CAP_SYS_ADMIN`;
    /// to others it is in swap.
    pub const fn in_transit(self) -> bool {
        self.bit(62) && !self.guard() && self.kind() >= NOT_SWAP && self.kind() != MARKER
    }
    /// Backed by a file or by shared anonymous memory.
    pub const fn file_or_shared(self) -> bool {
        self.bit(61)
    }
    /// A guard page of the program (Linux 6.15).
    pub const fn guard(self) -> bool {
        self.bit(58)
    }
    /// Mapped by this process alone.
    pub const fn exclusive(self) -> bool {
        self.bit(56)
    }
    /// Written since soft-dirty bits were cleared, where the kernel has them.
    pub const fn soft_dirty(self) -> bool {
        self.bit(55)
    }
    /// Number of its frame; `None` where it is not present, or without `CAP_SYS_ADMIN`.
    pub fn pfn(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.present() && frame != 0).then_some(frame)
    }
    /// Number of the swap device and place on it in pages; `None` where it is not in swap, or
    /// without `CAP_SYS_ADMIN`.
    pub fn swap_place(self) -> Option<(u8, u64)> {
        // The first place of a device is its header's.
        let place = self.0 >> 5 & ((1 << 50) - 1);
        (self.swapped() && place != 0).then_some((self.kind() as u8, place))
    }
}

/// Properties of a page by which `PAGEMAP_SCAN` selects and tells: a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Categories(pub u64);

impl Categories {
    /// None.
    pub const NONE: Self = Self(0);
    /// Writes to it are noted, by a userfaultfd.
    const NOTED: Self = Self(1 << 0);
    /// Written since it was write-protected through a userfaultfd; without one, always.
    pub const WRITTEN: Self = Self(1 << 1);
    /// Backed by a file.
    pub const FILE: Self = Self(1 << 2);
    /// Mapped to memory.
    pub const PRESENT: Self = Self(1 << 3);
    /// In swap, or for a moment on its way from one frame to another.
    pub const SWAPPED: Self = Self(1 << 4);
    /// Mapped to the zero page.
    pub const ZERO: Self = Self(1 << 5);
    /// Mapped by an entry of 2 MiB. A huge folio that is mapped in pieces does not count.
    pub const HUGE: Self = Self(1 << 6);
    /// Written since soft-dirty bits were cleared.
    pub const SOFT_DIRTY: Self = Self(1 << 7);
    /// A guard page (Linux 6.15); without asking for it such a page looks as if in swap.
    const GUARD: Self = Self(1 << 8);
    /// What tells apart where a page is.
    pub const PLACE: Self = Self(Self::PRESENT.0 | Self::SWAPPED.0 | Self::ZERO.0 | Self::HUGE.0);

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Whether all of `other` hold.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How long a child of ours may take from its start to its program.
const EXEC_TIMEOUT: Duration = Duration::from_secs(5);

/// The page table of a process, open for reading.
///
/// It stays with the address space that the process had when it was opened: after an `execve` it
/// reads as ended, and a new one must be opened.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    pid: u32,
    buffer: Vec<u8>,
    regions: Vec<PageRegion>,
    /// [`Categories::GUARD`], unless the kernel does not know it.
    guard: Categories,
}

impl AsFd for Pagemap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Pagemap {
    /// Opens the page table of `target`.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended, or is a child of ours that has not executed its
    /// program; without the right to look into it.
    pub fn open(target: &Target) -> Result<Self, LinuxError> {
        // Between `vfork` and `execve` a child of ours has our page table: not the one to read.
        let deadline = Instant::now() + EXEC_TIMEOUT;
        while shares_our_memory(target.pid()) {
            if Instant::now() >= deadline {
                return Err(LinuxError::Gone { pid: target.pid() });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let path = target.root().path(format!("/proc/{}/pagemap", target.pid()));
        let file = File::open(&path);
        target.check_alive()?;
        let file = file.map_err(|error| LinuxError::io("open", path, &error))?;
        Ok(Self {
            file,
            pid: target.pid(),
            buffer: Vec::new(),
            regions: Vec::new(),
            guard: Categories::GUARD,
        })
    }

    /// Calls `each` with every page of `span`, ascending.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where the process has ended or runs another program by now.
    pub fn for_each(
        &mut self,
        span: Span,
        mut each: impl FnMut(Vpn, PageEntry),
    ) -> Result<(), LinuxError> {
        for piece in span.pieces(READ_ENTRIES) {
            self.buffer.resize(piece.pages as usize * ENTRY_BYTES, 0);
            self.fill(piece.start)?;
            for (page, bytes) in piece.iter().zip(self.buffer.chunks_exact(ENTRY_BYTES)) {
                each(page, PageEntry(entry(bytes)));
            }
        }
        Ok(())
    }

    /// Appends the entries of all pages of `span` to `entries`.
    ///
    /// # Errors
    /// As [`Self::for_each`]; `entries` may have grown.
    pub fn read(&mut self, span: Span, entries: &mut Vec<PageEntry>) -> Result<(), LinuxError> {
        self.for_each(span, |_, entry| entries.push(entry))
    }

    /// The entry of one page.
    ///
    /// # Errors
    /// As [`Self::for_each`].
    pub fn page(&mut self, page: Vpn) -> Result<PageEntry, LinuxError> {
        let mut found = PageEntry::default();
        self.for_each(Span::single(page), |_, entry| found = entry)?;
        Ok(found)
    }

    /// Fills the buffer with the entries from page `first` on.
    fn fill(&mut self, first: Vpn) -> Result<(), LinuxError> {
        let mut filled = 0;
        while filled < self.buffer.len() {
            let at = first.0.saturating_mul(ENTRY_BYTES as u64).saturating_add(filled as u64);
            match self.file.read_at(&mut self.buffer[filled..], at) {
                Ok(0) => {
                    // The address space has ended, or the address lies above every address space.
                    self.check_alive()?;
                    self.buffer[filled..].fill(0);
                    return Ok(());
                }
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", &error)),
            }
        }
        Ok(())
    }

    /// An error where the address space has ended: it has not even a first entry.
    fn check_alive(&self) -> Result<(), LinuxError> {
        let alive = self.file.read_at(&mut [0; ENTRY_BYTES], 0).is_ok_and(|n| n > 0);
        if alive { Ok(()) } else { Err(LinuxError::Gone { pid: self.pid }) }
    }

    /// Whether the kernel knows `PAGEMAP_SCAN`.
    pub fn can_scan(&mut self) -> bool {
        self.scan(Span::new(Vpn(0), 1), Categories::PRESENT, Categories::PRESENT, &mut Vec::new())
            .is_ok()
    }

    /// Appends the pages of `span` that have any of the categories `any_of` ([`Categories::NONE`]
    /// for every page) to `runs`, with those of `told` that hold. Address space without page
    /// tables costs nothing, other than in [`Self::for_each`].
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where the process has ended; before Linux 6.7 [`LinuxError::Call`]
    /// with `ENOTTY`; see [`Self::can_scan`].
    pub fn scan(
        &mut self,
        span: Span,
        any_of: Categories,
        told: Categories,
        runs: &mut Vec<(Span, Categories)>,
    ) -> Result<(), LinuxError> {
        let masks = ScanMasks { any_of: any_of.0, told: told.0, ..ScanMasks::default() };
        self.scan_by(span, masks, runs)
    }

    /// Appends pages that are in memory and were written since the last time, and begins anew, where
    /// writes are noted; userfaultfd(2), `WP_ASYNC`. [`Categories::HUGE`] is told.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn take_written(
        &mut self,
        span: Span,
        runs: &mut Vec<(Span, Categories)>,
    ) -> Result<(), LinuxError> {
        let all_of = Categories::NOTED.with(Categories::PRESENT).with(Categories::WRITTEN).0;
        let told = Categories::HUGE.0;
        let masks = ScanMasks { all_of, told, protects: true, ..ScanMasks::default() };
        self.scan_by(span, masks, runs)
    }

    fn scan_by(
        &mut self,
        span: Span,
        masks: ScanMasks,
        runs: &mut Vec<(Span, Categories)>,
    ) -> Result<(), LinuxError> {
        let mut rest = span;
        while !rest.is_empty() {
            let stop = self.scan_once(rest, masks, runs)?;
            if stop <= rest.start {
                break;
            }
            rest = Span::between(stop, span.end());
        }
        Ok(())
    }

    /// One request: at most [`SCAN_RUNS`] runs from the beginning of `span` on. Gives the page
    /// before which it has stopped.
    fn scan_once(
        &mut self,
        span: Span,
        masks: ScanMasks,
        runs: &mut Vec<(Span, Categories)>,
    ) -> Result<Vpn, LinuxError> {
        self.regions.resize(SCAN_RUNS, PageRegion::default());
        let end = span.end().0.saturating_mul(PAGE_BYTES);
        let (count, stop) = scan(self.file.as_fd(), span.address(), end, masks, &mut self.regions)
            .map_err(|errno| LinuxError::call("ioctl PAGEMAP_SCAN", self.pid, errno))?;
        if count == 0 {
            // Some kernels find nothing in an address space that has ended, in place of an error.
            self.check_alive()?;
        }
        for region in &self.regions[..count] {
            let span = Span::of_addresses(region.start, region.end);
            push_run(runs, span, Categories(region.categories));
        }
        Ok(Vpn(stop / PAGE_BYTES))
    }

    /// Appends where the pages of `span` are, as runs of equal [`Categories::PLACE`], leaving out
    /// those that are nowhere. Uses `PAGEMAP_SCAN` where the kernel has it: only that tells
    /// [`Categories::HUGE`] and [`Categories::ZERO`], and it takes a quarter of the time. A page that
    /// the kernel is moving at this very moment, for instance to make room for a huge folio, looks
    /// to it as if in swap; [`PageEntry`] tells such pages apart.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where the process has ended or runs another program by now.
    pub fn places(
        &mut self,
        span: Span,
        runs: &mut Vec<(Span, Categories)>,
    ) -> Result<(), LinuxError> {
        let mut rest = span;
        while !rest.is_empty() {
            let looked = self.places_within(rest, u64::MAX, runs)?;
            rest = Span::between(looked.end(), span.end());
        }
        Ok(())
    }

    /// As [`Self::places`], for the beginning of `span` alone: until `most` pages, or some thousand
    /// runs of them, are found. Gives what was looked at; its end lies between two regions or is that of
    /// `span`. Costs what there is of page tables, however large `span` is, and before Linux 6.7 what
    /// [`PART_PAGES`] cost. `most` is at least twice [`REGION_PAGES`].
    ///
    /// # Errors
    /// As [`Self::places`].
    pub fn places_within(
        &mut self,
        span: Span,
        most: u64,
        runs: &mut Vec<(Span, Categories)>,
    ) -> Result<Span, LinuxError> {
        let somewhere = Categories::PRESENT.with(Categories::SWAPPED).0;
        let most_pages = if most < span.pages { most } else { 0 };
        let before = runs.len();
        loop {
            let told = Categories::PLACE.with(self.guard).0;
            let masks = ScanMasks { any_of: somewhere, told, most_pages, ..ScanMasks::default() };
            match self.scan_once(span, masks, runs) {
                Err(error) if error.errno() == Some(libc::ENOTTY) => break,
                // A kernel that does not know guard pages refuses to be asked for them.
                Err(error)
                    if error.errno() == Some(libc::EINVAL) && self.guard != Categories::NONE =>
                {
                    self.guard = Categories::NONE;
                    runs.truncate(before);
                }
                result => {
                    let looked = whole_regions(span, result?);
                    let found = runs.split_off(before);
                    let found = found.into_iter().filter(|(_, at)| !at.has(Categories::GUARD));
                    let inside = found.map(|(run, at)| (run.intersect(looked), at));
                    runs.extend(inside.filter(|(run, _)| !run.is_empty()));
                    return Ok(looked);
                }
            }
        }
        runs.truncate(before);
        let looked = whole_regions(span, Vpn(span.start.0.saturating_add(PART_PAGES)));
        self.for_each(looked, |page, entry| {
            let mut place = Categories::NONE;
            if entry.present() {
                place = place.with(Categories::PRESENT);
            }
            if entry.swapped() {
                place = place.with(Categories::SWAPPED);
            }
            if place != Categories::NONE {
                push_run(runs, Span::single(page), place);
            }
        })?;
        Ok(looked)
    }

    /// Whether the whole region of `page` is mapped by one entry of 2 MiB.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn is_huge(&mut self, page: Vpn) -> Result<bool, LinuxError> {
        let mut runs = Vec::new();
        self.scan(Span::region_of(page), Categories::HUGE, Categories::HUGE, &mut runs)?;
        Ok(runs.first().is_some_and(|(span, _)| span.pages == REGION_PAGES))
    }

    fn failed(&self, what: &'static str, error: &std::io::Error) -> LinuxError {
        match error.raw_os_error() {
            Some(libc::ESRCH) => LinuxError::Gone { pid: self.pid },
            _ => LinuxError::io(what, format!("/proc/{}/pagemap", self.pid), error),
        }
    }
}

/// The beginning of `span` up to the last end of a region before `stop`; up to `stop` itself where
/// there is none.
fn whole_regions(span: Span, stop: Vpn) -> Span {
    if stop >= span.end() || stop <= span.start {
        return span;
    }
    let whole = Vpn(stop.0 - stop.0 % REGION_PAGES);
    Span::between(span.start, if whole > span.start { whole } else { stop })
}

fn entry(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

/// What the kernel says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FrameFlags(pub u64);

impl FrameFlags {
    const fn bit(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
    /// Locked, for instance under I/O.
    pub const fn locked(self) -> bool {
        self.bit(0)
    }
    /// Touched, as the kernel's lists remember it.
    pub const fn referenced(self) -> bool {
        self.bit(2)
    }
    /// On one of the lists from which memory is reclaimed.
    pub const fn on_lru(self) -> bool {
        self.bit(5)
    }
    /// On the list of pages in use.
    pub const fn active(self) -> bool {
        self.bit(6)
    }
    /// First page of a folio of several.
    pub const fn head(self) -> bool {
        self.bit(15)
    }
    /// Another page of a folio of several.
    pub const fn tail(self) -> bool {
        self.bit(16)
    }
    /// Of hugetlbfs.
    pub const fn hugetlb(self) -> bool {
        self.bit(17)
    }
    /// Cannot be reclaimed, for instance because it is locked into memory.
    pub const fn unevictable(self) -> bool {
        self.bit(18)
    }
    /// One of several equal pages that were merged.
    pub const fn ksm(self) -> bool {
        self.bit(21)
    }
    /// Part of a transparent huge folio, however it is mapped.
    pub const fn transparent_huge(self) -> bool {
        self.bit(22)
    }
    /// The zero page, small or huge.
    pub const fn zero(self) -> bool {
        self.bit(24)
    }
}

/// `/proc/kpageflags`: what the kernel says of frames. For the superuser only, and ten times as
/// slow as the page table.
#[derive(Debug)]
pub struct Kpageflags {
    file: File,
    path: std::path::PathBuf,
}

impl Kpageflags {
    /// Opens it.
    ///
    /// # Errors
    /// Without the right, or in a kernel without `CONFIG_PROC_PAGE_MONITOR`.
    pub fn open(root: &Root) -> Result<Self, LinuxError> {
        let path = root.path("/proc/kpageflags");
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(LinuxError::io("open", path, &error)),
        }
    }

    /// Flags of the frames from `first` on, as many as `flags` has room for; frames that do not
    /// exist have none.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&self, first: u64, flags: &mut [FrameFlags]) -> Result<(), LinuxError> {
        let mut buffer = vec![0_u8; flags.len() * ENTRY_BYTES];
        let bytes = self
            .file
            .read_at(&mut buffer, first.saturating_mul(ENTRY_BYTES as u64))
            .map_err(|error| LinuxError::io("read", &self.path, &error))?;
        buffer[bytes..].fill(0);
        for (flags, bytes) in flags.iter_mut().zip(buffer.chunks_exact(ENTRY_BYTES)) {
            *flags = FrameFlags(entry(bytes));
        }
        Ok(())
    }

    /// Flags of one frame.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn frame(&self, frame: u64) -> Result<FrameFlags, LinuxError> {
        let mut flags = [FrameFlags::default()];
        self.read(frame, &mut flags)?;
        Ok(flags[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_apart() {
        let present = PageEntry(1 << 63 | 1 << 56 | 1 << 55 | 0x1234);
        assert!(present.present() && present.exclusive() && present.soft_dirty());
        assert!(!present.swapped() && !present.file_or_shared() && !present.guard());
        assert_eq!((present.pfn(), present.swap_place()), (Some(0x1234), None));
        for (kind, transit) in [(23, true), (30, true), (31, false)] {
            let entry = PageEntry(1 << 62 | 77 << 5 | kind);
            assert_eq!((entry.swapped(), entry.in_transit()), (false, transit), "{kind}");
        }
        let guard = PageEntry(1 << 62 | 1 << 58 | 4 << 5 | 31);
        assert!(guard.guard() && !guard.swapped() && !guard.in_transit());
        let swapped = PageEntry(1 << 62 | 77 << 5 | 3);
        assert!(swapped.swapped() && !swapped.present());
        assert_eq!((swapped.pfn(), swapped.swap_place()), (None, Some((3, 77))));
        assert_eq!(PageEntry(1 << 63).pfn(), None, "frames are hidden without the right");
        assert_eq!(PageEntry(1 << 62).swap_place(), None, "and so are places in swap");
        assert!(PageEntry(1 << 61).file_or_shared() && PageEntry(1 << 58).guard());
    }

    #[test]
    fn flags_are_taken_apart() {
        let flags = FrameFlags(1 << 22 | 1 << 15 | 1 << 5);
        assert!(flags.transparent_huge() && flags.head() && flags.on_lru());
        assert!(!flags.tail() && !flags.zero() && !flags.unevictable() && !flags.hugetlb());
    }

    #[test]
    fn own_pages_are_present_and_far_away_ones_are_not() {
        let target = Target::open(&Root::system(), std::process::id()).expect("opens");
        let mut pagemap = Pagemap::open(&target).expect("opens");
        let data = vec![1_u8; 64 * PAGE_BYTES as usize];
        let start = data.as_ptr() as u64;
        let span = Span::of_addresses(start, start + data.len() as u64);
        let mut entries = Vec::new();
        pagemap.read(span, &mut entries).expect("read");
        assert_eq!(entries.len() as u64, span.pages);
        assert!(entries.iter().all(|entry| entry.present() && !entry.file_or_shared()));
        let beyond = Span::new(Vpn(1 << 50), 3);
        entries.clear();
        pagemap.read(beyond, &mut entries).expect("nothing is there");
        assert_eq!(entries, [PageEntry(0); 3]);
        let mut runs = Vec::new();
        pagemap.places(span, &mut runs).expect("read");
        assert_eq!(runs.iter().map(|(span, _)| span.pages).sum::<u64>(), span.pages);
        assert!(runs.iter().all(|(_, place)| place.has(Categories::PRESENT)));
    }

    #[test]
    fn reserved_address_space_is_looked_through_in_parts_that_find_the_same() {
        const MAPPED: usize = 64 << 30;
        let target = Target::open(&Root::system(), std::process::id()).expect("opens");
        let mut pagemap = Pagemap::open(&target).expect("opens");
        let scans = pagemap.can_scan();
        let mut memory = memmap2::MmapOptions::new()
            .len(MAPPED)
            .no_reserve_swap()
            .map_anon()
            .expect("address space");
        let _ = memory.advise(memmap2::Advice::NoHugePage);
        // Apart far and near, so that both limits of a part are met.
        let bytes = PAGE_BYTES as usize;
        let far = (0..40).map(|page| page * (1 << 30));
        let near = (0..3000).map(|page| (50 << 30) + page * 2 * bytes);
        far.chain(near).for_each(|at| memory[at] = 1);
        let start = memory.as_ptr() as u64;
        let span = Span::of_addresses(start, start + MAPPED as u64);
        let mut all = Vec::new();
        pagemap.places(span, &mut all).expect("read");
        assert_eq!(all.iter().map(|(span, _)| span.pages).sum::<u64>(), 3040);
        let (mut parts, mut looks, mut at) = (Vec::new(), 0, span.start);
        while at < span.end() {
            let rest = Span::between(at, span.end());
            let before = parts.len();
            let looked = pagemap.places_within(rest, 1024, &mut parts).expect("read");
            assert!(looked.start == at && !looked.is_empty());
            assert!(looked.end() == span.end() || looked.end().0.is_multiple_of(REGION_PAGES));
            let found = parts[before..].iter().map(|(span, _)| span.pages).sum::<u64>();
            assert!(!scans || found <= 1024, "{found}");
            at = looked.end();
            looks += 1;
        }
        assert_eq!(parts, all);
        assert!(!scans || looks < 10, "{looks} looks at what is there");
    }

    #[test]
    fn the_pagemap_of_an_ended_process_says_so() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let target = Target::open(&Root::system(), child.id()).expect("opens");
        let mut pagemap = Pagemap::open(&target).expect("opens");
        assert!(pagemap.page(Vpn(1)).is_ok());
        child.kill().expect("killed");
        child.wait().expect("waited for");
        assert!(pagemap.page(Vpn(1)).expect_err("ended").is_gone());
        let scanned = pagemap.scan(
            Span::new(Vpn(0), 10),
            Categories::NONE,
            Categories::PLACE,
            &mut Vec::new(),
        );
        // Before Linux 6.7 the request is unknown.
        assert!(scanned.is_err_and(|e| e.is_gone() || e.errno() == Some(libc::ENOTTY)));
        let placed = pagemap.places(Span::new(Vpn(0), 10), &mut Vec::new());
        assert!(placed.expect_err("ended").is_gone());
    }
    #[test]
    fn an_exec_ends_the_address_space_and_not_the_process() {
        let mut child = std::process::Command::new("sh")
            // Some shells run `cat` themselves where it comes without its path.
            .args(["-c", "read x; exec /bin/cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let target = Target::open(&Root::system(), child.id()).expect("opens");
        let mut pagemap = Pagemap::open(&target).expect("opens");
        assert!(pagemap.page(Vpn(1)).is_ok());
        let mut to = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut to, b"x\nechoed\n").expect("written");
        // What comes back was written by the new program.
        let mut echo = [0; 7];
        let mut from = child.stdout.take().expect("piped");
        std::io::Read::read_exact(&mut from, &mut echo).expect("read");
        let error = pagemap.page(Vpn(1)).expect_err("the old address space");
        assert!(error.is_gone());
        assert!(target.is_alive());
        assert!(Pagemap::open(&target).expect("opens").page(Vpn(1)).is_ok());
        drop(to);
        child.wait().expect("waited for");
    }
}
