//! Answers to policies that ask for access bits: pages are given to a source that looks at some at
//! a time, piece by piece, and those that it has seen used have their bit set.
//!
//! So a bit says whether the page was touched in its turn, which comes after it was asked for; the
//! bits that the kernel keeps since they were last cleared are not to be had for single pages.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use frostline_core::action::{Lane, Scan};
use frostline_core::event::{AccessBits, Event, Level};
use frostline_core::placement::PageState;
use frostline_core::types::*;

/// Pages that are passed over for one piece, at most, mapped or not.
const MOST_PASSED: u32 = 1 << 18;
/// Pages by which a region of base pages is judged as a whole.
const JUDGES: usize = 16;
/// Units in one event.
const UNITS: u32 = 64;

/// What is asked for, and what is looked at.
#[derive(Debug, Default)]
pub struct Scans {
    /// By the worker that asks.
    queues: BTreeMap<Lane, Queue>,
    /// Who was first in the last turn.
    last: Option<Lane>,
    /// Looked at in the turn that goes on.
    current: Vec<Piece>,
    /// Of the turn that is over: what was seen in it comes with the next poll.
    ended: Vec<Piece>,
}

/// What one worker asks for.
#[derive(Debug, Default)]
struct Queue {
    scans: VecDeque<Scan>,
    /// Pages in them.
    pages: u64,
}

/// A part of a scan.
#[derive(Debug)]
struct Piece {
    run: PageRun,
    level: Level,
    /// Pages that are looked at, and for which others each of them stands.
    looked: BTreeMap<PageId, PageRun>,
    accessed: BTreeSet<PageId>,
}

/// What a turn has room for.
#[derive(Debug)]
struct Turn {
    room: usize,
    passed: u32,
    process: Option<ProcessId>,
}

impl Scans {
    /// Takes a worker's request. It is dropped where those before it ask for twice as many pages as
    /// there are: they are answered first.
    pub fn push(&mut self, scan: Scan, lane: Lane, pages: u32) {
        let run = scan.run.intersect(PageRun::between(0, pages));
        let queue = self.queues.entry(lane).or_default();
        if run.pages > 0 && queue.pages + u64::from(run.pages) <= 2 * u64::from(pages) {
            queue.pages += u64::from(run.pages);
            queue.scans.push_back(Scan { run, ..scan });
        }
    }

    /// Those who wait to be answered, each first in its turn.
    fn waiting(&self) -> Vec<Lane> {
        let waits = |(lane, queue): (&Lane, &Queue)| (!queue.scans.is_empty()).then_some(*lane);
        let mut lanes: Vec<Lane> = self.queues.iter().filter_map(waits).collect();
        let next = lanes.iter().position(|lane| self.last.is_some_and(|last| *lane > last));
        lanes.rotate_left(next.unwrap_or(0));
        lanes
    }

    /// Whether there is something to look at, or to be said of what was.
    pub fn is_busy(&self) -> bool {
        !self.current.is_empty() || self.queues.values().any(|queue| !queue.scans.is_empty())
    }

    /// The pages to look at next, at most `most` and all of one process; `owner` tells the process
    /// of pages that can be looked at. Workers have equal parts of them, and what others leave.
    pub fn next(
        &mut self,
        most: usize,
        state: impl Fn(PageId) -> PageState,
        owner: impl Fn(PageId) -> Option<ProcessId>,
    ) -> Vec<PageId> {
        self.ended = core::mem::take(&mut self.current);
        let lanes = self.waiting();
        self.last = lanes.first().copied().or(self.last);
        let part = most.div_ceil(lanes.len().max(1));
        let mut turn = Turn { room: 0, passed: 0, process: None };
        let mut left = most;
        for part in [part, most] {
            for lane in &lanes {
                turn.room = part.min(left);
                left -= turn.room;
                self.take(*lane, &mut turn, &state, &owner);
                left += turn.room;
            }
        }
        let looked = self.current.iter().flat_map(|piece| piece.looked.keys().copied());
        looked.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What a worker asks for next, as far as the turn has room for it.
    fn take(
        &mut self,
        lane: Lane,
        turn: &mut Turn,
        state: &impl Fn(PageId) -> PageState,
        owner: &impl Fn(PageId) -> Option<ProcessId>,
    ) {
        let Some(queue) = self.queues.get_mut(&lane) else { return };
        while let Some(scan) = queue.scans.pop_front() {
            let piece = turn.cut(&scan, state, owner);
            let rest = PageRun::between(piece.run.end(), scan.run.end());
            queue.pages -= u64::from(piece.run.pages);
            if piece.run.pages > 0 {
                self.current.push(piece);
            }
            if rest.pages > 0 {
                queue.scans.push_front(Scan { run: rest, ..scan });
                break;
            }
        }
    }

    /// A page was touched.
    pub fn touched(&mut self, page: PageId) {
        for piece in self.current.iter_mut().chain(&mut self.ended) {
            if piece.looked.contains_key(&page) {
                piece.accessed.insert(page);
            }
        }
    }

    /// Says what was seen in the turn that is over.
    pub fn tell(&mut self, state: impl Fn(PageId) -> PageState, events: &mut Vec<Event>) {
        for piece in core::mem::take(&mut self.ended) {
            piece.tell(&state, events);
        }
    }
}

impl Turn {
    /// The beginning of a scan, as far as there is room.
    fn cut(
        &mut self,
        scan: &Scan,
        state: &impl Fn(PageId) -> PageState,
        owner: &impl Fn(PageId) -> Option<ProcessId>,
    ) -> Piece {
        let mut looked = BTreeMap::new();
        let mut next = scan.run.start.0;
        while next < scan.run.end() && self.passed < MOST_PASSED {
            let page = PageId(next);
            let huge = state(page).is_huge();
            let part = match huge || scan.level == Level::Huge {
                true => page.region().run().intersect(scan.run),
                false => PageRun::single(page),
            };
            let can = |page: &PageId| state(*page).is_resident() && owner(*page).is_some();
            let judges: Vec<PageId> = match huge {
                true => Some(page.region().first()).filter(can).into_iter().collect(),
                false => part.iter().filter(can).collect(),
            };
            let step = judges.len().div_ceil(JUDGES).max(1);
            let judges: Vec<PageId> = judges.into_iter().step_by(step).collect();
            let other = |judge: &PageId| self.process.is_some_and(|of| owner(*judge) != Some(of));
            let begun = self.process.is_some();
            if begun && (judges.len() > self.room || judges.iter().any(other)) {
                break;
            }
            self.process = self.process.or_else(|| judges.first().and_then(|judge| owner(*judge)));
            self.room = self.room.saturating_sub(judges.len());
            self.passed += part.pages;
            looked.extend(judges.into_iter().map(|judge| (judge, part)));
            next = part.end();
        }
        let run = PageRun::between(scan.run.start.0, next);
        Piece { run, level: scan.level, looked, accessed: BTreeSet::new() }
    }
}

impl Piece {
    fn tell(&self, state: &impl Fn(PageId) -> PageState, events: &mut Vec<Event>) {
        let stands_for = self.accessed.iter().filter_map(|page| self.looked.get(page));
        let accessed: BTreeSet<PageId> = stands_for.flat_map(|run| run.iter()).collect();
        let unit = if self.level == Level::Huge { HUGE_PAGES } else { 1 };
        // Regions are told as a whole.
        let (mut start, end) =
            (self.run.start.0 / unit * unit, self.run.end().next_multiple_of(unit));
        while start < end {
            let stop = (start - start % (UNITS * unit) + UNITS * unit).min(end);
            let run = PageRun::between(start, stop);
            let mut bits = 0;
            for page in accessed.range(run.start..PageId(stop)) {
                bits |= 1 << ((page.0 - start) / unit);
            }
            if run.iter().any(|page| state(page).is_resident()) {
                let bits = AccessBits { run, accessed: bits, level: self.level };
                events.push(Event::AccessBits(bits));
            }
            start = stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RESIDENT: PageState = PageState(PageState::RESIDENT);
    const HUGE: PageState = PageState(PageState::RESIDENT | PageState::HUGE);

    fn scan(start: u32, end: u32, level: Level) -> Scan {
        Scan { run: PageRun::between(start, end), clear: true, level, skip_untouched: false }
    }

    /// Lets everything be looked at; `used` are the pages in use. Gives what was told, and the
    /// number of turns.
    fn answer(
        scans: &mut Scans,
        most: usize,
        state: &impl Fn(PageId) -> PageState,
        owner: &impl Fn(PageId) -> Option<ProcessId>,
        used: &impl Fn(PageId) -> bool,
    ) -> (Vec<AccessBits>, u32) {
        let (mut events, mut turns) = (Vec::new(), 0);
        while scans.is_busy() {
            let pages = scans.next(most, state, owner);
            assert!(pages.len() <= most.max(JUDGES));
            let owners: BTreeSet<_> = pages.iter().map(|page| owner(*page)).collect();
            assert!(owners.len() <= 1, "one process at a time");
            // As with a source that knows only when the next turn has begun.
            pages.into_iter().filter(|page| used(*page)).for_each(|page| scans.touched(page));
            scans.tell(state, &mut events);
            turns += 1;
            assert!(turns < 10_000);
        }
        let bits = events.into_iter().map(|event| match event {
            Event::AccessBits(bits) => bits,
            other => panic!("{other:?}"),
        });
        (bits.collect(), turns)
    }

    /// Region 0 is a folio, 1 and 2 are base pages of which every third is absent, 3 is empty, 4
    /// belongs to another process, and 5 cannot be looked at.
    fn state(page: PageId) -> PageState {
        match page.region().0 {
            0 => HUGE,
            1 | 2 if page.0.is_multiple_of(3) => PageState::ABSENT,
            3 => PageState::ABSENT,
            _ => RESIDENT,
        }
    }

    fn owner(page: PageId) -> Option<ProcessId> {
        match page.region().0 {
            4 => Some(ProcessId(8)),
            5.. => None,
            _ => Some(ProcessId(7)),
        }
    }

    const PAGES: u32 = 6 * HUGE_PAGES;

    #[test]
    fn regions_are_judged_by_some_of_their_pages() {
        let mut scans = Scans::default();
        scans.push(scan(0, u32::MAX, Level::Huge), Lane::SCAN, PAGES);
        let used = |page: PageId| matches!(page.region().0, 0 | 2 | 4 | 5);
        let (told, turns) = answer(&mut scans, 1000, &state, &owner, &used);
        let all = PageRun::between(0, PAGES);
        // The other process has a turn of its own, and the last turn is only told of.
        assert_eq!(turns, 3);
        let runs: Vec<PageRun> = told.iter().map(|bits| bits.run).collect();
        assert_eq!(runs, [PageRun::between(0, 4 * 512), PageRun::between(4 * 512, all.end())]);
        assert_eq!([told[0].accessed, told[1].accessed], [0b101, 0b01]);
    }

    #[test]
    fn what_is_asked_for_too_often_is_dropped() {
        let mut scans = Scans::default();
        for _ in 0..10 {
            scans.push(scan(0, PAGES, Level::Base), Lane::SCAN, PAGES);
        }
        let queue = |scans: &Scans| {
            (scans.queues[&Lane::SCAN].scans.len(), scans.queues[&Lane::SCAN].pages)
        };
        assert_eq!(queue(&scans), (2, 2 * u64::from(PAGES)));
        answer(&mut scans, 100, &state, &owner, &|_| false);
        assert_eq!(queue(&scans), (0, 0));
        scans.push(scan(7, 7, Level::Base), Lane::SCAN, PAGES);
        assert!(!scans.is_busy());
    }

    #[test]
    fn who_asks_for_much_holds_nobody_up() {
        let mut scans = Scans::default();
        for start in (0..1000).step_by(100) {
            scans.push(scan(start, start + 100, Level::Base), Lane(3), PAGES);
        }
        scans.push(scan(520, 530, Level::Base), Lane::SCAN, PAGES);
        let first: Vec<PageId> = scans.next(150, |_| RESIDENT, |_| Some(ProcessId(7)));
        assert_eq!(first.len(), 150, "{first:?}");
        assert!(first.contains(&PageId(520)) && first.contains(&PageId(529)), "{first:?}");
    }

    #[test]
    fn who_asks_page_by_page_has_an_equal_part() {
        let mut scans = Scans::default();
        scans.push(scan(1024, PAGES, Level::Base), Lane(3), PAGES);
        for page in (0..1024).step_by(2) {
            scans.push(scan(page, page + 1, Level::Base), Lane::SCAN, PAGES);
        }
        for _ in 0..3 {
            let looked = scans.next(100, |_| RESIDENT, |_| Some(ProcessId(7)));
            let single = looked.iter().filter(|page| page.0 < 1024).count();
            assert_eq!((looked.len(), single), (100, 50));
        }
        // What one of them leaves is the other's.
        let mut scans = Scans::default();
        scans.push(scan(1024, PAGES, Level::Base), Lane(3), PAGES);
        scans.push(scan(7, 9, Level::Base), Lane::SCAN, PAGES);
        let looked = scans.next(100, |_| RESIDENT, |_| Some(ProcessId(7)));
        let single = looked.iter().filter(|page| page.0 < 1024).count();
        assert_eq!((looked.len(), single), (100, 2));
    }

    #[test]
    fn each_process_has_its_turn_whoever_asks() {
        let owner = |page: PageId| Some(ProcessId(if page.0 < 1024 { 7 } else { 8 }));
        let mut scans = Scans::default();
        for _ in 0..4 {
            scans.push(scan(0, 100, Level::Base), Lane::SCAN, PAGES);
            scans.push(scan(1024, 1124, Level::Base), Lane(3), PAGES);
        }
        let first = |scans: &mut Scans| scans.next(50, |_| RESIDENT, owner)[0].0 < 1024;
        assert_eq!([(); 4].map(|()| first(&mut scans)), [true, false, true, false]);
    }

    proptest! {
        #[test]
        fn bits_are_those_of_the_pages(
            runs in proptest::collection::vec((0..PAGES, 1..1500_u32), 1..4),
            most in 1..700_usize,
            salt in any::<u32>(),
        ) {
            let used = |page: PageId| (page.0 ^ salt).wrapping_mul(0x9e37_79b9) >> 31 == 1;
            let mut scans = Scans::default();
            let runs = runs.into_iter().map(|(start, pages)| (start, (start + pages).min(PAGES)));
            let runs: Vec<(u32, u32)> = runs.collect();
            for (start, end) in &runs {
                scans.push(scan(*start, *end, Level::Base), Lane(most as u8 % 3), PAGES);
            }
            let (told, _) = answer(&mut scans, most, &state, &owner, &used);
            let mut at: BTreeMap<u32, u32> = BTreeMap::new();
            for bits in &told {
                prop_assert!(bits.run.pages <= 64);
                for (i, page) in bits.run.iter().enumerate() {
                    *at.entry(page.0).or_default() += 1;
                    let judge = if state(page).is_huge() { page.region().first() } else { page };
                    let can = state(page).is_resident() && owner(page).is_some();
                    prop_assert_eq!(bits.accessed >> i & 1 == 1, can && used(judge), "{:?}", page);
                }
            }
            for page in (0..PAGES).filter(|page| state(PageId(*page)).is_resident()) {
                let asked = runs.iter().filter(|(a, b)| (*a..*b).contains(&page)).count();
                prop_assert_eq!(at.get(&page).copied().unwrap_or(0), asked as u32);
            }
        }
    }
}
