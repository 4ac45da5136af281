//! `zipf`: independent accesses to pages by Zipf's law.
//!
//! Model: page of rank r is accessed with probability proportional to 1/(r+1)^s; ranks fall on
//! pages at random (`layout=scattered`: every 2 MiB region holds a bit of everything) or in order
//! (`clustered`: the hot pages are neighbours, somewhere in the mapping).
//! Source: popularity of cached objects, Breslau et al., INFOCOM 1999; s = 0.99 as in YCSB
//! (Cooper et al., SoCC 2010).
//! Not: a program. No locality in time, no phases; a record is an access that missed the caches.

use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream};
use super::params::{self, Param, Settings};
use super::permutation::Permutation;
use super::stage::Stage;
use super::zipf_law::{ZipfLaw, ZipfRng};
use frostline_core::types::HUGE_PAGES;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("1GiB"),
    params::PAGES,
    params::accesses("32M"),
    params::skew("0.99"),
    Param::text("layout", "scattered", "scattered: hot pages anywhere; clustered: side by side"),
    params::writes("5%"),
    params::gap("50"),
    params::THREADS,
    params::INIT,
    params::THIN,
    params::EPOCH,
    params::SEED,
];

/// Which page has which rank.
#[derive(Debug)]
enum Layout {
    Scattered(Permutation),
    /// Rank 0 has this page, the others follow and wrap around.
    Clustered {
        start: u32,
    },
}

#[derive(Debug)]
struct Zipf {
    stream: PageStream,
    pages: u32,
    base: u32,
    law: ZipfLaw,
    layout: Layout,
    rng: ZipfRng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(1)?;
    let s = settings.skew()?;
    let layout = match settings.choice("layout", &["scattered", "clustered"])? {
        0 => Layout::Scattered(Permutation::new(pages, &mut rng)),
        _ => {
            let start = rng.below(u64::from(pages)) as u32;
            Layout::Clustered { start: start - start % HUGE_PAGES }
        }
    };
    let (stream, stage, [area]) = PageStream::open(settings, &mut rng, [pages], settings.thin()?)?;
    let law = ZipfLaw::new(pages, s);
    let base = area.run.start.0;
    let rng = ZipfRng::new(&mut rng);
    Ok(Made { stage, workload: Box::new(Zipf { stream, pages, base, law, layout, rng }) })
}

impl Workload for Zipf {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Self { stream, pages, base, law, layout, rng } = self;
        stream.step(stage, u64::MAX, |out| {
            law.fill(rng, out);
            match layout {
                Layout::Scattered(permutation) => {
                    for page in out.iter_mut() {
                        *page = *base + permutation.apply(*page);
                    }
                }
                Layout::Clustered { start } => {
                    for page in out.iter_mut() {
                        let place = *start + *page;
                        *page = *base + if place < *pages { place } else { place - *pages };
                    }
                }
            }
            Lines::Random
        })
    }
}
