//! Areas that come and go, so that whoever follows the mappings of the process has work.

use crate::area::Area;
use crate::content::{Recipe, check_fully};
use crate::pace::Pace;
use crate::shared::Shared;
use crate::worker::Work;
use frostline_core::rng::Rng;

/// Areas of one worker at the same time.
const MOST_AREAS: usize = 16;
/// Areas have 1 to 2^this pages; small ones are as frequent as large ones.
const MOST_PAGES_LOG2: u64 = 10;
/// Numbers of pages in areas: worker, area, page. The main memory's pages are below 2^32.
const WORKER_SHIFT: u32 = 48;
const AREA_SHIFT: u32 = 16;

/// The extra areas of a worker.
#[derive(Debug)]
pub struct Churn {
    pace: Pace,
    rng: Rng,
    recipe: Recipe,
    huge: bool,
    areas: Vec<Numbered>,
    next_number: u64,
    /// Areas mapped so far.
    pub mapped: u64,
    /// Areas unmapped so far, but for those in the end.
    pub unmapped: u64,
    /// Pages checked so far.
    pub verified_pages: u64,
}

#[derive(Debug)]
struct Numbered {
    area: Area,
    first_number: u64,
}

impl Churn {
    /// Areas of the worker with this number.
    pub fn new(worker: usize, work: &Work, rng: Rng) -> Self {
        Self {
            pace: Pace::new(work.churn_per_second),
            rng,
            recipe: work.recipe,
            huge: work.huge,
            areas: Vec::new(),
            next_number: (worker as u64 + 1) << WORKER_SHIFT,
            mapped: 0,
            unmapped: 0,
            verified_pages: 0,
        }
    }

    /// Maps areas where it is due; each takes the place of another one, which is checked first.
    pub fn tend(&mut self, seconds: f64, shared: &Shared) {
        for _ in 0..self.pace.due(seconds) {
            if self.areas.len() == MOST_AREAS {
                let at = self.rng.below(MOST_AREAS as u64) as usize;
                let old = self.areas.swap_remove(at);
                self.check(old, shared);
                self.unmapped += 1;
            }
            match self.map() {
                Ok(area) => self.areas.push(area),
                Err(error) => return shared.found(format_args!("no memory for an area: {error}")),
            }
        }
    }

    /// Checks and unmaps all that is left.
    pub fn finish(&mut self, shared: &Shared) {
        while let Some(area) = self.areas.pop() {
            self.check(area, shared);
        }
    }

    fn map(&mut self) -> std::io::Result<Numbered> {
        let most = 1 << self.rng.below(MOST_PAGES_LOG2 + 1);
        let pages = 1 + self.rng.below(most) as usize;
        let mut area = Area::map(pages, self.huge)?;
        let first_number = self.next_number;
        for (page, number) in area.pages_mut().iter_mut().zip(first_number..) {
            self.recipe.write(page, number, 1);
        }
        self.next_number += 1 << AREA_SHIFT;
        self.mapped += 1;
        Ok(Numbered { area, first_number })
    }

    fn check(&mut self, mut old: Numbered, shared: &Shared) {
        for (page, number) in old.area.pages_mut().iter().zip(old.first_number..) {
            self.verified_pages += 1;
            if let Err(flaw) = check_fully(page, number, 1) {
                shared.found(format_args!("page {number:#x} of an extra area: {flaw}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot_set::{HotSet, Scatter};
    use crate::worker::Cold;

    fn churn() -> Churn {
        let mut rng = Rng::new(1);
        let work = Work {
            recipe: Recipe::new(1, 3.0),
            hot_set: HotSet::new(1, 1.0, Scatter::Page, &mut rng),
            write_share: 0.0,
            cold: Cold::PerSecond(0.0),
            operations: None,
            forks_per_second: 0.0,
            churn_per_second: 10.0,
            check_all: false,
            huge: false,
        };
        Churn::new(0, &work, rng)
    }

    #[test]
    fn areas_come_and_go_and_are_checked() {
        let (mut churn, shared) = (churn(), Shared::new(1));
        churn.tend(4.0, &shared);
        assert_eq!((churn.mapped, churn.unmapped, churn.areas.len()), (40, 24, 16));
        churn.finish(&shared);
        assert!(churn.areas.is_empty() && churn.verified_pages >= 40);
        assert_eq!(shared.findings().count, 0);
    }

    #[test]
    fn damage_in_an_area_is_found() {
        let (mut churn, shared) = (churn(), Shared::new(1));
        churn.tend(0.5, &shared);
        churn.areas[2].area.pages_mut()[0][50] ^= 4;
        churn.finish(&shared);
        assert_eq!(shared.findings().count, 1);
    }
}
