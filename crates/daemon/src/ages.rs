//! Ages of pages: how long each was not touched, and how often pages of an age are touched after all.
//!
//! Where all pages are swept for access bits, that says beforehand what it costs to have the oldest ones in swap: each
//! touch of a page of that age would be a refault. Google's far memory chooses its threshold in this way
//! (Lagar-Cavilla and others, ASPLOS 2019). Ages are told apart by half octaves.

use crate::system::Swept;
use alloc::vec::Vec;
use frostline_core::View;
use frostline_core::event::Event;
use frostline_core::types::*;

/// Unit of ages: 2^28 ns, 0.27 s.
const UNIT_BITS: u32 = 28;
/// Bits of a stamp that are a time; another one says that the page is there.
const TIMES: u16 = (1 << 15) - 1;
const THERE: u16 = 1 << 15;
/// Older pages count as that old: 1.2 hours.
const OLDEST: u16 = TIMES >> 1;
/// Half octaves up to there.
const BINS: usize = 28;
/// Touches are remembered for so many seconds, and those of old pages for so many times their age.
const REMEMBERED: f64 = 120.0;
const REMEMBERED_AGES: f64 = 4.0;
/// Standard errors by which more touches are expected than were seen.
const CAUTION: f64 = 2.0;
/// Ages are counted anew after that time.
const RECOUNT: Nanos = Nanos(5_000_000_000);
/// Sweeps that may be late before nothing is known any more.
const MISSED: u64 = 3;
const LEAST_MISSED: Nanos = Nanos(10_000_000_000);

/// Stamp of a page: none where it is not there, else when it was touched last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp(u16);

impl Stamp {
    fn new(units: u16) -> Self {
        Self(units & TIMES | THERE)
    }

    fn age(self, units: u16) -> Option<u16> {
        (self.0 & THERE != 0).then(|| units.wrapping_sub(self.0) & TIMES)
    }
}

/// Pages of an age.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// How many there are, as they were counted last.
    pages: u64,
    /// Touches of such pages in this second.
    touches: u64,
    /// Touches of pages of this age or older that are remembered.
    returns: f64,
    /// Useful time of the targets in which those happened (ns).
    useful: f64,
}

/// Pages that could be in swap, and what that would cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cold {
    /// They were not touched for that long, or longer.
    pub age: Nanos,
    /// How many they are.
    pub pages: PageCount,
    /// Touches of such pages in a second of useful time, as they are expected.
    pub returns: f64,
    /// The same, at the upper end of what is likely.
    pub most_returns: f64,
}

/// See the module; 2 bytes a page.
#[derive(Clone, Debug)]
pub(crate) struct Ages {
    stamps: Vec<Stamp>,
    bins: [Bin; BINS],
    /// Since when touches are seen.
    began: Nanos,
    swept: Swept,
    /// When a sweep told of a touch last.
    told: Nanos,
    /// When the last sweep ended.
    ended: Nanos,
    /// Useful time since then (ns): its touches are yet to be told.
    pending: f64,
    /// When ages were counted.
    counted: Option<Nanos>,
}

fn units(now: Nanos) -> u16 {
    (now.0 >> UNIT_BITS) as u16
}

fn bin(age: u16) -> usize {
    let age = age.clamp(1, OLDEST);
    let octave = age.ilog2();
    let upper_half = (age << 1 >> octave) & 1;
    2 * octave as usize + usize::from(upper_half)
}

/// Youngest age in a bin.
fn youngest(bin: usize) -> Nanos {
    let half_units = (2 + (bin as u64 & 1)) << (bin / 2);
    Nanos(half_units << (UNIT_BITS - 1))
}

impl Ages {
    /// All pages that are there were touched just now, as far as anybody knows.
    pub(crate) fn new(now: Nanos, view: &View<'_>, swept: Swept) -> Self {
        let stamp = |page| match view.state(PageId(page)).tier() {
            Some(_) => Stamp::new(units(now)),
            None => Stamp::default(),
        };
        Self {
            stamps: (0..view.pages()).map(stamp).collect(),
            bins: Default::default(),
            began: now,
            swept,
            told: now,
            ended: now,
            pending: 0.0,
            counted: None,
        }
    }

    /// Takes in which pages have come and gone, of `pages` ids.
    pub(crate) fn follow(&mut self, now: Nanos, events: &[Event], pages: u32) {
        if pages as usize > self.stamps.len() {
            self.stamps.resize(pages as usize, Stamp::default());
        }
        for event in events {
            let (run, stamp) = match *event {
                Event::Populated { run, .. } => (run, Stamp::new(units(now))),
                // Where a page has gone to, it is known from its next touch on.
                Event::Freed { run }
                | Event::Unmapped { run }
                | Event::Remapped { from: run, .. } => (run, Stamp::default()),
                _ => continue,
            };
            self.stamps[run.range()].fill(stamp);
        }
    }

    /// Takes in that a page was touched, in swap or, as a sweep has found, in memory.
    pub(crate) fn touched(&mut self, now: Nanos, page: PageId, is_found: bool) {
        if is_found {
            self.told = now;
        }
        let units = units(now);
        let Some(stamp) = self.stamps.get_mut(page.index()) else { return };
        if let Some(age) = stamp.age(units) {
            self.bins[bin(age)].touches += 1;
        }
        *stamp = Stamp::new(units);
    }

    /// Takes in a second in which the targets did something useful for so long (ns).
    pub(crate) fn second(&mut self, now: Nanos, useful: f64, swept: Swept) {
        self.pending += useful;
        let mut told = 0.0;
        if swept.times != self.swept.times {
            self.swept = swept;
            self.ended = if self.told > self.ended { self.told } else { now };
            told = core::mem::take(&mut self.pending);
        }
        let watched = self.watched(self.ended);
        let mut touches = 0;
        for (index, bin) in self.bins.iter_mut().enumerate().rev() {
            touches += core::mem::take(&mut bin.touches);
            let youngest = youngest(index);
            let remembered = REMEMBERED.max(REMEMBERED_AGES * youngest.as_secs_f64());
            let kept = 1.0 - 1.0 / remembered;
            bin.returns = bin.returns * kept + touches as f64;
            // Nothing can be older than what we have seen of it.
            bin.useful = bin.useful * kept + if youngest <= watched { told } else { 0.0 };
        }
        if self.counted.is_none_or(|counted| now >= counted.saturating_add(RECOUNT)) {
            self.count(now);
        }
    }

    fn watched(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.began)
    }

    fn count(&mut self, now: Nanos) {
        self.counted = Some(now);
        self.bins.iter_mut().for_each(|bin| bin.pages = 0);
        let since = units(now.saturating_sub(self.ended));
        // A touch that a sweep found may be as old as the sweep before, and of those that a return is told of, some have
        // returned since: half of the pages of an age count as older by a sweep.
        let interval = units(Nanos(self.swept.interval.0 + (1 << UNIT_BITS) / 2));
        let units = units(now);
        for (page, stamp) in self.stamps.iter_mut().enumerate() {
            let Some(age) = stamp.age(units) else { continue };
            if age > OLDEST {
                *stamp = Stamp::new(units.wrapping_sub(OLDEST));
            }
            let older = if page % 2 == 0 { interval } else { 0 };
            self.bins[bin(age.saturating_sub(since).saturating_add(older))].pages += 1;
        }
    }

    /// Memory that could be in swap, more of it by each entry. Empty where nothing is known: at first, and where
    /// sweeps have stopped.
    ///
    /// An age is told from a younger one only beyond the time between two sweeps. What happens once in a time is known
    /// after twice that time.
    pub(crate) fn cold(&self, now: Nanos) -> Vec<Cold> {
        let interval = self.swept.interval;
        let late = Nanos(interval.0 * MISSED).max(LEAST_MISSED);
        if self.swept.times == 0 || now.saturating_sub(self.ended) > late {
            return Vec::new();
        }
        let told = Nanos(interval.0 / 2 * 3)..=Nanos(self.watched(now).0 / 2);
        let (mut cold, mut sums) = (Vec::new(), Cold::default());
        for (index, bin) in self.bins.iter().enumerate().rev() {
            sums.pages = sums.pages.saturating_add(PageCount(bin.pages));
            if bin.useful > 0.0 {
                let a_second = 1e9 / bin.useful;
                let most_returns = bin.returns + CAUTION * libm::sqrt(bin.returns + 1.0);
                // Those of older pages are among them, but are remembered for longer.
                sums.returns = sums.returns.max(bin.returns * a_second);
                sums.most_returns = sums.most_returns.max(most_returns * a_second);
            }
            sums.age = youngest(index);
            if told.contains(&sums.age) {
                cold.push(sums);
            }
        }
        cold
    }
}

#[cfg(test)]
#[path = "ages_tests.rs"]
mod tests;
