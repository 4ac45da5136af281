//! `hotcold`: two kinds of pages, hot ones packed or scattered over huge pages.
//!
//! Model: a share of the accesses goes uniformly to a set of hot pages, the rest to the others.
//! The hot pages fill a part `1 - hf` of every 2 MiB region that holds any: a fast tier that just
//! holds the hot set as base pages then holds only that part of it as huge pages, which is the
//! definition of hotness fragmentation, HF = 1 - N_huge / N_base.
//! Source: HotBox (Bergman et al., ISMM 2022), section 3.2.2 and Fig. 5c.
//! Not: a program. The paper draws HF by its harness; here it is exact up to rounding to pages.

use super::coin::Coin;
use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream};
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::Stage;
use frostline_core::rng::Rng;
use frostline_core::types::HUGE_PAGES;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("1GiB"),
    params::PAGES,
    params::accesses("32M"),
    Param::text("hot", "10%", "share of the pages that are hot"),
    Param::text("share", "90%", "share of the accesses that go to hot pages"),
    Param::text(
        "hf",
        "0.8",
        "hotness fragmentation: share of cold pages in regions with hot ones, 0 to 1 - hot",
    ),
    params::writes("5%"),
    params::gap("30"),
    params::THREADS,
    params::INIT,
    params::THIN,
    params::EPOCH,
    params::SEED,
];

#[derive(Debug)]
struct HotCold {
    stream: PageStream,
    base: u32,
    /// Hot pages, then cold ones, as offsets.
    pages: Vec<u32>,
    hot: usize,
    coin: Coin,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(1024)? / HUGE_PAGES * HUGE_PAGES;
    let (share_hot, hf) = (settings.share("hot")?, settings.share("hf")?);
    let hot = (f64::from(pages) * share_hot).round() as u32;
    if hot == 0 || hot >= pages {
        let what =
            format!("of {share_hot} leaves no page {}", if hot == 0 { "hot" } else { "cold" });
        return Err(settings.refuse("hot", &what, "give a share between 0 and 1, as 10%"));
    }
    let regions = hot_regions(pages, hot, hf).ok_or_else(|| {
        settings.refuse(
            "hf",
            &format!("of {hf} cannot be had with hot={share_hot}: no region would be hot enough"),
            &format!("give hf up to {:.3}, or fewer hot pages", 1.0 - share_hot),
        )
    })?;
    let coin = Coin::new(settings.share("share")?);
    let list = place(pages, hot, regions, &mut rng);
    let (stream, stage, [area]) = PageStream::open(settings, &mut rng, [pages], settings.thin()?)?;
    let base = area.run.start.0;
    let hot = hot as usize;
    Ok(Made { stage, workload: Box::new(HotCold { stream, base, pages: list, hot, coin, rng }) })
}

/// In how many regions the hot pages must lie to be the part `1 - hf` of them.
fn hot_regions(pages: u32, hot: u32, hf: f64) -> Option<u32> {
    let exact = f64::from(hot) / (f64::from(HUGE_PAGES) * (1.0 - hf));
    let regions = exact.round().max(f64::from(hot.div_ceil(HUGE_PAGES)));
    // A rounding error of one region shall not refuse the extreme case.
    let most = f64::from(pages / HUGE_PAGES);
    (exact <= most * 1.001).then_some(regions.min(most) as u32)
}

/// Hot pages evenly over random regions, anywhere inside them; then the cold ones.
fn place(pages: u32, hot: u32, regions: u32, rng: &mut Rng) -> Vec<u32> {
    let scatter = Permutation::new(pages / HUGE_PAGES, rng);
    let mut is_hot = vec![false; pages as usize];
    let mut list = Vec::with_capacity(pages as usize);
    for nth in 0..regions {
        let upto = |n: u32| (u64::from(n) * u64::from(hot) / u64::from(regions)) as u32;
        let region = scatter.apply(nth) * HUGE_PAGES;
        let inside = Permutation::new(HUGE_PAGES, rng);
        for i in 0..upto(nth + 1) - upto(nth) {
            let page = region + inside.apply(i);
            is_hot[page as usize] = true;
            list.push(page);
        }
    }
    list.extend((0..pages).filter(|&page| !is_hot[page as usize]));
    list
}

impl Workload for HotCold {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Self { stream, base, pages, hot, coin, rng } = self;
        let (hot, cold) = pages.split_at(*hot);
        stream.step(stage, u64::MAX, |out| {
            for page in out {
                let set = if coin.throw(rng) { hot } else { cold };
                *page = *base + set[rng.below(set.len() as u64) as usize];
            }
            Lines::Random
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HF by its definition: hot pages that a tier of their number holds as huge pages.
    fn measured_hf(pages: u32, hot: u32, hf: f64) -> f64 {
        let regions = hot_regions(pages, hot, hf).expect("possible");
        let list = place(pages, hot, regions, &mut Rng::new(9));
        let mut in_region = vec![0u32; (pages / HUGE_PAGES) as usize];
        for &page in &list[..hot as usize] {
            in_region[(page / HUGE_PAGES) as usize] += 1;
        }
        in_region.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
        let capacity = (hot / HUGE_PAGES) as usize;
        let held: u32 = in_region[..capacity].iter().sum();
        1.0 - f64::from(held) / f64::from(hot)
    }

    #[test]
    fn hotness_fragmentation_is_what_was_asked_for() {
        let (pages, hot) = (512 * 1000, 51_200);
        for hf in [0.0, 0.2, 0.5, 0.8, 0.9] {
            let measured = measured_hf(pages, hot, hf);
            assert!((measured - hf).abs() < 0.01, "asked for {hf}, measured {measured}");
        }
        assert_eq!(hot_regions(pages, hot, 0.95), None);
    }

    #[test]
    fn every_page_is_hot_or_cold_once() {
        let mut list = place(2048, 300, 2, &mut Rng::new(1));
        list.sort_unstable();
        assert!(list.into_iter().eq(0..2048));
    }
}
