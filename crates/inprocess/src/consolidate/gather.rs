//! Gathering of pages of the own process into frames side by side.

use super::numbers::{Numbers, Skipped};
use crate::inside::{Away, Back, Block, Event, Taken, Userfault};
use frostline_core::span::REGION_PAGES;
use frostline_core::span::Span;
use frostline_core::types::Vpn;
use frostline_linux::pages::folio::{Folios, SplitOutcome};
use frostline_linux::pages::pagemap::{Categories, Pagemap};
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Target};
use std::time::{Duration, Instant};

/// Pages for which a mapping is registered, and forks wait, at a time.
const BATCH: usize = 16;
/// Time during which nothing is taken from memory that was being discarded, because that may go on.
const REMOVAL: Duration = Duration::from_secs(10);

/// Where pages are put, and what has to be known about the program meanwhile.
pub struct Gathering<'a> {
    /// This process.
    pub target: &'a Target,
    /// Its page table.
    pub pagemap: &'a mut Pagemap,
    /// What may be moved: parts of mappings.
    pub movable: &'a [Span],
    /// Makes blocks. A test's has none.
    pub blocks: &'a mut dyn FnMut() -> Result<Block, i32>,
    /// Where contents were thrown away, and when.
    pub removed: &'a mut Vec<(Span, Instant)>,
    /// What came of it.
    pub numbers: &'a mut Numbers,
}

/// Number of the region of memory of the next page of a block; `None` where frames are not told.
pub fn region_of(block: &Block, pagemap: &mut Pagemap) -> Option<u64> {
    if block.is_full() {
        return None;
    }
    let next = Vpn(block.span().start.0 + block.filled() as u64);
    let frame = pagemap.page(next).ok()?.pfn()?;
    // It has been moved by others otherwise.
    (frame % REGION_PAGES == block.filled() as u64).then_some(frame / REGION_PAGES)
}

impl Gathering<'_> {
    /// Gathers pages, ascending, 512 at most, in a block, of which what is left is used first. Gives
    /// the pages that are there now. Where there is no block, nothing is changed.
    ///
    /// # Errors
    /// Where the page table cannot be read, or userfaultfd is not to be had.
    pub fn gather(
        &mut self,
        pages: &[Vpn],
        open: &mut Option<Block>,
    ) -> Result<Vec<Vpn>, LinuxError> {
        let wanted = self.wanted(pages)?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if open.is_none() {
            *open = self.block()?;
        }
        let Some(block) = open else {
            self.numbers.no_memory += 1;
            return Ok(Vec::new());
        };
        let room = REGION_PAGES as usize - block.filled();
        let mut userfault = Userfault::open(room)
            .map_err(|errno| LinuxError::call("userfaultfd", self.target.pid(), errno))?;
        let before = clock::thread_cpu();
        let mut moved = Vec::new();
        let mut slot = 0;
        for (piece, pages) in &wanted {
            for batch in pages.chunks(BATCH) {
                self.move_batch(*piece, batch, &mut userfault, block, &mut slot, &mut moved);
            }
        }
        // All frames that were exchanged are given back here.
        drop(userfault);
        self.numbers.pages_moved += moved.len() as u64;
        self.numbers.move_ns += clock::thread_cpu().saturating_sub(before).0;
        Ok(moved)
    }

    /// Pages that can be moved, by the part of a mapping in which they lie.
    fn wanted(&mut self, pages: &[Vpn]) -> Result<Vec<(Span, Vec<Vpn>)>, LinuxError> {
        self.removed.retain(|(_, when)| when.elapsed() < REMOVAL);
        let mut wanted: Vec<(Span, Vec<Vpn>)> = Vec::new();
        for &page in pages {
            let at = self.movable.partition_point(|span| span.end() <= page);
            let piece = self.movable.get(at).filter(|span| span.contains(page));
            let going = self.removed.iter().any(|(span, _)| span.contains(page));
            let Some(piece) = piece.filter(|_| !going) else {
                self.numbers.skipped.refused += 1;
                continue;
            };
            if !self.is_alone(page)? {
                continue;
            }
            match wanted.last_mut() {
                Some((last, pages)) if last == piece => pages.push(page),
                _ => wanted.push((*piece, vec![page])),
            }
        }
        Ok(wanted)
    }

    /// Whether a page is in memory, small, and of this process alone; counted, where it is not.
    fn is_alone(&mut self, page: Vpn) -> Result<bool, LinuxError> {
        let entry = self.pagemap.page(page)?;
        let mut huge = Vec::new();
        self.pagemap.scan(Span::single(page), Categories::HUGE, Categories::HUGE, &mut huge)?;
        let Skipped { absent, shared, huge: of_huge, .. } = &mut self.numbers.skipped;
        let counter = match entry.present() {
            false => absent,
            true if !huge.is_empty() => of_huge,
            true if entry.file_or_shared() || !entry.exclusive() => shared,
            true => return Ok(true),
        };
        *counter += 1;
        Ok(false)
    }

    /// A block of frames side by side, divided; `None` where there is no memory of that kind.
    fn block(&mut self) -> Result<Option<Block>, LinuxError> {
        let before = clock::thread_cpu();
        let Ok(mut block) = (self.blocks)() else { return Ok(None) };
        let start = block.span().start;
        let mut folios = Folios::new(self.target, self.pagemap, None)?;
        folios.collapse(&[start])?;
        if !self.pagemap.is_huge(start)? {
            return Ok(None);
        }
        let split = Folios::new(self.target, self.pagemap, None)?.split(&[start])?;
        block.stay_divided();
        let divided = split == [SplitOutcome::Split];
        if divided {
            self.numbers.blocks += 1;
            self.numbers.block_ns += clock::thread_cpu().saturating_sub(before).0;
        }
        Ok(Some(block).filter(|_| divided))
    }

    fn move_batch(
        &mut self,
        piece: Span,
        batch: &[Vpn],
        userfault: &mut Userfault,
        block: &mut Block,
        slot: &mut usize,
        moved: &mut Vec<Vpn>,
    ) {
        // Whoever forks goes first.
        let Some(away) = away() else {
            self.numbers.skipped.busy += batch.len() as u64;
            return;
        };
        if userfault.register(piece).is_err() {
            self.numbers.skipped.refused += batch.len() as u64;
            return;
        }
        for &page in batch {
            let began = Instant::now();
            let taken = userfault.take_out(page, *slot);
            let skipped = &mut self.numbers.skipped;
            match taken {
                Taken::Out => {}
                Taken::Absent => skipped.absent += 1,
                Taken::Shared => skipped.shared += 1,
                Taken::Refused => skipped.refused += 1,
                Taken::Busy => skipped.busy += 1,
            }
            if taken != Taken::Out {
                continue;
            }
            let back = userfault.replace(*slot, block);
            *slot += 1;
            let stall = began.elapsed().as_nanos() as u64;
            self.numbers.longest_stall_ns = self.numbers.longest_stall_ns.max(stall);
            match back {
                Back::There => moved.push(page),
                Back::Copied => skipped.busy += 1,
                Back::Dropped | Back::Nothing => skipped.absent += 1,
            }
        }
        self.drain_events(userfault);
        let _ = userfault.unregister(piece);
        drop(away);
        self.drain_events(userfault);
    }

    /// Lets those go on who unmap or throw away what is registered.
    fn drain_events(&mut self, userfault: &mut Userfault) {
        while let Some(event) = userfault.next_event() {
            match event {
                Event::Removed(span) => self.removed.push((span, Instant::now())),
                Event::Forked => self.numbers.copies_seen += 1,
                _ => {}
            }
        }
    }
}

/// Waits a moment for others who fork.
fn away() -> Option<Away> {
    (0..20).find_map(|_| {
        let away = Away::begin();
        if away.is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        away
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_linux::Root;

    #[test]
    fn without_memory_side_by_side_nothing_is_changed() {
        if !frostline_testing::userfaultfd() {
            return;
        }
        let mut bytes = vec![7_u8; 64 * 4096];
        let start = bytes.as_ptr().addr() as u64;
        let span = Span::of_addresses(start, start + bytes.len() as u64);
        let target = Target::open(&Root::system(), std::process::id()).expect("runs");
        let mut pagemap = Pagemap::open(&target).expect("ours");
        let mut before = Vec::new();
        pagemap.read(span, &mut before).expect("read");
        let (mut asked, mut numbers, mut open) = (0, Numbers::default(), None);
        let pages: Vec<Vpn> = span.iter().step_by(2).collect();
        let mut gathering = Gathering {
            target: &target,
            pagemap: &mut pagemap,
            movable: &[span],
            blocks: &mut || {
                asked += 1;
                Err(rustix::io::Errno::NOMEM.raw_os_error())
            },
            removed: &mut Vec::new(),
            numbers: &mut numbers,
        };
        assert_eq!(gathering.gather(&pages, &mut open).expect("allowed"), []);
        assert_eq!((asked, numbers.no_memory, numbers.pages_moved), (1, 1, 0), "{numbers:?}");
        assert!(open.is_none() && bytes.iter().all(|byte| *byte == 7));
        let mut after = Vec::new();
        pagemap.read(span, &mut after).expect("read");
        assert_eq!(before, after);
        bytes[0] = 8;
    }
}
