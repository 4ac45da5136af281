//! `shift`: a hot set that changes.
//!
//! Model, `mode=replace`: accesses by Zipf's law; at every change, `change` of the `hot` most
//! popular pages swap their popularity with random others. Source: HybridTier (Song et al.,
//! ASPLOS 2025), section 2.3 and Fig. 4: two thirds of CacheLib's hot data cool down at one moment.
//! Model, `mode=slide`: accesses uniform in a window of `hot` of the pages, which moves on by its
//! own width and wraps around. Source: PET (Doh et al., EuroSys 2025), section 5.2.3 and Fig. 14: eight
//! threads, 1 GB each, a new place every minute, fifteen places, twice around.
//! Not: CacheLib; items are whole pages here. Each PET thread has a window of its own; here all
//! share one.

use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream};
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::Stage;
use super::zipf_law::{ZipfLaw, ZipfRng};
use frostline_core::rng::Rng;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("48M"),
    Param::text("mode", "replace", "replace: ranks change places; slide: a window moves"),
    Param::text("hot", "10%", "share of the pages that are the hot set, or the window"),
    Param::text("change", "2/3", "replace: share of the hot set that cools down at a change"),
    Param::text(
        "period",
        "auto",
        "accesses between changes; auto: replace half of all, slide two rounds in all",
    ),
    params::skew("0.99"),
    params::writes("5%"),
    params::gap("50"),
    params::THREADS,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

#[derive(Debug)]
enum Mode {
    Replace {
        law: ZipfLaw,
        ranks: ZipfRng,
        /// Page of each rank, as offset.
        page_of: Vec<u32>,
        hot: u32,
        leaving: u32,
    },
    Slide {
        start: u32,
        width: u32,
        pages: u32,
    },
}

#[derive(Debug)]
struct Shift {
    stream: PageStream,
    base: u32,
    mode: Mode,
    period: u64,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(16)?;
    let accesses = settings.accesses()?;
    let share = settings.share("hot")?;
    let hot = (f64::from(pages) * share).round() as u32;
    if hot == 0 || hot >= pages {
        let what = format!("of {share} leaves no page {}", if hot == 0 { "hot" } else { "cold" });
        return Err(settings.refuse("hot", &what, "give a share between 0 and 1, as 10%"));
    }
    let slides = settings.choice("mode", &["replace", "slide"])? == 1;
    let change = settings.share("change")?;
    let s = settings.skew()?;
    let period = match settings.is("period", "auto") {
        false => settings.count("period", 1, 1 << 50)?,
        true if slides => (accesses / u64::from(2 * pages.div_ceil(hot))).max(1),
        true => accesses.div_ceil(2),
    };
    let leaving = (f64::from(hot) * change).round() as u32;
    if !slides && leaving > pages - hot {
        let what = format!("lets {leaving} pages cool down, but only {} are cold", pages - hot);
        return Err(settings.refuse("change", &what, "make hot or change smaller"));
    }
    let mode = if slides {
        Mode::Slide { start: 0, width: hot, pages }
    } else {
        let places = Permutation::new(pages, &mut rng);
        Mode::Replace {
            law: ZipfLaw::new(pages, s),
            ranks: ZipfRng::new(&mut rng),
            page_of: (0..pages).map(|rank| places.apply(rank)).collect(),
            hot,
            leaving,
        }
    };
    let (stream, stage, [area]) = PageStream::open(settings, &mut rng, [pages], 1)?;
    let base = area.run.start.0;
    Ok(Made { stage, workload: Box::new(Shift { stream, base, mode, period, rng }) })
}

impl Workload for Shift {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Self { stream, base, mode, period, rng } = self;
        let to_change = *period - stream.done() % *period;
        let more = stream.step(stage, to_change, |out| {
            match mode {
                Mode::Replace { law, ranks, page_of, .. } => {
                    law.fill(ranks, out);
                    for page in out.iter_mut() {
                        *page = *base + page_of[*page as usize];
                    }
                }
                Mode::Slide { start, width, pages } => {
                    for page in out.iter_mut() {
                        let place = *start + rng.below(u64::from(*width)) as u32;
                        *page = *base + if place < *pages { place } else { place - *pages };
                    }
                }
            }
            Lines::Random
        });
        if stream.done() > 0 && stream.done().is_multiple_of(*period) {
            mode.change(rng);
        }
        more
    }
}

impl Mode {
    fn change(&mut self, rng: &mut Rng) {
        match self {
            Self::Slide { start, width, pages } => *start = (*start + *width) % *pages,
            Self::Replace { page_of, hot, leaving, .. } => {
                let leavers = Permutation::new(*hot, rng);
                let cold = page_of.len() as u32 - *hot;
                let joiners = Permutation::new(cold, rng);
                for i in 0..*leaving {
                    page_of.swap(leavers.apply(i) as usize, (*hot + joiners.apply(i)) as usize);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::pages_of;
    use std::collections::{HashMap, HashSet};

    fn hottest(pages: &[u32], n: usize) -> HashSet<u32> {
        let mut counts: HashMap<u32, u64> = HashMap::new();
        for &page in pages {
            *counts.entry(page).or_default() += 1;
        }
        let mut pages: Vec<_> = counts.into_iter().collect();
        pages.sort_unstable_by_key(|&(page, n)| (std::cmp::Reverse(n), page));
        pages[..n].iter().map(|&(page, _)| page).collect()
    }

    #[test]
    fn two_thirds_of_the_hot_set_cool_down_half_way() {
        let pages = pages_of("shift:pages=1000:accesses=8M:init=off:s=0.8");
        let (before, after) = pages.split_at(4_000_000);
        let stay = hottest(before, 100).intersection(&hottest(after, 100)).count();
        assert!((31..=36).contains(&stay), "{stay} of 100 stay");
        let quarter = hottest(&before[..2_000_000], 100);
        assert!(quarter.intersection(&hottest(&before[2_000_000..], 100)).count() > 95);
    }

    #[test]
    fn the_window_goes_round_twice() {
        let pages = pages_of("shift:mode=slide:pages=1000:accesses=20K:init=off:hot=10%");
        for (i, window) in pages.chunks(1000).enumerate() {
            let start = (i as u32 * 100) % 1000;
            assert!(window.iter().all(|p| (start..start + 100).contains(p)), "window {i}");
        }
        assert_eq!(pages.len(), 20_000);
    }
}
