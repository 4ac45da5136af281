//! Lists of pages that wait for migration: promotions, and a clock over fast memory for demotion.

use super::tracker::Tracker;
use crate::action::{Action, Lane, Plan};
use crate::hotness::bitmap::Bitmap;
use crate::placement::{PageState, View};
use crate::policy::runs::Runs;
use crate::types::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Hot pages outside the fast tier, oldest first, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct PromotionList {
    /// First page of a huge page, or a base page.
    queue: VecDeque<PageId>,
    queued: Bitmap,
}

impl PromotionList {
    /// Adds a huge page or base page that is not in the list.
    #[inline]
    pub(super) fn push(&mut self, page: PageId, huge: bool) {
        let page = if huge { page.region().first() } else { page };
        if !self.queued.contains(page.0) {
            self.queued.insert(page.0);
            self.queue.push_back(page);
        }
    }

    /// Drops what is no longer hot.
    pub(super) fn prune(&mut self, tracker: &Tracker, hot: u32) {
        let queued = &mut self.queued;
        self.queue.retain(|page| {
            let keep = tracker.unit_hotness(*page).is_some_and(|h| h >= hot);
            if !keep {
                queued.remove(page.0);
            }
            keep
        });
    }

    /// Pages that wait.
    pub(super) fn pages(&self, tracker: &Tracker) -> u64 {
        let unit = |page: &PageId| if tracker.is_huge(page.region()) { HUGE_PAGES } else { 1 };
        self.queue.iter().map(|page| u64::from(unit(page))).sum()
    }

    /// Pages that the first of the list needs; 0 where nothing waits.
    pub(super) fn first_pages(&self, tracker: &Tracker) -> u64 {
        let unit = |page: &PageId| if tracker.is_huge(page.region()) { HUGE_PAGES } else { 1 };
        self.queue.front().map_or(0, |page| u64::from(unit(page)))
    }

    /// Proposes what fits into `room` pages and `bytes` of the migration budget.
    pub(super) fn promote(
        &mut self,
        tracker: &Tracker,
        hot: u32,
        view: &View<'_>,
        mut room: u64,
        mut bytes: Bytes,
        plan: &mut Plan,
    ) -> u64 {
        let mut runs = Runs::new(TierId::FAST, Lane::PROMOTE);
        while let Some(page) = self.queue.front().copied() {
            if let Some(run) = promotable(page, tracker, hot, view) {
                if u64::from(run.pages) > room || run.bytes() > bytes {
                    break;
                }
                room -= u64::from(run.pages);
                bytes = bytes.saturating_sub(run.bytes());
                runs.push(run, plan);
            }
            self.queue.pop_front();
            self.queued.remove(page.0);
        }
        runs.finish(plan)
    }

    /// What would be promoted next, were there room: at least `pages` where so many wait.
    pub(super) fn first(
        &self,
        pages: u64,
        tracker: &Tracker,
        hot: u32,
        view: &View<'_>,
    ) -> Vec<PageRun> {
        let mut left = pages;
        let mut runs = Vec::new();
        for page in &self.queue {
            if left == 0 {
                break;
            }
            if let Some(run) = promotable(*page, tracker, hot, view) {
                left = left.saturating_sub(u64::from(run.pages));
                runs.push(run);
            }
        }
        runs
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.queue.capacity() * size_of::<PageId>()) as u64) + self.queued.bytes()
    }
}

/// What moves together with a page, where that is still hot and outside the fast tier.
fn promotable(page: PageId, tracker: &Tracker, hot: u32, view: &View<'_>) -> Option<PageRun> {
    let state = view.state(page);
    let hot = tracker.unit_hotness(page).is_some_and(|h| h >= hot);
    let slow = state.tier().is_some_and(|tier| tier != TierId::FAST);
    (hot && slow && !state.is_in_flight()).then(|| view.unit(page))
}

/// Finds pages of one tier to demote to the next. Hotness falls only at a cooling, and classes change only with the
/// thresholds: between those, memory is gone through at most once for cold pages and once more
/// for warm ones, however often room is short.
#[derive(Clone, Debug, Default)]
pub(super) struct DemotionClock {
    /// The tier; the fastest by default.
    from: TierId,
    hand: u32,
    regions: u32,
    cold_left: u32,
    warm_left: u32,
    /// Regions looked at.
    pub looked_at: u64,
}

impl DemotionClock {
    /// Of a tier that is not the slowest.
    pub(super) fn of(from: TierId) -> Self {
        Self { from, ..Self::default() }
    }

    /// Hotness has fallen or thresholds have risen: everything may hold victims again.
    pub(super) fn rearm(&mut self, regions: u32) {
        (self.regions, self.cold_left, self.warm_left) = (regions, regions, regions);
    }

    /// Proposes to demote at least `need` pages: those less hot than `cold` first, then, where
    /// these do not suffice, those less hot than `hot`. Gives how many of each.
    pub(super) fn demote(
        &mut self,
        need: u64,
        limits: (u32, u32),
        tracker: &Tracker,
        view: &View<'_>,
        plan: &mut Plan,
    ) -> (u64, u64) {
        let regions = tracker.regions();
        if regions != self.regions {
            self.rearm(regions);
        }
        let (cold, hot) = limits;
        let mut left = self.cold_left;
        let cold_pages = self.turn(&mut left, need, cold, regions, tracker, view, plan);
        self.cold_left = left;
        if cold_pages >= need || hot == cold {
            return (cold_pages, 0);
        }
        let mut left = self.warm_left;
        let need = need - cold_pages;
        let warm_pages = self.turn(&mut left, need, hot, regions, tracker, view, plan);
        self.warm_left = left;
        (cold_pages, warm_pages)
    }

    #[expect(clippy::too_many_arguments, reason = "one step of `demote`, split off for its loop")]
    fn turn(
        &mut self,
        left: &mut u32,
        need: u64,
        limit: u32,
        regions: u32,
        tracker: &Tracker,
        view: &View<'_>,
        plan: &mut Plan,
    ) -> u64 {
        let mut runs = Runs::new(self.from.slower(), Lane::DEMOTE);
        while *left > 0 && runs.pages() < need && limit > 0 {
            let region = Region(self.hand % regions.max(1));
            self.looked_at += 1;
            if !take_below(region, self.from, limit, need, tracker, view, &mut runs, plan) {
                break;
            }
            self.hand = (region.0 + 1) % regions.max(1);
            *left -= 1;
        }
        runs.finish(plan)
    }
}

/// Runs that the plan's proposals from number `from` on send to a slower tier.
pub(super) fn demoted_pages(plan: &Plan, from: usize) -> impl Iterator<Item = PageRun> + '_ {
    plan.iter().skip(from).filter_map(|action| match action {
        Action::Migrate { run, to, .. } if *to != TierId::FAST => Some(*run),
        _ => None,
    })
}

/// Runs proposed to leave a tier, and not known to have left.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaving(Vec<PageRun>);

impl Leaving {
    /// Adds the demotions that the plan has from number `from` on.
    pub(super) fn add(&mut self, plan: &Plan, from: usize) {
        self.0.extend(demoted_pages(plan, from));
    }

    /// Pages on their way out of `tier`.
    pub(super) fn pages(&mut self, tier: TierId, view: &View<'_>) -> u64 {
        let on_its_way = |page: &PageId| {
            let state = view.state(*page);
            state.is_in_flight() && state.tier() == Some(tier)
        };
        let count = |run: &PageRun| run.iter().filter(on_its_way).count() as u64;
        self.0.retain(|run| count(run) > 0);
        self.0.iter().map(count).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<PageRun>()
    }
}

/// Demotion from one tier: where victims are, and which are on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct Demotions {
    pub clock: DemotionClock,
    pub leaving: Leaving,
}

/// Proposes the pages of a region in tier `from` less hot than `limit` until `need` is reached;
/// false where pages may be left over.
#[expect(clippy::too_many_arguments, reason = "one step of `turn`, split off for its loop")]
fn take_below(
    region: Region,
    from: TierId,
    limit: u32,
    need: u64,
    tracker: &Tracker,
    view: &View<'_>,
    runs: &mut Runs,
    plan: &mut Plan,
) -> bool {
    let movable = |state: PageState| state.tier() == Some(from) && !state.is_in_flight();
    if tracker.is_empty(region) {
        return true;
    }
    if tracker.is_huge(region) {
        if tracker.huge_hotness(region) < limit && movable(view.state(region.first())) {
            runs.push(region.run(), plan);
        }
        return true;
    }
    let states = &view.states()[region.run().range()];
    for ((page, stored), state) in region.run().iter().zip(tracker.stored(region)).zip(states) {
        if stored.clipped() < limit && movable(PageState(*state)) {
            if runs.pages() >= need {
                return false;
            }
            runs.push(PageRun::single(page), plan);
        }
    }
    true
}
