//! Splitting huge folios and making them, verified.
//!
//! Sources: `madvise_cold_or_pageout_pte_range` in `mm/madvise.c`, `mm/khugepaged.c` in the kernel.

use crate::LinuxError;
use crate::moves::advise::{self, Advice, drain_page_lists};
use crate::pages::pagemap::{Categories, FrameFlags, Kpageflags, Pagemap};
use crate::process::Target;
use frostline_core::span::{REGION_PAGES, Span, push_run};
use frostline_core::types::Vpn;

/// How often a split is tried before the folio is reported as whole.
const ATTEMPTS: u32 = 4;

/// What a region of 2 MiB is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Folio {
    /// One huge folio, mapped by one entry.
    Huge,
    /// A huge folio whose mapping is in pieces of 4 KiB. Told only to who can read
    /// `/proc/kpageflags`, from Linux 6.7 on; to others it looks like [`Self::Base`].
    HugeInPieces,
    /// Pages of 4 KiB, or smaller folios.
    Base,
    /// Nothing in memory.
    Empty,
}

/// How an attempt to split ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitOutcome {
    /// It was huge and is made of base pages now.
    Split,
    /// It was not huge before.
    NotHuge,
    /// The kernel left it whole: shared after a fork, pinned, or locked.
    StillWhole,
}

/// How an attempt to collapse ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollapseOutcome {
    /// One huge folio now.
    Collapsed,
    /// It was huge before.
    AlreadyHuge,
    /// The kernel refused, with this error number: `EINVAL` a mapping that must not be huge or has
    /// no page in memory, `ENOMEM` no free huge page, `EAGAIN` and `EBUSY` pages held by others.
    Refused(i32),
}

/// Reads what regions are made of, splits them and collapses them.
#[derive(Debug)]
pub struct Folios<'a> {
    target: &'a Target,
    pagemap: &'a mut Pagemap,
    flags: Option<&'a Kpageflags>,
    /// Whether the kernel has `PAGEMAP_SCAN`.
    scans: bool,
}

impl<'a> Folios<'a> {
    /// For `target`, whose page table is `pagemap`. Without `flags` a folio whose mapping alone is
    /// in pieces counts as split. With them and before Linux 6.7, it counts as whole.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where neither `PAGEMAP_SCAN` nor `flags` can tell which pages
    /// are huge.
    pub fn new(
        target: &'a Target,
        pagemap: &'a mut Pagemap,
        flags: Option<&'a Kpageflags>,
    ) -> Result<Self, LinuxError> {
        let scans = pagemap.can_scan();
        if scans || flags.is_some() {
            return Ok(Self { target, pagemap, flags, scans });
        }
        target.check_alive()?;
        Err(LinuxError::Unsupported {
            what: "this kernel does not tell which pages are huge".into(),
            hint: "use Linux 6.7 or later (PAGEMAP_SCAN), or run as root".into(),
        })
    }

    /// What the region of `page` is made of.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where the process has ended.
    pub fn of(&mut self, page: Vpn) -> Result<Folio, LinuxError> {
        let region = Span::region_of(page);
        let mut runs = Vec::new();
        self.pagemap.places(region, &mut runs)?;
        runs.retain(|(_, place)| place.has(Categories::PRESENT));
        let Some(&(first, place)) = runs.first() else { return Ok(Folio::Empty) };
        if place.has(Categories::HUGE) && !place.has(Categories::ZERO) && first == region {
            return Ok(Folio::Huge);
        }
        let (Some(flags), Some(frame)) = (self.flags, self.pagemap.page(first.start)?.pfn()) else {
            return Ok(Folio::Base);
        };
        let huge = flags.frame(frame)?.transparent_huge() && in_huge_folio(flags, frame)?;
        Ok(match huge {
            true if self.scans => Folio::HugeInPieces,
            // How it is mapped, nothing tells.
            true => Folio::Huge,
            false => Folio::Base,
        })
    }

    /// Whether each of the regions that lie wholly inside `span` is mapped by one entry,
    /// ascending.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where the process has ended.
    pub fn huge_regions(&mut self, span: Span) -> Result<Vec<(Span, bool)>, LinuxError> {
        if !self.scans {
            let regions = span.whole_regions();
            return regions.map(|region| Ok((region, self.is_huge(region.start)?))).collect();
        }
        let mut runs = Vec::new();
        self.pagemap.scan(span, Categories::HUGE, Categories::HUGE, &mut runs)?;
        let mut runs = runs.into_iter().peekable();
        Ok(span
            .whole_regions()
            .map(|region| {
                while runs.next_if(|(run, _)| run.end() <= region.start).is_some() {}
                let inside = runs.peek().map(|(run, _)| run.intersect(region).pages);
                (region, inside == Some(REGION_PAGES))
            })
            .collect())
    }

    /// Splits the huge folio of each region, by advice about its first page, and looks whether it
    /// is split. Pages that hold only zeros may be freed by it (Linux 6.12). Some folios need
    /// several attempts: those on their way to the kernel's lists are held by them.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where the process has ended; as [`advise::cold`].
    pub fn split(&mut self, regions: &[Vpn]) -> Result<Vec<SplitOutcome>, LinuxError> {
        let mut outcomes = Vec::with_capacity(regions.len());
        for &page in regions {
            let huge = matches!(self.of(page)?, Folio::Huge | Folio::HugeInPieces);
            outcomes.push(if huge { SplitOutcome::StillWhole } else { SplitOutcome::NotHuge });
        }
        for attempt in 0..ATTEMPTS {
            let whole: Vec<usize> = (0..regions.len())
                .filter(|&index| outcomes[index] == SplitOutcome::StillWhole)
                .collect();
            if whole.is_empty() {
                break;
            }
            if attempt > 0 {
                drain_page_lists();
            }
            let mut pages = Vec::with_capacity(whole.len());
            for &index in &whole {
                pages.push(Span::single(self.mapped_page(regions[index])?));
            }
            advise::cold(self.target, &pages)?;
            for index in whole {
                if !matches!(self.of(regions[index])?, Folio::Huge | Folio::HugeInPieces) {
                    outcomes[index] = SplitOutcome::Split;
                }
            }
        }
        Ok(outcomes)
    }

    /// The first page of the region that is in memory: advice about an absent one does nothing.
    fn mapped_page(&mut self, page: Vpn) -> Result<Vpn, LinuxError> {
        let region = Span::region_of(page);
        let mut runs = Vec::new();
        self.pagemap.places(region, &mut runs)?;
        let first = runs.iter().find(|(_, place)| place.has(Categories::PRESENT));
        Ok(first.map_or(region.start, |(span, _)| span.start))
    }

    /// Makes one huge folio of each region, and looks whether it is one. Absent pages are filled
    /// with zeros by it, pages in swap are read; the folio comes to be on the node that holds most
    /// of them.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where the process has ended; as [`advise::advise`].
    pub fn collapse(&mut self, regions: &[Vpn]) -> Result<Vec<CollapseOutcome>, LinuxError> {
        let mut outcomes = Vec::with_capacity(regions.len());
        // Neighbours in one piece of advice: the kernel empties its lists of pages once for it.
        let mut together = Vec::new();
        for &page in regions {
            outcomes.push(if self.is_huge(page)? {
                CollapseOutcome::AlreadyHuge
            } else {
                push_run(&mut together, Span::region_of(page), ());
                CollapseOutcome::Refused(libc::EAGAIN)
            });
        }
        let together: Vec<Span> = together.into_iter().map(|(span, ())| span).collect();
        advise::advise(self.target, Advice::Collapse, &together)?;
        for (outcome, &page) in outcomes.iter_mut().zip(regions) {
            if *outcome == CollapseOutcome::AlreadyHuge {
                continue;
            }
            if self.is_huge(page)? {
                *outcome = CollapseOutcome::Collapsed;
                continue;
            }
            // Once more alone: the error of several does not tell whose it is.
            let advised = advise::advise(self.target, Advice::Collapse, &[Span::region_of(page)])?;
            if self.is_huge(page)? {
                *outcome = CollapseOutcome::Collapsed;
            } else if let Some(&(_, errno)) = advised.failed.first() {
                *outcome = CollapseOutcome::Refused(errno);
            }
        }
        Ok(outcomes)
    }

    fn is_huge(&mut self, page: Vpn) -> Result<bool, LinuxError> {
        Ok(self.of(page)? == Folio::Huge)
    }
}

/// Whether the 512 frames around `frame` are one folio. Smaller ones carry the same flag, but then
/// there is more than one head among them.
fn in_huge_folio(flags: &Kpageflags, frame: u64) -> Result<bool, LinuxError> {
    let mut frames = [FrameFlags::default(); REGION_PAGES as usize];
    flags.read(frame - frame % REGION_PAGES, &mut frames)?;
    Ok(frames[0].head() && frames[1..].iter().all(|frame| frame.tail()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use frostline_testing::{Requirement, skip};
    use memmap2::{Advice as MapAdvice, MmapMut};

    const REGION_BYTES: usize = REGION_PAGES as usize * 4096;

    /// Tries until the region of `page` is made of `hoped`, up to 100 times: the kernel's lists
    /// and its own compaction hold pages for a moment. Gives the last outcome.
    fn until<T>(
        hoped: Folio,
        folios: &mut Folios<'_>,
        page: Vpn,
        attempt: impl Fn(&mut Folios<'_>) -> T,
    ) -> T {
        for _ in 1..100 {
            let outcome = attempt(folios);
            if folios.of(page).expect("runs") == hoped {
                return outcome;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        attempt(folios)
    }

    #[test]
    fn without_scans_the_flags_of_frames_tell() {
        // Pages that a copy of this process has, too, make no folio.
        let _alone = frostline_testing::takes_pages_out();
        let root = Root::system();
        let flags = match Kpageflags::open(&root) {
            Ok(flags) => flags,
            Err(error) => return skip(Requirement::Frames, error),
        };
        let mut map = MmapMut::map_anon(3 * REGION_BYTES).expect("memory");
        map.advise(MapAdvice::HugePage).expect("advised");
        let start = map.as_ptr().align_offset(REGION_BYTES);
        let memory = &mut map[start..start + 2 * REGION_BYTES];
        memory[..REGION_BYTES].fill(7);
        let page = Vpn(memory.as_ptr() as u64 / 4096);
        let empty = Vpn(page.0 + REGION_PAGES);
        let target = Target::open(&root, std::process::id()).expect("runs");
        let mut pagemap = Pagemap::open(&target).expect("ours");
        if !pagemap.is_huge(page).unwrap_or(false) {
            return skip(Requirement::HugePages, "the system has none to give");
        }
        let mut folios = Folios::new(&target, &mut pagemap, Some(&flags)).expect("root");
        folios.scans = false;
        assert_eq!(folios.of(page).expect("runs"), Folio::Huge);
        assert_eq!(folios.of(empty).expect("runs"), Folio::Empty);
        let span = Span::new(page, 2 * REGION_PAGES);
        let regions = folios.huge_regions(span).expect("runs");
        assert_eq!(regions.iter().map(|&(_, huge)| huge).collect::<Vec<_>>(), [true, false]);
        let split = |folios: &mut Folios<'_>| folios.split(&[page]).expect("runs")[0];
        assert_eq!(until(Folio::Base, &mut folios, page, split), SplitOutcome::Split);
        let collapse = |folios: &mut Folios<'_>| folios.collapse(&[page]).expect("runs")[0];
        assert_eq!(until(Folio::Huge, &mut folios, page, collapse), CollapseOutcome::Collapsed);
        assert!(memory[..REGION_BYTES].iter().all(|&byte| byte == 7));
    }
}
