//! `masim`: one hot page in every huge page.
//!
//! Model: each access takes a random group of `stride` pages and in it the one page that is hot;
//! with several phases, the hot page of each group is another one in each. All hot pages together
//! are 1/512 of the memory, yet every huge page is hot: the extreme of skew inside huge pages.
//! Source: Masim (Park), as GPAC configures it, section 5.1: one 4 KiB page out of 512.
//! Not: Masim's configuration language. At this size the hot pages would fit a last-level cache
//! of 2 MiB; the records are what is left when something else fills it.

use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream};
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::Stage;
use frostline_core::rng::Rng;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("1GiB"),
    params::PAGES,
    params::accesses("32M"),
    Param::text("stride", "512", "pages of which one is hot, 1 to 4096"),
    Param::text("share", "100%", "share of the accesses that go to hot pages, the rest anywhere"),
    Param::text("phases", "1", "equally long phases, each with other hot pages, 1 to stride"),
    params::writes("5%"),
    params::gap("50"),
    params::THREADS,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

#[derive(Debug)]
struct Masim {
    stream: PageStream,
    base: u32,
    pages: u32,
    stride: u32,
    /// Order in which the pages of each group become hot.
    order: Vec<Permutation>,
    phase_length: u64,
    share: f64,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let stride = settings.count("stride", 1, 4096)? as u32;
    let pages = settings.pages(u64::from(stride))?;
    let phases = settings.count("phases", 1, u64::from(stride))?;
    let phase_length = settings.accesses()?.div_ceil(phases);
    let share = settings.share("share")?;
    let order = (0..pages / stride).map(|_| Permutation::new(stride, &mut rng)).collect();
    let (stream, stage, [area]) = PageStream::open(settings, &mut rng, [pages], 1)?;
    let base = area.run.start.0;
    let masim = Masim { stream, base, pages, stride, order, phase_length, share, rng };
    Ok(Made { stage, workload: Box::new(masim) })
}

impl Workload for Masim {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Self { stream, base, pages, stride, order, phase_length, share, rng } = self;
        let phase = (stream.done() / *phase_length) as u32;
        let to_change = *phase_length - stream.done() % *phase_length;
        stream.step(stage, to_change, |out| {
            for page in out {
                *page = *base
                    + if *share < 1.0 && rng.unit_f64() >= *share {
                        rng.below(u64::from(*pages)) as u32
                    } else {
                        let group = rng.below(order.len() as u64) as u32;
                        group * *stride + order[group as usize].apply(phase)
                    };
            }
            Lines::Random
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::pages_of;
    use std::collections::HashSet;

    #[test]
    fn each_region_has_one_hot_page_a_phase() {
        let pages = pages_of("masim:size=32MiB:accesses=30K:init=off:phases=3");
        let mut all = HashSet::new();
        for phase in pages.chunks(10_000) {
            let hot: HashSet<u32> = phase.iter().copied().collect();
            let regions: HashSet<u32> = hot.iter().map(|page| page / 512).collect();
            assert_eq!((hot.len(), regions.len()), (16, 16));
            all.extend(hot);
        }
        assert_eq!(all.len(), 48, "every phase has hot pages of its own");
    }
}
