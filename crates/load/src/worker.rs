//! A thread that uses its share of the pages.

use crate::churn::Churn;
use crate::content::{Flaw, PageBytes, Recipe, check_fully};
use crate::forks::Forks;
use crate::hot_set::HotSet;
use crate::pace::Pace;
use crate::shared::Shared;
use frostline_core::rng::Rng;
use serde::Serialize;
use std::ops::Range;
use std::time::Instant;

/// Hot accesses between two looks at the clock.
const ROUND: u64 = 256;
/// One access in so many checks the whole page.
const FULL_CHECK_EVERY: u64 = 1024;

/// A page and what it must hold. The version is kept outside of the page, so that a page that
/// falls back to an older state is noticed, although its checksum fits.
#[derive(Debug)]
pub struct Page<'m> {
    pub bytes: &'m mut PageBytes,
    pub number: u32,
    pub version: u32,
}

impl Page<'_> {
    /// Writes the page anew, under the next version.
    pub fn rewrite(&mut self, recipe: &Recipe) {
        self.version = self.version.wrapping_add(1);
        recipe.write(self.bytes, u64::from(self.number), u64::from(self.version));
    }

    /// Checks all of it.
    pub fn check_fully(&self) -> Result<(), Flaw> {
        check_fully(self.bytes, u64::from(self.number), u64::from(self.version))
    }
}

/// What workers do, the same for all of them. Rates are each worker's own.
#[derive(Clone, Debug)]
pub struct Work {
    pub recipe: Recipe,
    pub hot_set: HotSet,
    /// Share of accesses that write.
    pub write_share: f64,
    pub cold: Cold,
    /// Accesses after which the work is done.
    pub operations: Option<u64>,
    pub forks_per_second: f64,
    pub churn_per_second: f64,
    /// Whether every access checks the whole page.
    pub check_all: bool,
    pub huge: bool,
}

/// How often cold pages are accessed.
#[derive(Clone, Copy, Debug)]
pub enum Cold {
    /// So often, whatever happens to hot ones.
    PerSecond(f64),
    /// This share of all accesses.
    Share(f64),
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {
    /// Accesses, hot and cold.
    pub operations: u64,
    /// Those that wrote the page.
    pub writes: u64,
    /// Those to cold pages.
    pub cold_accesses: u64,
    /// Pages whose every byte was checked.
    pub verified_pages: u64,
    /// Processes forked.
    pub forks: u64,
    /// Areas mapped beside the main one.
    pub areas_mapped: u64,
    /// Of these, areas checked and unmapped while the load went on.
    pub areas_unmapped: u64,
}

impl Done {
    /// Both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            writes: self.writes + other.writes,
            cold_accesses: self.cold_accesses + other.cold_accesses,
            verified_pages: self.verified_pages + other.verified_pages,
            forks: self.forks + other.forks,
            areas_mapped: self.areas_mapped + other.areas_mapped,
            areas_unmapped: self.areas_unmapped + other.areas_unmapped,
        }
    }
}

/// A thread's state.
pub struct Worker<'m, 's> {
    number: usize,
    work: &'s Work,
    shared: &'s Shared,
    rng: Rng,
    /// Hot ones first.
    pages: Vec<Page<'m>>,
    hot_pages: usize,
    generation: u32,
    writes_below: u64,
    done: Done,
}

impl<'m, 's> Worker<'m, 's> {
    /// A worker on these pages, at least one, which hold what they say.
    pub fn new(
        number: usize,
        work: &'s Work,
        shared: &'s Shared,
        rng: Rng,
        pages: Vec<Page<'m>>,
    ) -> Self {
        let mut worker = Self {
            number,
            work,
            shared,
            rng,
            pages,
            hot_pages: 0,
            generation: 0,
            writes_below: (work.write_share * (1u64 << 32) as f64) as u64,
            done: Done::default(),
        };
        worker.put_hot_first();
        worker
    }

    fn put_hot_first(&mut self) {
        let (set, generation) = (&self.work.hot_set, self.generation);
        self.pages.sort_unstable_by_key(|p| (!set.is_hot(p.number, generation), p.number));
        self.hot_pages = self.pages.partition_point(|p| set.is_hot(p.number, generation));
    }

    /// Works until a stop is asked for, then checks every page.
    pub fn run(mut self, started: Instant) -> Done {
        let mut cold = match self.work.cold {
            Cold::PerSecond(rate) => Pace::new(rate),
            Cold::Share(_) => Pace::new(0.0),
        };
        let most = self.work.operations.unwrap_or(u64::MAX);
        let mut forks = Forks::new(self.work.forks_per_second);
        let mut churn = Churn::new(self.number, self.work, self.rng.fork());
        while !self.shared.stopping() && self.done.operations < most {
            if self.generation != self.shared.generation() {
                self.generation = self.shared.generation();
                self.put_hot_first();
            }
            match self.work.cold {
                Cold::PerSecond(_) => self.access(0..self.hot_pages, ROUND),
                Cold::Share(share) => self.access_mixed(share),
            }
            let seconds = started.elapsed().as_secs_f64();
            let before = self.done.operations;
            self.access(self.hot_pages..self.pages.len(), cold.due(seconds));
            self.done.cold_accesses += self.done.operations - before;
            forks.tend(seconds, &mut self.pages, &self.work.recipe, &mut self.rng, self.shared);
            churn.tend(seconds, self.shared);
            self.shared.set_operations(self.number, self.done.operations);
        }
        if self.shared.worker_ended(started.elapsed()) {
            eprintln!("done");
        }
        churn.finish(self.shared);
        forks.finish(self.shared);
        self.check_all();
        Done {
            forks: forks.started,
            areas_mapped: churn.mapped,
            areas_unmapped: churn.unmapped,
            verified_pages: self.done.verified_pages + churn.verified_pages,
            ..self.done
        }
    }

    /// A round of accesses to hot and cold pages, in random order.
    fn access_mixed(&mut self, cold_share: f64) {
        let cold_below = (cold_share * (1u64 << 32) as f64) as u64;
        for _ in 0..ROUND {
            if self.rng.next_u64() >> 32 < cold_below {
                self.access(self.hot_pages..self.pages.len(), 1);
                self.done.cold_accesses += 1;
            } else {
                self.access(0..self.hot_pages, 1);
            }
        }
    }

    /// Makes `n` accesses to random pages of a range; none where it is empty.
    fn access(&mut self, range: Range<usize>, n: u64) {
        if range.is_empty() {
            return;
        }
        for _ in 0..n {
            let at = range.start + self.rng.below(range.len() as u64) as usize;
            let draw = self.rng.next_u64();
            let page = &mut self.pages[at];
            let number = u64::from(page.number);
            self.done.operations += 1;
            let writes = draw & 0xffff_ffff < self.writes_below;
            // Damage must not be written over unseen.
            let all = writes
                || self.work.check_all
                || self.done.operations.is_multiple_of(FULL_CHECK_EVERY);
            let checked = if all {
                self.done.verified_pages += 1;
                page.check_fully()
            } else {
                let probe = (draw >> 32) as u32;
                let version = u64::from(page.version);
                self.work.recipe.check_quickly(page.bytes, number, version, probe)
            };
            if let Err(flaw) = checked {
                return self.shared.found(format_args!("page {number}: {flaw}"));
            }
            if writes {
                page.rewrite(&self.work.recipe);
                self.done.writes += 1;
            }
        }
    }

    fn check_all(&mut self) {
        for page in &self.pages {
            self.done.verified_pages += 1;
            if let Err(flaw) = page.check_fully() {
                self.shared.found(format_args!("page {} in the end: {flaw}", page.number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::PAGE_BYTES;
    use crate::hot_set::Scatter;

    const PAGES: u32 = 100;

    fn work(hot_set: HotSet) -> Work {
        Work {
            recipe: Recipe::new(1, 3.0),
            hot_set,
            write_share: 0.1,
            cold: Cold::PerSecond(0.0),
            operations: None,
            forks_per_second: 0.0,
            churn_per_second: 0.0,
            check_all: false,
            huge: false,
        }
    }

    fn with_worker(test: impl FnOnce(&mut Worker<'_, '_>, &Shared)) {
        let work = work(HotSet::new(PAGES, 0.2, Scatter::Page, &mut Rng::new(1)));
        let shared = Shared::new(1);
        let mut memory = vec![[0u8; PAGE_BYTES]; PAGES as usize];
        let pages = memory.iter_mut().zip(0..).map(|(bytes, number)| {
            let mut page = Page { bytes, number, version: 0 };
            page.rewrite(&work.recipe);
            page
        });
        test(&mut Worker::new(0, &work, &shared, Rng::new(2), pages.collect()), &shared);
    }

    #[test]
    fn hot_accesses_read_and_write_hot_pages_only() {
        with_worker(|worker, shared| {
            assert_eq!(worker.hot_pages, 20);
            worker.access(0..worker.hot_pages, 2000);
            assert_eq!(shared.findings().count, 0);
            assert_eq!(worker.done.operations, 2000);
            assert!((100..300).contains(&worker.done.writes), "{}", worker.done.writes);
            let set = &worker.work.hot_set;
            for page in &worker.pages {
                assert_eq!(page.version > 1, set.is_hot(page.number, 0), "{page:?}");
            }
            worker.check_all();
            assert_eq!(shared.findings().count, 0);
        });
    }

    #[test]
    fn the_share_of_hot_accesses_is_kept() {
        with_worker(|worker, shared| {
            for _ in 0..20 {
                worker.access_mixed(0.25);
            }
            assert_eq!(worker.done.operations, 20 * ROUND);
            let share = worker.done.cold_accesses as f64 / worker.done.operations as f64;
            assert!((0.2..0.3).contains(&share), "{share}");
            assert_eq!(shared.findings().count, 0);
        });
    }

    #[test]
    fn another_generation_has_other_pages_first() {
        with_worker(|worker, shared| {
            let numbers = |worker: &Worker<'_, '_>| {
                worker.pages[..worker.hot_pages].iter().map(|p| p.number).collect::<Vec<_>>()
            };
            let before = numbers(worker);
            worker.generation = shared.next_generation();
            worker.put_hot_first();
            let after = numbers(worker);
            assert_eq!(after.len(), before.len());
            assert!(after.iter().all(|number| !before.contains(number)));
        });
    }

    #[test]
    fn damage_is_found_named_and_ends_the_work() {
        with_worker(|worker, shared| {
            let damaged = &mut worker.pages[3];
            let number = damaged.number;
            *damaged.bytes = [0; PAGE_BYTES];
            worker.access(3..4, 10);
            assert_eq!(worker.done.operations, 1, "the first access finds it");
            assert!(shared.stopping());
            worker.check_all();
            let findings = shared.findings();
            assert_eq!(findings.count, 2);
            for text in &findings.first {
                assert!(text.starts_with(&format!("page {number}")), "{text}");
            }
        });
    }

    #[test]
    fn a_lost_write_is_found_although_the_page_is_whole() {
        with_worker(|worker, shared| {
            let old = *worker.pages[0].bytes;
            worker.pages[0].rewrite(&worker.work.recipe);
            *worker.pages[0].bytes = old;
            worker.check_all();
            assert_eq!(shared.findings().count, 1);
            assert!(shared.findings().first[0].contains("version 1 instead of 2"));
        });
    }
}
