//! `alloc-units`: allocations that are hot or cold as a whole, for a while.
//!
//! Model: allocations of many sizes. In each phase some of them are in use: nearly all accesses go
//! to these, evenly, or in order through one after the other. From phase to phase others are in
//! use, and some that are not are given back and allocated anew at the same place.
//! Source: PET (Doh et al., EuroSys 2025), section 3: locality within an allocation; 13 to 85 % of
//! the memory is idle as whole allocations (Fig. 3).
//! Not: a program. Sizes follow a power law between 128 KiB, from where on malloc uses mmap, and a
//! sixteenth of the memory; numbers and lengths of phases are choices.

use super::coin::Coin;
use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream};
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::{Area, Stage};
use frostline_core::rng::Rng;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("32M"),
    Param::text("hot", "30%", "share of the memory whose allocations are in use"),
    Param::text("share", "98%", "share of the accesses that go to these"),
    Param::text("order", "any", "any: a page in use at random; sequential: through each in turn"),
    Param::text("phases", "4", "how often others are in use, 1 to 1000"),
    Param::text("renewed", "10%", "share of the idle allocations that are made anew at a phase"),
    params::writes("20%"),
    params::gap("30"),
    params::THREADS,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

/// Pages of the smallest allocation: 128 KiB, glibc's first `M_MMAP_THRESHOLD`.
const LEAST: u32 = 32;

#[derive(Debug)]
struct AllocUnits {
    stream: PageStream,
    choice: Choice,
    renewed: Coin,
    phases: u64,
    phase: u64,
    length: u64,
}

/// Which allocations are in use, and where the next access goes.
#[derive(Debug)]
struct Choice {
    units: Vec<Area>,
    /// Allocations in use come first.
    order: Vec<usize>,
    in_use: usize,
    /// Pages of the allocations up to and including each, in `order`.
    sums: Vec<u64>,
    hot: f64,
    coin: Coin,
    sequential: bool,
    at: u64,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(u64::from(LEAST) * 64)?;
    let (hot, share) = (settings.share("hot")?, settings.share("share")?);
    if hot <= 0.0 || hot >= 1.0 {
        let what = format!("of {hot} leaves no allocation in use, or none idle");
        return Err(settings.refuse("hot", &what, "give a share between 0 and 1, as 30%"));
    }
    let renewed = Coin::new(settings.share("renewed")?);
    let phases = settings.count("phases", 1, 1000)?;
    let sequential = settings.choice("order", &["any", "sequential"])? == 1;
    let sizes = sizes(pages, &mut rng);
    let (stream, stage, units) = PageStream::open_many(settings, &mut rng, &sizes, 1)?;
    let length = settings.accesses()?.div_ceil(phases);
    let (order, sums, coin) = (Vec::new(), Vec::new(), Coin::new(share));
    let mut choice = Choice { units, order, in_use: 0, sums, hot, coin, sequential, at: 0, rng };
    choice.choose();
    let workload = AllocUnits { stream, choice, renewed, phases, phase: 0, length };
    Ok(Made { stage, workload: Box::new(workload) })
}

/// Sizes whose logarithms are evenly spread; the last one takes what is left.
fn sizes(pages: u32, rng: &mut Rng) -> Vec<u32> {
    let most = f64::from(pages / 16);
    let (mut left, mut sizes) = (pages, Vec::new());
    while left > 0 {
        let size = f64::from(LEAST) * (most / f64::from(LEAST)).powf(rng.unit_f64());
        let size = (size as u32).min(left);
        left -= size;
        match sizes.last_mut() {
            // What is left at the end may be too little for an allocation of its own.
            Some(last) if size < LEAST => *last += size,
            _ => sizes.push(size),
        }
    }
    sizes
}

impl Choice {
    /// Draws which allocations are in use: in random order until their share is reached.
    fn choose(&mut self) {
        let shuffle = Permutation::new(self.units.len() as u32, &mut self.rng);
        self.order = (0..self.units.len() as u32).map(|i| shuffle.apply(i) as usize).collect();
        let mut sum = 0;
        self.sums.clear();
        for &unit in &self.order {
            sum += u64::from(self.units[unit].run.pages);
            self.sums.push(sum);
        }
        let wanted = (sum as f64 * self.hot) as u64;
        let reached = self.sums.partition_point(|&sum| sum < wanted) + 1;
        self.in_use = reached.clamp(1, self.units.len() - 1);
        self.at = 0;
    }

    /// Gives some idle allocations back and makes them anew.
    fn renew(&mut self, stage: &mut Stage, renewed: Coin) {
        for place in self.in_use..self.order.len() {
            if renewed.throw(&mut self.rng) {
                let unit = self.units[self.order[place]];
                stage.unmap(unit);
                stage.map_again(unit);
            }
        }
    }

    /// Page number `nth` of the allocations in their order.
    fn page(&self, nth: u64) -> u32 {
        let place = self.sums.partition_point(|&sum| sum <= nth);
        let before = if place == 0 { 0 } else { self.sums[place - 1] };
        self.units[self.order[place]].run.start.0 + (nth - before) as u32
    }

    fn draw(&mut self) -> u32 {
        let (hot, all) = (self.sums[self.in_use - 1], *self.sums.last().unwrap_or(&0));
        if !self.coin.throw(&mut self.rng) {
            let nth = hot + self.rng.below(all - hot);
            return self.page(nth);
        }
        let nth = if self.sequential {
            // Each page of a sweep is accessed once for each of its lines.
            self.at = (self.at + 1) % (hot * 64);
            self.at / 64
        } else {
            self.rng.below(hot)
        };
        self.page(nth)
    }
}

impl Workload for AllocUnits {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let done = self.stream.done();
        let phase = (done / self.length).min(self.phases - 1);
        if phase > self.phase {
            self.phase = phase;
            self.choice.renew(stage, self.renewed);
            self.choice.choose();
        }
        let limit = ((self.phase + 1) * self.length).saturating_sub(done).max(1);
        let Self { stream, choice, .. } = self;
        stream.step(stage, limit, |out| {
            out.iter_mut().for_each(|page| *page = choice.draw());
            Lines::Random
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::check;

    #[test]
    fn sizes_add_up_and_differ() {
        for pages in [2048, 50_000, 1 << 20] {
            let sizes = sizes(pages, &mut Rng::new(5));
            assert_eq!(sizes.iter().sum::<u32>(), pages);
            assert!(sizes.iter().all(|&size| size >= LEAST));
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most > &(3 * least), "{least} to {most}");
        }
    }

    #[test]
    fn accesses_go_to_allocations_in_use() {
        let spec = "alloc-units:size=64MiB:accesses=400K:init=off:phases=1:hot=20%:share=98%";
        let summary = check(spec);
        let mut counts: Vec<u64> = summary.pages.values().copied().collect();
        counts.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
        // Allocations are whole: somewhat more than 20 % may be in use.
        let in_use: u64 = counts.iter().take(16_384 * 27 / 100).sum();
        assert!(in_use as f64 > 0.975 * summary.records as f64, "{in_use}");
        let many = check(&spec.replace("phases=1", "phases=20"));
        assert!(many.unmapped_early, "some were made anew");
        assert!(many.pages.len() > summary.pages.len() || many.pages.len() > 16_000);
    }
}
