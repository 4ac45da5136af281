//! Soft-dirty bits of a process's pages: a bit in every page-table entry that the kernel sets
//! with the first write after it was cleared.
//!
//! Clearing the bits write-protects all pages of the process, so that the next write to each costs
//! it a fault; meanwhile it can map nothing. There is one such bit for all who use it: a
//! checkpoint that follows writes (CRIU) would miss what we clear. So a process whose bits somebody
//! else has cleared is not for us: see [`SoftDirty::is_untouched`].
//!
//! Sources: `Documentation/admin-guide/mm/soft-dirty.rst` and `clear_refs_write` in
//! `fs/proc/task_mmu.c` of the kernel (`CONFIG_MEM_SOFT_DIRTY`).

use crate::pages::pagemap::{Categories, Pagemap};
use crate::process::maps::{Kind, Mapping, MapsReader};
use crate::process::{Identity, Target, stat};
use crate::{LinuxError, Root, own_files};
use frostline_core::span::{Span, push_run};
use frostline_core::types::{PAGE_BYTES, Vpn};
use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// What is written to `clear_refs` for these bits.
const CLEAR: &[u8] = b"4";
/// Processes whose bits frostlines have cleared, a line each: number and start.
const CLEARED: &str = "/run/frostline/soft-dirty";
/// From this length on, that file is rid of processes that have ended.
const MOST_BYTES: u64 = 64 << 10;

/// Pages that are read one by one, at most: 16 GiB, some 10 ms.
const MOST_READ: u64 = 4 << 20;

/// Whether this kernel marks written pages, tried on a page of our own.
///
/// # Errors
/// [`LinuxError::Unsupported`] where it does not.
pub fn check_support() -> Result<(), LinuxError> {
    let memory = std::hint::black_box(vec![1_u8; 2 * PAGE_BYTES as usize]);
    let page = Vpn((memory.as_ptr() as u64).div_ceil(PAGE_BYTES));
    let own = Target::open(&Root::system(), std::process::id())?;
    let entry = Pagemap::open(&own)?.page(page)?;
    drop(memory);
    if entry.soft_dirty() {
        return Ok(());
    }
    Err(LinuxError::Unsupported {
        what: "the kernel does not mark written pages".into(),
        hint: "needs CONFIG_MEM_SOFT_DIRTY".into(),
    })
}

/// The soft-dirty bits of one process.
#[derive(Debug)]
pub struct SoftDirty {
    target: Target,
    pagemap: Pagemap,
    control: File,
    maps: MapsReader,
    mappings: Vec<Mapping>,
    /// Tierable memory, as it was mapped when the bits were cleared.
    cleared: Vec<Span>,
    /// `PAGEMAP_SCAN` tells these bits.
    scans: bool,
}

impl SoftDirty {
    /// Opens them for a process. Clears nothing yet.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended; without the right to look into it.
    pub fn open(target: Target) -> Result<Self, LinuxError> {
        let pagemap = Pagemap::open(&target)?;
        let path = target.root().path(format!("/proc/{}/clear_refs", target.pid()));
        // Stays with this process, whoever gets its number later.
        let control = OpenOptions::new().write(true).open(&path);
        target.check_alive()?;
        let control = control.map_err(|error| LinuxError::io("open", path, &error))?;
        Ok(Self {
            target,
            pagemap,
            control,
            maps: MapsReader::new(),
            mappings: Vec::new(),
            cleared: Vec::new(),
            scans: true,
        })
    }

    /// The process.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// It runs another program: the page table is another one, with all bits set.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn reopen(&mut self) -> Result<(), LinuxError> {
        self.pagemap = Pagemap::open(&self.target)?;
        Ok(())
    }

    /// Whether nobody has ever cleared the bits of this program: each mapping of a file then counts
    /// as written as a whole, its code included. A fork of a program has what its parent had.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended or runs another program by now.
    pub fn is_untouched(&mut self) -> Result<bool, LinuxError> {
        self.maps.read(&self.target, &mut self.mappings)?;
        // The kernel makes stacks in another way.
        let files = self.mappings.iter().filter(|mapping| matches!(mapping.kind, Kind::File(_)));
        for mapping in files {
            if !self.pagemap.page(mapping.span.start)?.soft_dirty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Clears the bits of all pages.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended; where the kernel refuses.
    pub fn clear(&mut self) -> Result<(), LinuxError> {
        self.maps.read(&self.target, &mut self.mappings)?;
        let written = self.control.write_all(CLEAR);
        self.target.check_alive()?;
        written.map_err(|error| {
            LinuxError::io("write", format!("/proc/{}/clear_refs", self.target.pid()), &error)
        })?;
        self.cleared = tierable(&self.mappings).collect();
        Ok(())
    }

    /// Appends the pages in memory that were written since [`Self::clear`], ascending, with
    /// [`Categories::HUGE`] where they are mapped as one folio. Without `PAGEMAP_SCAN`, memory
    /// that has been mapped since, or has got a new neighbour, is left out: all of it would count.
    /// Returns how many pages were looked at.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where it has ended or runs another program by now;
    /// [`LinuxError::Unsupported`] where all pages would have to be read, and more than 16 GiB are mapped.
    pub fn written(&mut self, runs: &mut Vec<(Span, Categories)>) -> Result<u64, LinuxError> {
        self.maps.read(&self.target, &mut self.mappings)?;
        let (mut found, mut looked) = (Vec::new(), 0);
        let mapped: u64 = tierable(&self.mappings).map(|span| span.pages).sum();
        for span in tierable(&self.mappings) {
            if self.scans {
                found.clear();
                let told = Categories::PRESENT.with(Categories::SOFT_DIRTY).with(Categories::HUGE);
                match self.pagemap.scan(span, Categories::SOFT_DIRTY, told, &mut found) {
                    Ok(()) => {
                        let in_memory = found.iter().filter(|(_, is)| is.has(Categories::PRESENT));
                        runs.extend(in_memory);
                        looked += span.pages;
                        continue;
                    }
                    Err(error) if matches!(error.errno(), Some(libc::ENOTTY | libc::EINVAL)) => {
                        self.scans = false;
                    }
                    Err(error) => return Err(error),
                }
            }
            // All of it has to be read then, whether it is used or not.
            if mapped > MOST_READ {
                return Err(LinuxError::Unsupported {
                    what: format!("process {} has mapped too much", self.target.pid()),
                    hint: "Linux 6.7 tells what was written without reading all".into(),
                });
            }
            if self.cleared.binary_search(&span).is_ok() {
                let written = Categories::PRESENT.with(Categories::SOFT_DIRTY);
                self.pagemap.for_each(span, |page, entry| {
                    if entry.present() && entry.soft_dirty() {
                        push_run(runs, Span::single(page), written);
                    }
                })?;
                looked += span.pages;
            }
        }
        Ok(looked)
    }

    /// How many of `pages` are in memory, and how many of those are marked as written.
    ///
    /// # Errors
    /// As [`Self::written`].
    pub fn marked(&mut self, pages: &[Vpn]) -> Result<(usize, usize), LinuxError> {
        let (mut present, mut marked) = (0, 0);
        for page in pages {
            let entry = self.pagemap.page(*page)?;
            present += usize::from(entry.present());
            marked += usize::from(entry.present() && entry.soft_dirty());
        }
        Ok((present, marked))
    }
}

fn tierable(mappings: &[Mapping]) -> impl Iterator<Item = Span> {
    mappings.iter().filter(|mapping| mapping.is_tierable()).map(|mapping| mapping.span)
}

/// Writes down that we clear the bits of a process, for frostlines to come.
///
/// # Errors
/// Where the file cannot be written.
pub fn note_cleared(root: &Root, process: Identity) -> Result<(), LinuxError> {
    let path = root.path(CLEARED);
    let failed = |error: std::io::Error| LinuxError::io("write", &path, &error);
    own_files::folder(root, own_files::FOLDER)?;
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > MOST_BYTES) {
        let mut left = noted(root);
        left.retain(|known| {
            stat(root, known.pid).is_ok_and(|s| s.start_ticks == known.start_ticks)
        });
        let lines: String = left.iter().map(line).collect();
        own_files::replace(&path, lines.as_bytes()).map_err(failed)?;
    }
    let mut file = own_files::options().append(true).open(&path).map_err(failed)?;
    file.write_all(line(&process).as_bytes()).map_err(failed)
}

/// Whether a frostline has cleared the bits of this process, or of its parent.
pub fn is_noted(root: &Root, process: Identity) -> bool {
    let parent = stat(root, process.pid).ok().and_then(|child| {
        let start_ticks = stat(root, child.parent).ok()?.start_ticks;
        Some(Identity { pid: child.parent, start_ticks })
    });
    let known = noted(root);
    known.contains(&process) || parent.is_some_and(|parent| known.contains(&parent))
}

fn line(process: &Identity) -> String {
    format!("{} {}\n", process.pid, process.start_ticks)
}

fn noted(root: &Root) -> Vec<Identity> {
    let text = root.read(CLEARED).unwrap_or_default();
    let parsed = text.lines().filter_map(|line| {
        let (pid, start_ticks) = line.split_once(' ')?;
        Some(Identity { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use frostline_testing::{Requirement, skip};
    use memmap2::MmapMut;
    use std::io::Read;
    use std::process::Stdio;

    const DIRTY: u64 = 1 << 63 | 1 << 55;
    const CLEAN: u64 = 1 << 63;

    /// A tree in which our own process has these mappings, and a page table from page 0 on.
    fn fake(maps: &str, entries: &[u64]) -> (Tree, SoftDirty) {
        let (tree, pid) = (Tree::new(), std::process::id());
        let zeros = "0 ".repeat(40);
        tree.file(format!("/proc/{pid}/stat"), format!("{pid} (x) S 1 {zeros}"));
        tree.file(format!("/proc/{pid}/clear_refs"), "");
        put(&tree, maps, entries);
        let target = Target::open(tree.root(), pid).expect("it runs");
        let bits = SoftDirty::open(target).expect("all files are there");
        (tree, bits)
    }

    fn put(tree: &Tree, maps: &str, entries: &[u64]) {
        let pid = std::process::id();
        tree.file(format!("/proc/{pid}/maps"), maps);
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
        tree.file(format!("/proc/{pid}/pagemap"), bytes);
    }

    fn written(bits: &mut SoftDirty) -> Vec<Span> {
        let mut runs = Vec::new();
        bits.written(&mut runs).expect("it runs");
        runs.into_iter().map(|(span, _)| span).collect()
    }

    #[test]
    fn without_scans_only_memory_mapped_as_before_counts() {
        let heap = "1000-4000 rw-p 0 00:00 0 [heap]\n";
        let (tree, mut bits) = fake(
            &format!("{heap}5000-6000 rw-p 0 00:00 0\n"),
            &[CLEAN, DIRTY, CLEAN, DIRTY, 0, DIRTY],
        );
        assert_eq!(written(&mut bits), [], "nothing was cleared yet");
        bits.clear().expect("a file");
        assert_eq!(tree.text(format!("/proc/{}/clear_refs", std::process::id())), "4");
        let single = |page| Span::single(Vpn(page));
        assert_eq!(written(&mut bits), [single(1), single(3), single(5)]);
        // The second mapping grew: the kernel marks all of it, whoever wrote.
        let entries = [CLEAN, CLEAN, DIRTY, 1 << 55, 0, DIRTY, DIRTY];
        put(&tree, &format!("{heap}5000-7000 rw-p 0 00:00 0\n"), &entries);
        assert_eq!(written(&mut bits), [single(2)], "page 3 is not in memory");
        let pages = [Vpn(1), Vpn(2), Vpn(3)];
        assert_eq!(bits.marked(&pages).expect("it runs"), (2, 1));
    }

    #[test]
    fn without_scans_terabytes_of_reserved_memory_are_not_read() {
        let (_tree, mut bits) =
            fake("1000-4000 rw-p 0 00:00 0\n1000000-10001000000 rw-p 0 00:00 0\n", &[]);
        bits.clear().expect("a file");
        let refused = bits.written(&mut Vec::new()).expect_err("1 TiB");
        assert!(matches!(refused, LinuxError::Unsupported { .. }), "{refused}");
    }

    #[test]
    fn one_clean_mapping_shows_that_bits_were_cleared() {
        let maps = "1000-2000 r-xp 0 08:01 5 /bin/x\n2000-4000 rw-p 0 00:00 0 [stack]\n\
                    ffffffffff600000-ffffffffff601000 --xp 0 00:00 0 [vsyscall]\n";
        let (tree, mut bits) = fake(maps, &[0, DIRTY, 0, CLEAN]);
        assert!(bits.is_untouched().expect("it runs"));
        put(&tree, maps, &[0, CLEAN, DIRTY, DIRTY]);
        assert!(!bits.is_untouched().expect("it runs"), "code is never written");
    }

    #[test]
    fn whose_bits_we_cleared_is_known_to_the_next_one() {
        let tree = Tree::new();
        let zeros = |n| "0 ".repeat(n);
        let stat = |pid: u32, parent: u32, start: u32| {
            let text = format!("{pid} (x) S {parent} {}{start} {}", zeros(17), zeros(20));
            tree.file(format!("/proc/{pid}/stat"), text);
        };
        stat(7, 1, 70);
        stat(8, 7, 80);
        stat(9, 1, 90);
        let of = |pid, start_ticks| Identity { pid, start_ticks };
        assert!(!is_noted(tree.root(), of(7, 70)));
        note_cleared(tree.root(), of(7, 70)).expect("a file");
        note_cleared(tree.root(), of(100, 1)).expect("a file");
        assert!(is_noted(tree.root(), of(7, 70)) && is_noted(tree.root(), of(8, 80)), "its child");
        assert!(!is_noted(tree.root(), of(7, 71)), "somebody else with that number");
        assert!(!is_noted(tree.root(), of(9, 90)));
        let many: String = (0..10_000).map(|pid| format!("{pid} 1\n")).collect();
        tree.file(CLEARED, format!("{many}7 70\n"));
        note_cleared(tree.root(), of(9, 90)).expect("a file");
        assert_eq!(tree.text(CLEARED), "7 70\n9 90", "only those that run are left");
    }

    #[test]
    fn every_written_page_is_told_and_no_other() {
        if let Err(error) = check_support() {
            return skip(Requirement::SoftDirty, error);
        }
        const PAGES: usize = 1000;
        let mut memory = MmapMut::map_anon(PAGES * PAGE_BYTES as usize).expect("memory");
        memory.advise(memmap2::Advice::NoHugePage).expect("every kernel can");
        memory.fill(1);
        let first = memory.as_ptr() as u64 / PAGE_BYTES;
        let target = Target::open(&Root::system(), std::process::id()).expect("runs");
        let mut bits = match SoftDirty::open(target) {
            Ok(bits) => bits,
            Err(error) => return skip(Requirement::SoftDirty, error),
        };
        let ours = Span::new(Vpn(first), PAGES as u64);
        let of_ours = |bits: &mut SoftDirty| -> Vec<u64> {
            let spans = written(bits);
            spans.iter().flat_map(|s| s.intersect(ours).iter()).map(|p| p.0 - first).collect()
        };
        assert_eq!(of_ours(&mut bits).len(), PAGES, "all were written");
        bits.clear().expect("ours");
        assert!(!bits.is_untouched().expect("runs"));
        for round in [3, 7] {
            for page in (0..PAGES).step_by(round) {
                memory[page * PAGE_BYTES as usize] = 2;
            }
            // Reading is no writing, and neighbours that are mapped change nothing.
            assert_eq!(memory[(round + 1) * PAGE_BYTES as usize], 1);
            let neighbour = MmapMut::map_anon(64 << 10).expect("memory");
            if bits.scans {
                let expected: Vec<u64> = (0..PAGES as u64).step_by(round).collect();
                assert_eq!(of_ours(&mut bits), expected);
            }
            drop(neighbour);
            let pages = [Vpn(first), Vpn(first + 1)];
            assert_eq!(bits.marked(&pages).expect("runs"), (2, 1));
            bits.clear().expect("ours");
            assert_eq!(bits.marked(&pages).expect("runs"), (2, 0));
        }
    }

    #[test]
    fn a_new_program_is_untouched_until_its_bits_are_cleared() {
        if let Err(error) = check_support() {
            return skip(Requirement::SoftDirty, error);
        }
        let mut child = std::process::Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat");
        // Only with its first answer is it sure that all of the program is mapped.
        child.stdin.as_mut().expect("piped").write_all(b"x").expect("it reads");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it answers");
        let target = Target::open(&Root::system(), child.id()).expect("opens");
        let mut bits = SoftDirty::open(target).expect("a child of ours");
        let before = bits.is_untouched().expect("runs");
        bits.clear().expect("runs");
        let after = bits.is_untouched().expect("runs");
        let maps = Root::system().read(format!("/proc/{}/maps", child.id()));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        assert!(before && !after, "{before}, then {after}: {maps:?}");
    }

    #[test]
    fn bits_of_an_ended_process_say_so() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let target = Target::open(&Root::system(), child.id()).expect("opens");
        let mut bits = SoftDirty::open(target).expect("opens");
        child.kill().expect("killed");
        child.wait().expect("waited for");
        assert!(bits.clear().expect_err("ended").is_gone());
        assert!(bits.written(&mut Vec::new()).expect_err("ended").is_gone());
        assert!(bits.is_untouched().expect_err("ended").is_gone());
    }
}
