//! Pages of small allocations.

use crate::event::Backing;
use crate::types::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// An allocation is small below this part of fast memory, and below [`LARGE_PAGES`].
const SMALL_PART: u64 = 32;
/// 1 GiB: from here on, the source takes on what a program allocates.
const LARGE_PAGES: u64 = 1 << 18;

/// Allocations, and how large they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents {
    /// By first page: the page after the last one, and whether it is a stack.
    extents: BTreeMap<u32, (u32, bool)>,
    /// Fewer pages are small; `None` where that has to be found out.
    least: Option<(PageCount, u64)>,
}

impl Extents {
    pub(super) fn map(&mut self, run: PageRun, backing: Backing) {
        self.unmap(run);
        if run.pages > 0 {
            self.extents.insert(run.start.0, (run.end(), backing == Backing::Stack));
        }
    }

    pub(super) fn unmap(&mut self, run: PageRun) {
        self.least = None;
        for (start, (end, stack)) in self.take(run) {
            for part in PageRun::between(start, end).without(run) {
                self.extents.insert(part.start.0, (part.end(), stack));
            }
        }
    }

    pub(super) fn remap(&mut self, from: PageRun, to: PageId) {
        let stack = self.find(from.start).is_some_and(|(_, stack)| stack);
        self.unmap(from);
        let backing = if stack { Backing::Stack } else { Backing::Anonymous };
        self.map(PageRun { start: to, pages: from.pages }, backing);
    }

    /// Takes out what overlaps a run.
    fn take(&mut self, run: PageRun) -> Vec<(u32, (u32, bool))> {
        let below = self.extents.range(..run.start.0).next_back();
        let below = below.filter(|(_, (end, _))| *end > run.start.0).map(|(start, _)| *start);
        let inside = self.extents.range(run.start.0..run.end()).map(|(start, _)| *start);
        let found: Vec<u32> = below.into_iter().chain(inside).collect();
        found.into_iter().filter_map(|start| self.extents.remove_entry(&start)).collect()
    }

    /// Pages of the allocation that holds a page, and whether it is a stack.
    fn find(&self, page: PageId) -> Option<(u64, bool)> {
        let (start, (end, stack)) = self.extents.range(..=page.0).next_back()?;
        (*end > page.0).then(|| (u64::from(end - start), *stack))
    }

    /// Whether a page is of a stack, or of an allocation that is small beside `fast` memory. None
    /// is small where more than half of all that is allocated would be.
    pub(super) fn is_small(&mut self, page: PageId, fast: PageCount) -> bool {
        let Some((pages, stack)) = self.find(page) else { return false };
        stack || pages < self.least(fast)
    }

    fn least(&mut self, fast: PageCount) -> u64 {
        if let Some((of, least)) = self.least
            && of == fast
        {
            return least;
        }
        let least = (fast.0 / SMALL_PART).min(LARGE_PAGES);
        let sizes = || self.extents.iter().map(|(start, (end, _))| u64::from(end - start));
        let small: u64 = sizes().filter(|pages| *pages < least).sum();
        let least = if small > sizes().sum::<u64>() / 2 { 0 } else { least };
        self.least = Some((fast, least));
        least
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.extents.len() * size_of::<(u32, (u32, bool))>()) as u64)
    }
}
