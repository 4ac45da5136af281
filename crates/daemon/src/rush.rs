//! Prefetch in a rush: who suddenly uses what was not in use has its neighbours brought in ahead of the touches.
//!
//! A fault stops the program for every page. Pages brought in by the daemon come many at a time, on another core.

use crate::context::Cx;
use crate::ledger::Purpose;
use crate::settings::MOVE_PAGES;
use crate::system::System;
use alloc::vec::Vec;
use core::ops::Range;
use frostline_core::event::{Event, MoveCause};
use frostline_core::types::*;

/// Pages that are looked at together: 64 KiB.
const BLOCK: u32 = 16;
/// Time for which a rush lasts after the last sign of it.
const LASTS: Nanos = Nanos(1_000_000_000);
/// Time from its beginning for which it has a larger share of a core.
const HURRIES: Nanos = Nanos(5_000_000_000);
/// Pages that come back within a step, from which on a rush goes on: some percent of the step's time.
const GOES_ON: usize = 128;
/// Most times that the reach is doubled.
const MOST_DOUBLED: u32 = 8;
/// Pages and windows looked at in a step, at most.
const LOOKED: u32 = 1 << 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rush {
    began: Nanos,
    /// Nothing is prefetched from then on.
    ends: Nanos,
    /// Steps in a row in which much came back, as was told last.
    steps: u32,
    /// So many times is the number of pages doubled that are prefetched for each that came back.
    doubled: u32,
    /// Pages that came back and whose neighbours have not been looked at.
    came: Vec<PageId>,
}

impl Rush {
    /// Takes in that much came back in `steps` steps in a row up to `now`; whether a rush has begun within the last
    /// seconds, and lasts.
    pub(crate) fn follow(&mut self, now: Nanos, steps: u32) -> bool {
        let before = core::mem::replace(&mut self.steps, steps);
        if steps > before && !self.lasts(now) {
            self.began = now;
        }
        if steps > before || self.lasts(now) && self.came.len() >= GOES_ON {
            self.ends = now.saturating_add(LASTS);
        }
        if self.lasts(now) {
            self.doubled = self.doubled.max(steps.min(MOST_DOUBLED));
        } else {
            self.doubled = 0;
        }
        self.lasts(now) && now.saturating_sub(self.began) < HURRIES
    }

    fn lasts(&self, now: Nanos) -> bool {
        now < self.ends
    }

    /// Notes the pages that came back.
    pub(crate) fn note(&mut self, now: Nanos, events: &[Event]) {
        if !self.lasts(now) {
            self.came.clear();
            return;
        }
        for event in events {
            if let Event::Moved { run, cause: MoveCause::Refault, .. } = event {
                self.came.extend(run.iter());
            }
        }
    }

    /// Brings in what is near the pages that came back, as far as the limit of fast memory and our share of a core
    /// go.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn bring_in<S: System>(&mut self, cx: &mut Cx<'_, S>) -> Result<(), S::Error> {
        let Some(swap) = cx.settings.swap.filter(|_| !cx.settings.dry_run) else { return Ok(()) };
        if !self.lasts(cx.now) || self.came.is_empty() || !cx.budget.pacer.allows() {
            return Ok(());
        }
        let came = core::mem::take(&mut self.came);
        let view = cx.ledger.engine.view();
        let room = view.limits(TierId::FAST).capacity.saturating_sub(view.used(TierId::FAST));
        let most = (came.len() << self.doubled).min(room.0 as usize);
        let near = near(&came, cx.ledger.map.pages(), most, |page| {
            let state = view.state(page);
            state.tier() == Some(swap) && !state.is_in_flight() && !state.is_huge()
        });
        for batch in near.chunks(MOVE_PAGES as usize) {
            if !cx.budget.pacer.allows() {
                break;
            }
            let mut runs: Vec<PageRun> = batch.iter().copied().map(PageRun::single).collect();
            runs.sort_unstable_by_key(|run| run.start);
            cx.relocate(&runs, TierId::FAST, Purpose::Policy, MoveCause::Unknown)?;
        }
        Ok(())
    }
}

/// Pages that are `out` among so many, at most `most`, the nearest to those that came back first.
fn near(came: &[PageId], pages: u32, most: usize, out: impl Fn(PageId) -> bool) -> Vec<PageId> {
    let mut found = Vec::new();
    let mut blocks: Vec<u32> = came.iter().map(|page| page.0 / BLOCK).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let mut windows: Vec<Range<u32>> = Vec::new();
    for block in blocks {
        found.extend(block_pages(block, pages).filter(|page| out(*page)));
        match windows.last_mut() {
            Some(last) if last.end == block => last.end += 1,
            _ => windows.push(block..block + 1),
        }
    }
    let end = pages.div_ceil(BLOCK);
    let (mut looked, mut grows) = (0, true);
    while grows && found.len() < most && looked < LOOKED {
        grows = false;
        for index in 0..windows.len() {
            let next = windows.get(index + 1).map_or(end, |next| next.start);
            let before = index.checked_sub(1).map_or(0, |index| windows[index].end);
            let window = &mut windows[index];
            looked += 1;
            if window.end < next {
                found.extend(block_pages(window.end, pages).filter(|page| out(*page)));
                window.end += 1;
                (looked, grows) = (looked + BLOCK, true);
            }
            if window.start > before {
                window.start -= 1;
                found.extend(block_pages(window.start, pages).filter(|page| out(*page)));
                (looked, grows) = (looked + BLOCK, true);
            }
        }
    }
    found.truncate(most);
    found
}

fn block_pages(block: u32, pages: u32) -> impl Iterator<Item = PageId> {
    (block * BLOCK..(block + 1).saturating_mul(BLOCK).min(pages)).map(PageId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec;

    fn came_back(page: u32) -> Event {
        let (run, to) = (PageRun::single(PageId(page)), TierId::FAST);
        Event::Moved { run, to, cause: MoveCause::Refault }
    }

    #[test]
    fn the_nearest_come_first_and_none_twice() {
        let came: Vec<PageId> = [3, 100, 117, 990].map(PageId).to_vec();
        let out = |page: PageId| !page.0.is_multiple_of(3) && !came.contains(&page);
        let all = near(&came, 1000, usize::MAX, out);
        let set: BTreeSet<PageId> = all.iter().copied().collect();
        assert_eq!(set.len(), all.len());
        assert_eq!(set, (0..1000).map(PageId).filter(|page| out(*page)).collect());
        let distance = |page: &PageId| {
            let block = |page: &PageId| page.0 / BLOCK;
            came.iter().map(|to| block(to).abs_diff(block(page))).min().unwrap()
        };
        assert!(all.is_sorted_by_key(distance), "{all:?}");
        for most in [0, 1, 20, 400] {
            assert_eq!(near(&came, 1000, most, out), all[..most]);
        }
    }

    #[test]
    fn rushes_begin_double_and_end() {
        let mut rush = Rush::default();
        let at = |ms: u64| Nanos(ms * 1_000_000);
        assert!(!rush.follow(at(50), 0));
        rush.note(at(50), &[came_back(1)]);
        assert!(rush.came.is_empty(), "there is no rush");
        assert!(rush.follow(at(100), 1) && rush.follow(at(150), 2));
        rush.note(at(150), &[came_back(1), Event::Freed { run: PageRun::single(PageId(2)) }]);
        assert_eq!((rush.came.as_slice(), rush.doubled), ([PageId(1)].as_slice(), 2));
        assert!(rush.follow(at(1100), 0) && rush.doubled == 2, "it lasts for a second");
        rush.came = vec![PageId(1); GOES_ON];
        assert!(rush.follow(at(1149), 0) && rush.follow(at(1150), 0), "more came back");
        rush.came.clear();
        assert!(rush.follow(at(2149), 0));
        assert!(!rush.follow(at(2150), 0) && rush.doubled == 0);
        let hurries = |ms: &u64| rush.follow(at(*ms), *ms as u32);
        assert_eq!((3000..9000).filter(hurries).count(), 5000, "for some seconds");
        assert!(rush.lasts(at(9000)));
    }
}
