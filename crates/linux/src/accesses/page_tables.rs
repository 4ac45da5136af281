//! Access bits of pages, read from the page tables of processes.
//!
//! The processor sets a bit in the entry through which it touches a page. No file shows it, but a BPF
//! program may read the kernel's memory, where page tables are: 512 entries in a microsecond. Types
//! of the kernel (BTF) tell where a process's tables begin, and our own memory, of which
//! `/proc/self/pagemap` tells the frames, where physical memory is mapped. Nothing of the kernel's is
//! written. Bits are cleared by advice ([`cold`](crate::moves::advise::cold)), but for those of pages that
//! another process has, too: they seem to be touched for as long as it has them.
//!
//! A table that is freed while it is read may show bits of another one: a page may seem to be touched
//! that was not. Whoever else in the kernel looks at access bits (reclaim, DAMON of physical memory)
//! clears them as well: a touch may be missed.
//!
//! Sources: `Documentation/arch/x86/x86_64/mm.rst`, `arch/x86/include/asm/pgtable_types.h`,
//! `Documentation/bpf/btf.rst` in the kernel.

use crate::btf::KernelTypes;
use crate::error::LinuxError;
use crate::pages::pagemap::Pagemap;
use crate::process::Target;
use crate::root::Root;
use crate::sys::bpf::{ENTRIES, KernelMemory, MOST_PAGES};
use frostline_core::span::{REGION_PAGES, Span, push_joined};
use frostline_core::types::{PAGE_BYTES, Vpn};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};

/// Bits of an entry.
const PRESENT: u64 = 1 << 0;
const ACCESSED: u64 = 1 << 5;
const IS_HUGE: u64 = 1 << 7;
/// Physical address in an entry.
const FRAME: u64 = 0x000f_ffff_ffff_f000;
/// Bits of an index into a table.
const INDEX_BITS: u32 = ENTRIES.trailing_zeros();
/// The kernel maps physical memory at a multiple of this.
const ALIGNMENT: u64 = 1 << 30;
/// Where memory is.
const MEMORY: &str = "/proc/iomem";
/// Own pages by which what was found out is checked.
const CHECKED: usize = 8;
/// Pages of a target, likewise, and how often, since they may move meanwhile.
const TARGET_CHECKED: u64 = 4;
const TARGET_CHECKS: u32 = 3;

fn unsupported(what: impl Into<String>, hint: &str) -> LinuxError {
    LinuxError::Unsupported { what: what.into(), hint: hint.into() }
}

/// Where members of the kernel's structures are, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Members {
    files_of_task: u64,
    table_of_files: u64,
    files_of_table: u64,
    data_of_file: u64,
    top_of_memory: u64,
}

impl Members {
    fn read(root: &Root) -> Result<Self, LinuxError> {
        let types = KernelTypes::read(root)?;
        Ok(Self {
            files_of_task: types.offset("task_struct", "files")?,
            table_of_files: types.offset("files_struct", "fdt")?,
            files_of_table: types.offset("fdtable", "fd")?,
            data_of_file: types.offset("file", "private_data")?,
            top_of_memory: types.offset("mm_struct", "pgd")?,
        })
    }
}

/// Where physical memory is mapped, and how deep page tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    base: u64,
    levels: u32,
}

/// Reads page tables of processes.
#[derive(Debug)]
pub struct PageTables {
    kernel: KernelMemory,
    members: Members,
    shape: Shape,
}

/// Page tables of a process, which cannot go away: those of the program that it ran when they were
/// opened.
#[derive(Debug)]
pub struct Tables {
    /// Keeps the kernel's structure alive.
    pagemap: Pagemap,
    pid: u32,
    top: u64,
}

/// What was found in a part of an address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Pages in memory.
    pub present: u64,
    /// Of these, pages that were touched since their bits were cleared.
    pub accessed: u64,
}

impl PageTables {
    /// Finds out how to read them, and checks it by our own.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] on other processors than x86-64, before Linux 5.14, without types
    /// of the kernel, without the rights, and where memory is encrypted.
    pub fn open(root: &Root) -> Result<Self, LinuxError> {
        if !cfg!(target_arch = "x86_64") {
            let what = "page tables are read on x86-64 only";
            return Err(unsupported(what, "take another source of samples"));
        }
        let members = Members::read(root)?;
        let kernel = KernelMemory::open().map_err(|errno| match errno {
            libc::EPERM => unsupported(
                "no right to read page tables",
                "run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN",
            ),
            libc::EINVAL => unsupported(
                "page tables cannot be read by BPF",
                "needs Linux 5.14, and lockdown below `confidentiality`",
            ),
            errno => LinuxError::call("bpf", 0, errno),
        })?;
        let mut tables = Self { kernel, members, shape: Shape { base: 0, levels: 0 } };
        tables.find_shape(root)?;
        Ok(tables)
    }

    /// Page tables of a process.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended; without the right to look into it; where what they
    /// say is not what the kernel says, which would be a fault of ours.
    pub fn of(&mut self, target: &Target) -> Result<Tables, LinuxError> {
        let pagemap = Pagemap::open(target)?;
        let Some(top) = self.top_of(pagemap.as_fd())? else {
            return Err(LinuxError::Gone { pid: target.pid() });
        };
        Ok(Tables { pagemap, pid: target.pid(), top })
    }

    /// Shows which pages of `span` were touched since their access bits were cleared, as ascending
    /// runs. All pages of a folio that is mapped as a whole are touched at once.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn accessed(
        &mut self,
        tables: &Tables,
        span: Span,
        runs: &mut Vec<Span>,
    ) -> Result<Looked, LinuxError> {
        let mut looked = Looked::default();
        let mut walk = Walk { span, tables: Vec::new(), looked: &mut looked, runs };
        self.descend(
            self.top(tables),
            span,
            &mut |reader, Entry { pages, level, entry, below }| {
                if level > 1 || entry & IS_HUGE != 0 {
                    reader.read_tables(&mut walk)?;
                    walk.see(pages.intersect(span), entry);
                    return Ok(());
                }
                walk.tables.push((pages.start, below));
                if walk.tables.len() == MOST_PAGES { reader.read_tables(&mut walk) } else { Ok(()) }
            },
        )?;
        self.read_tables(&mut walk)?;
        Ok(looked)
    }

    /// Parts of `span` outside of which nothing is in memory, ascending: regions of 2 MiB with a page table.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn populated(&mut self, tables: &Tables, span: Span) -> Result<Vec<Span>, LinuxError> {
        let mut parts = Vec::new();
        self.descend(self.top(tables), span, &mut |_, Entry { pages, .. }| {
            push_joined(&mut parts, pages.intersect(span));
            Ok(())
        })?;
        Ok(parts)
    }

    /// Compares frames by these tables with those that `/proc/PID/pagemap` tells, of some pages of
    /// `span`. Whether there were any to compare.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where they differ.
    pub fn check(&mut self, tables: &mut Tables, span: Span) -> Result<bool, LinuxError> {
        let step = (span.pages / TARGET_CHECKED).max(1);
        let mut compared = false;
        for at in (span.start.0..span.end().0).step_by(step as usize) {
            let mut differs = true;
            for _ in 0..TARGET_CHECKS {
                let told = tables.pagemap.page(Vpn(at))?.pfn();
                let found = self.frame(tables.top, Vpn(at))?;
                compared |= told.is_some() && told == found;
                differs = told.is_some() && told != found;
                if !differs {
                    break;
                }
            }
            if differs {
                let what = format!("page tables of process {} are not where they seem", tables.pid);
                return Err(unsupported(what, "take another source of samples"));
            }
        }
        Ok(compared)
    }

    /// The word at an address, a multiple of its size. What lies beyond its page may not be mapped.
    fn peek(&mut self, address: u64) -> Result<Option<u64>, LinuxError> {
        let (page, within) = (address & !(PAGE_BYTES - 1), address % PAGE_BYTES);
        let mut word = None;
        let at = within as usize / size_of::<u64>();
        self.read(&[page], |_, page| word = page.map(|page| page[at]))?;
        Ok(word)
    }

    fn read(
        &mut self,
        addresses: &[u64],
        see: impl FnMut(usize, Option<&[u64; ENTRIES]>),
    ) -> Result<(), LinuxError> {
        self.kernel.read(addresses, see).map_err(|errno| LinuxError::call("bpf", 0, errno))
    }

    /// Address of the uppermost table of the process whose page map a descriptor of ours is.
    fn top_of(&mut self, pagemap: BorrowedFd<'_>) -> Result<Option<u64>, LinuxError> {
        let errno = |errno| LinuxError::call("bpf", 0, errno);
        let mut address = self.kernel.own_task().map_err(errno)?;
        let descriptor = u64::from(pagemap.as_raw_fd().unsigned_abs()) * size_of::<u64>() as u64;
        let members = self.members;
        for offset in [
            members.files_of_task,
            members.table_of_files,
            members.files_of_table,
            descriptor,
            members.data_of_file,
            members.top_of_memory,
        ] {
            match self.peek(address.wrapping_add(offset))? {
                Some(next) if next != 0 => address = next,
                _ => return Ok(None),
            }
        }
        Ok(Some(address))
    }

    /// Frame of a page by the tables below `top`.
    fn frame(&mut self, top: u64, page: Vpn) -> Result<Option<u64>, LinuxError> {
        let Shape { base, levels } = self.shape;
        let mut table = top;
        for level in (0..levels).rev() {
            let index = page.0 >> (level * INDEX_BITS) & (ENTRIES as u64 - 1);
            let entry = self.peek(table.wrapping_add(index * size_of::<u64>() as u64))?;
            let Some(entry) = entry.filter(|entry| entry & PRESENT != 0) else { return Ok(None) };
            if level == 0 || entry & IS_HUGE != 0 {
                let within = page.0 & ((1 << (level * INDEX_BITS)) - 1);
                let frames = (entry & FRAME) / PAGE_BYTES;
                return Ok(Some(frames >> (level * INDEX_BITS) << (level * INDEX_BITS) | within));
            }
            table = base.wrapping_add(entry & FRAME);
        }
        Ok(None)
    }

    /// Finds where physical memory is mapped: where our own pages have the frames that they have.
    ///
    /// From below, since what is below is not mapped. Beyond physical memory there may be devices.
    fn find_shape(&mut self, root: &Root) -> Result<(), LinuxError> {
        let memory = vec![1_u8; CHECKED * PAGE_BYTES as usize];
        let first = memory.as_ptr().addr() as u64 / PAGE_BYTES + 1;
        let target = Target::open(root, std::process::id())?;
        let mut pagemap = Pagemap::open(&target)?;
        let mut pages = Vec::new();
        for page in (first..).take(CHECKED - 1).map(Vpn) {
            // Whose frames are not told has no rights, and whose memory is not there no luck.
            pages.extend(pagemap.page(page)?.pfn().map(|frame| (page, frame)));
        }
        let refused = |what: &str| unsupported(what, "take another source of samples");
        let Some(top) = self.top_of(pagemap.as_fd())? else {
            return Err(refused("our own page tables cannot be found"));
        };
        let Some((first, others)) = pages.split_first() else {
            return Err(unsupported("frames of pages are not told", "run as root"));
        };
        // A table lies in memory.
        let most = end_of_memory(&root.read(MEMORY)?).div_ceil(ALIGNMENT);
        for below in (0..=most).rev() {
            let base = (top & !(ALIGNMENT - 1)).wrapping_sub(below * ALIGNMENT);
            for levels in [4, 5] {
                self.shape = Shape { base, levels };
                let mut fits = self.frame(top, first.0)? == Some(first.1);
                for (page, frame) in others {
                    fits = fits && self.frame(top, *page)? == Some(*frame);
                }
                if fits {
                    return Ok(());
                }
            }
        }
        // Touched once more, so that it was there all the time.
        assert!(memory.iter().all(|byte| *byte == 1));
        Err(refused("page tables are not where they seem; memory may be encrypted"))
    }

    fn top(&self, tables: &Tables) -> Table {
        Table { address: tables.top, level: self.shape.levels - 1, first: Vpn(0) }
    }

    /// Shows what is present below a table, as far as `span` goes: lowest tables, and huge pages.
    fn descend(
        &mut self,
        Table { address, level, first }: Table,
        span: Span,
        see: &mut dyn FnMut(&mut Self, Entry) -> Result<(), LinuxError>,
    ) -> Result<(), LinuxError> {
        let mut entries = [0; ENTRIES];
        self.read(&[address], |_, page| {
            if let Some(page) = page {
                entries = *page;
            }
        })?;
        let pages = 1_u64 << (level * INDEX_BITS);
        let from = span.start.0.saturating_sub(first.0) / pages;
        for index in from..ENTRIES as u64 {
            let pages = Span::new(Vpn(first.0 + index * pages), pages);
            if pages.start >= span.end() {
                break;
            }
            let entry = entries[index as usize];
            if entry & PRESENT == 0 {
                continue;
            }
            let below = self.shape.base.wrapping_add(entry & FRAME);
            if entry & IS_HUGE != 0 || level == 1 {
                see(self, Entry { pages, level, entry, below })?;
            } else {
                let table = Table { address: below, level: level - 1, first: pages.start };
                self.descend(table, span, see)?;
            }
        }
        Ok(())
    }

    /// Reads the lowest tables that were collected.
    fn read_tables(&mut self, walk: &mut Walk<'_>) -> Result<(), LinuxError> {
        let tables = std::mem::take(&mut walk.tables);
        let addresses: Vec<u64> = tables.iter().map(|(_, address)| *address).collect();
        self.read(&addresses, |at, page| {
            let Some(page) = page else { return };
            let all = Span::new(tables[at].0, REGION_PAGES).intersect(walk.span);
            for vpn in all.start.0..all.end().0 {
                walk.see(Span::new(Vpn(vpn), 1), page[(vpn - tables[at].0.0) as usize]);
            }
        })
    }
}

/// End of the last part of physical memory in the kernel's list.
fn end_of_memory(list: &str) -> u64 {
    let parts = list.lines().filter_map(|line| line.trim().strip_suffix(" : System RAM"));
    let ends = parts.filter_map(|part| u64::from_str_radix(part.split_once('-')?.1, 16).ok());
    ends.max().map_or(0, |last| last.saturating_add(1))
}

/// A table, its height above page-table entries, and the first page below it.
#[derive(Clone, Copy)]
struct Table {
    address: u64,
    level: u32,
    first: Vpn,
}

/// An entry of a table above the lowest ones, and the address that it points to.
struct Entry {
    pages: Span,
    level: u32,
    entry: u64,
    below: u64,
}

/// What a walk has found so far.
struct Walk<'a> {
    span: Span,
    /// Lowest tables that are yet to be read, with their first pages.
    tables: Vec<(Vpn, u64)>,
    looked: &'a mut Looked,
    runs: &'a mut Vec<Span>,
}

impl Walk<'_> {
    #[inline]
    fn see(&mut self, run: Span, entry: u64) {
        if entry & PRESENT == 0 {
            return;
        }
        self.looked.present += run.pages;
        if entry & ACCESSED != 0 {
            self.looked.accessed += run.pages;
            push_joined(self.runs, run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moves::advise::cold;
    use frostline_core::span::joined;
    use frostline_testing::{Requirement, skip};
    use memmap2::MmapMut;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn tables() -> Option<(PageTables, Target)> {
        let root = Root::system();
        match PageTables::open(&root) {
            Ok(tables) => Some((tables, Target::open(&root, std::process::id()).ok()?)),
            Err(LinuxError::Unsupported { what, .. }) => {
                skip(Requirement::PageTables, what);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn memory(pages: u64, huge: bool) -> (MmapMut, Span) {
        let mut memory = MmapMut::map_anon((pages * PAGE_BYTES) as usize).unwrap();
        let advice = if huge { memmap2::Advice::HugePage } else { memmap2::Advice::NoHugePage };
        memory.advise(advice).unwrap();
        // Tests beside this one fork: bits of pages that a child has, too, are not cleared.
        memory.advise(memmap2::Advice::DontFork).unwrap();
        memory.fill(1);
        let first = memory.as_ptr().addr() as u64 / PAGE_BYTES;
        (memory, Span::new(Vpn(first), pages))
    }

    #[test]
    fn kernels_that_do_not_tell_their_types_are_told_apart() {
        let tree = crate::testing::Tree::new();
        let error = PageTables::open(tree.root()).expect_err("there are none").to_string();
        assert!(error.contains("hint: needs CONFIG_DEBUG_INFO_BTF"), "{error}");
        tree.file("/sys/kernel/btf/vmlinux", [7; 999]);
        let error = PageTables::open(tree.root()).expect_err("these are none").to_string();
        assert!(error.contains("no types in BTF"), "{error}");
    }

    #[test]
    fn memory_ends_with_its_last_part() {
        let list = "00001000-0009fbff : System RAM\n  00100000-001fffff : Kernel code\n\
                    100000000-63fffffff : System RAM\n800000000-8ffffffff : PCI Bus 0000:00\n";
        assert_eq!(end_of_memory(list), 0x6_4000_0000);
        assert_eq!(end_of_memory("00000000-00000000 : reserved\n"), 0);
    }

    #[test]
    fn touched_pages_are_seen_and_no_others() {
        let Some((mut reader, target)) = tables() else { return };
        let (memory, all) = memory(3000, false);
        let mut own = reader.of(&target).unwrap();
        assert!(reader.check(&mut own, all).unwrap(), "frames were compared");
        let mut runs = Vec::new();
        let looked = reader.accessed(&own, all, &mut runs).unwrap();
        assert_eq!((looked.present, looked.accessed, &*runs), (3000, 3000, &[all][..]));
        let reader = std::cell::RefCell::new(reader);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(32));
        let touched = proptest::collection::btree_set(0..3000_usize, 0..200);
        let parts = (0..3000_u64, 0..3000_u64);
        runner
            .run(&(touched, parts), |(touched, (a, b))| {
                cold(&target, &[all]).unwrap();
                touched.iter().for_each(|page| {
                    std::hint::black_box(memory[page * PAGE_BYTES as usize]);
                });
                let first = all.start.0;
                let part = Span::between(Vpn(first + a.min(b)), Vpn(first + a.max(b)));
                let singles = touched.iter().map(|page| Span::single(Vpn(first + *page as u64)));
                let expected = joined(singles.filter(|page| part.contains(page.start)));
                let mut runs = Vec::new();
                let looked = reader.borrow_mut().accessed(&own, part, &mut runs).unwrap();
                prop_assert_eq!(looked.present, part.pages);
                prop_assert_eq!(runs, expected);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn a_folio_is_touched_as_a_whole() {
        let Some((mut reader, target)) = tables() else { return };
        let (memory, all) = memory(4 * REGION_PAGES, true);
        let folio = all.whole_regions().nth(1).unwrap();
        if !Pagemap::open(&target).unwrap().is_huge(folio.start).unwrap() {
            skip(Requirement::HugePages, "none was given");
            return;
        }
        let own = reader.of(&target).unwrap();
        cold(&target, &[all]).unwrap();
        let within = (folio.start.0 - all.start.0 + 77) * PAGE_BYTES;
        std::hint::black_box(memory[within as usize]);
        let mut runs = Vec::new();
        reader.accessed(&own, all, &mut runs).unwrap();
        assert_eq!(runs, [folio]);
        runs.clear();
        let part = Span::new(Vpn(folio.start.0 + 9), 3);
        reader.accessed(&own, part, &mut runs).unwrap();
        assert_eq!(runs, [part]);
    }

    #[test]
    fn what_is_gone_or_not_there_shows_nothing() {
        let Some((mut reader, target)) = tables() else { return };
        let (memory, all) = memory(600, false);
        let own = reader.of(&target).unwrap();
        let everything = Span::between(Vpn(0), Vpn(1 << 35));
        let parts = reader.populated(&own, everything).unwrap();
        assert!(parts.windows(2).all(|pair| pair[0].end() < pair[1].start), "{parts:?}");
        assert!(parts.iter().any(|part| part.intersect(all) == all), "{all:?} of {parts:?}");
        assert!(
            parts.iter().map(|part| part.pages).sum::<u64>() < everything.pages >> 9,
            "{parts:?}"
        );
        drop(memory);
        let mut runs = Vec::new();
        assert_eq!(reader.accessed(&own, all, &mut runs).unwrap(), Looked::default());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let child_target = Target::open(target.root(), child.id()).unwrap();
        let tables = reader.of(&child_target).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while reader.accessed(&tables, everything, &mut runs).unwrap().present <= 10 {
            assert!(Instant::now() < deadline, "a program has more than ten pages");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        runs.clear();
        assert_eq!(reader.accessed(&tables, everything, &mut runs).unwrap(), Looked::default());
        assert!(matches!(reader.of(&child_target), Err(LinuxError::Gone { .. })));
    }
}
