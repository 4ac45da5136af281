//! Payoff of moves: pages promoted into a full tier against those demoted to make room, by the
//! samples that hit either afterwards.
//!
//! Not in the MEMTIS paper, whose rules exchange pages of equal hotness for ever, and those of a
//! sweep for what it has just left. HotBox (ISMM '22) pauses moves by their utility as well, but
//! looks at the hit ratio.

use crate::event::Event;
use crate::types::*;
use alloc::vec::Vec;

/// Samples of a window, at least: fewer prove nothing where most samples hit what stays.
const LEAST_WINDOW: u64 = 512;

/// Samples looked up in four windows, at most.
const SCORED: u64 = 2048;

/// Hits below which moves are not found bad yet.
const FEW_HITS: u64 = 64;

/// Windows after which moves are found good at the earliest, and bad at the latest: what a stream
/// hits for a moment proves nothing.
const LEAST_WINDOWS: u64 = 2;
const MOST_WINDOWS: u64 = 6;

/// A tier's share that a trial takes: one in so many pages.
const TRIAL_SHARE: u64 = 8;

/// Windows after which a pause is long.
const LONG_PAUSE: u64 = 32;

/// Good trials in a row after which it pays at last, however often that turned out wrong.
const MOST_NEEDED: u32 = 8;

/// Good trials after an opening that prove it right.
const PROVEN: u32 = 3;

/// Pages that move one way in a trial, and the samples that hit them.
#[derive(Clone, Debug, Default)]
struct Side {
    runs: Vec<PageRun>,
    pages: u64,
    hits: u64,
}

impl Side {
    fn clear(&mut self) {
        self.runs.clear();
        (self.pages, self.hits) = (0, 0);
    }

    fn add(&mut self, run: PageRun) {
        self.runs.push(run);
        self.pages += u64::from(run.pages);
    }

    fn score(&mut self, page: PageId) {
        let after = self.runs.partition_point(|run| run.start.0 <= page.0);
        let hit = after.checked_sub(1).is_some_and(|i| self.runs[i].contains(page));
        self.hits += u64::from(hit);
    }

    fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<PageRun>()
    }
}

/// Progress of a trial under way, in samples since it began.
#[derive(Clone, Copy, Debug)]
struct Watch {
    age: u64,
    /// When the next sample is looked up.
    next: u64,
    /// When the window ends, and how many there were.
    end: u64,
    windows: u64,
}

/// Judges moves by trials. While it is *open*, pages move and trials watch them; while it is
/// *closed*, trials watch what would move.
#[derive(Clone, Debug)]
pub(super) struct Payoff {
    enabled: bool,
    open: bool,
    window: u64,
    stride: u64,
    up: Side,
    down: Side,
    /// Where the sides are complete.
    watch: Option<Watch>,
    /// Good trials in a row, and how many of them open.
    streak: u32,
    needed: u32,
    /// Samples since the pause began.
    closed_for: u64,
    /// Trials that ended.
    pub trials: u64,
    /// Those in which moves did not pay.
    pub failed: u64,
}

impl Payoff {
    /// Trials watch for half an `interval` of samples to one and a half. Open at first, until a
    /// trial finds otherwise; always where not `enabled`.
    pub(super) fn new(enabled: bool, interval: u64) -> Self {
        let window = (interval / 4).max(LEAST_WINDOW);
        Self {
            enabled,
            open: true,
            window,
            stride: (4 * window).div_ceil(SCORED),
            up: Side::default(),
            down: Side::default(),
            watch: None,
            streak: 0,
            needed: 1,
            closed_for: 0,
            trials: 0,
            failed: 0,
        }
    }

    /// Whether room may be made for promotions.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the pause has become a long one.
    pub(super) fn is_idle(&self) -> bool {
        !self.open && self.closed_for >= LONG_PAUSE * self.window
    }

    /// Makes a long pause a short one: something has changed.
    pub(super) fn wake(&mut self) {
        self.closed_for = 0;
    }

    /// Whether pages for a trial are wanted.
    pub(super) fn wants_pages(&self) -> bool {
        self.enabled && self.watch.is_none()
    }

    /// Pages of a trial where the fast tier has `capacity`: enough for a verdict.
    pub(super) fn trial_pages(capacity: PageCount) -> u64 {
        (capacity.0 / TRIAL_SHARE).max(u64::from(HUGE_PAGES))
    }

    /// Adds pages to the trial; it begins once both sides have some, and one has `enough`.
    pub(super) fn add(
        &mut self,
        up: impl Iterator<Item = PageRun>,
        down: impl Iterator<Item = PageRun>,
        enough: u64,
    ) {
        up.for_each(|run| self.up.add(run));
        down.for_each(|run| self.down.add(run));
        if self.up.pages.min(self.down.pages) == 0 || self.up.pages.max(self.down.pages) < enough {
            return;
        }
        for side in [&mut self.up, &mut self.down] {
            side.runs.sort_unstable_by_key(|run| run.start);
        }
        // Moves need time, and a page that a stream still reads would speak for itself.
        let gap = self.window;
        self.watch = Some(Watch { age: 0, next: gap, end: gap + self.window, windows: 1 });
    }

    /// Counts samples; `samples` holds nothing else.
    #[inline]
    pub(super) fn observe(&mut self, samples: &[Event]) {
        self.closed_for += samples.len() as u64;
        if let Some(watch) = self.watch.take() {
            self.watch = self.watch(watch, samples);
        }
    }

    /// Goes on with a trial; `None` where it has ended.
    fn watch(&mut self, mut watch: Watch, samples: &[Event]) -> Option<Watch> {
        let mut from = watch.age;
        let until = watch.age + samples.len() as u64;
        while from < until {
            let to = until.min(watch.end);
            while watch.next < to {
                if let Event::Sample(sample) = &samples[(watch.next - watch.age) as usize] {
                    self.up.score(sample.page);
                    self.down.score(sample.page);
                }
                watch.next += self.stride;
            }
            if to == watch.end {
                if let Some(pays) = self.verdict(watch.windows) {
                    self.judge(pays);
                    return None;
                }
                watch.windows += 1;
                watch.end += self.window;
            }
            from = to;
        }
        watch.age = until;
        Some(watch)
    }

    /// Whether pages promoted are hit more than those demoted: by a quarter, and by three standard
    /// deviations of a count. `None` where more hits may tell.
    fn verdict(&self, windows: u64) -> Option<bool> {
        let (up, down) = (&self.up, &self.down);
        let [up_pages, down_pages] = [up.pages, down.pages].map(u128::from);
        let (gain, loss) = (u128::from(up.hits) * down_pages, u128::from(down.hits) * up_pages);
        let noise = gain * down_pages + loss * up_pages;
        let difference = gain.saturating_sub(loss);
        let pays = 4 * gain > 5 * loss && difference * difference > 9 * noise;
        if pays && windows >= LEAST_WINDOWS {
            return Some(true);
        }
        let hopeless = gain <= loss && up.hits + down.hits >= FEW_HITS;
        (hopeless || windows == MOST_WINDOWS).then_some(false)
    }

    fn judge(&mut self, pays: bool) {
        self.trials += 1;
        if pays {
            self.streak += 1;
            if self.open && self.streak >= self.needed + PROVEN {
                self.needed = 1;
            }
            self.open |= self.streak >= self.needed;
        } else {
            self.failed += 1;
            if self.open {
                self.closed_for = 0;
                self.needed = (self.needed * 2).min(MOST_NEEDED);
            }
            (self.open, self.streak) = (false, 0);
        }
        self.up.clear();
        self.down.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        self.up.bytes() + self.down.bytes()
    }
}
