//! `scan`: sequential sweeps over all pages, again and again.
//!
//! Model: each sweep reads every page in order, its lines in order; optionally a part of the
//! accesses goes by Zipf's law to a second, dense mapping (a model that is updated while the
//! samples are read through). Huge pages are evenly used: splitting them gains nothing.
//! Source: the sweeps of Liblinear over its sparse matrix as MEMTIS describes them (Lee et al.,
//! SOSP 2023, Fig. 3a): hot huge pages are used in full.
//! Not: Liblinear. Its random order of samples and the lengths of its rows are left out.

use super::coin::Coin;
use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream};
use super::params::{self, Param, Settings};
use super::stage::Stage;
use super::zipf_law::{ZipfLaw, ZipfRng};
use frostline_core::rng::Rng;
use frostline_core::types::PAGE_BYTES;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("32M"),
    Param::text("per-page", "64", "accesses to a page in one sweep, 1 to 64: lines evenly apart"),
    Param::text("mix", "0%", "share of the accesses that go to the second mapping"),
    Param::text("mix-size", "64MiB", "size of the second mapping"),
    params::skew("0.99"),
    params::writes("5%"),
    params::gap("25"),
    params::THREADS,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

#[derive(Debug)]
struct Scan {
    stream: PageStream,
    pages: u32,
    base: u32,
    per_page: u32,
    page: u32,
    nth: u32,
    mix: Coin,
    mix_base: u32,
    law: ZipfLaw,
    ranks: ZipfRng,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(1)?;
    let per_page = settings.count("per-page", 1, 64)? as u32;
    let share = settings.share("mix")?;
    let law_s = settings.skew()?;
    let mix_pages = settings.bytes("mix-size")?.div_ceil(PAGE_BYTES);
    if !(1..=1 << 28).contains(&mix_pages) {
        let what = format!("stands for {mix_pages} pages of 4 KiB");
        return Err(settings.refuse("mix-size", &what, "give 4KiB to 1TiB"));
    }
    let mix_pages = mix_pages as u32;
    let (stream, stage, base, mix_base) = if share > 0.0 {
        let (stream, stage, [area, mix]) =
            PageStream::open(settings, &mut rng, [pages, mix_pages], 1)?;
        (stream, stage, area.run.start.0, mix.run.start.0)
    } else {
        let (stream, stage, [area]) = PageStream::open(settings, &mut rng, [pages], 1)?;
        (stream, stage, area.run.start.0, 0)
    };
    let law = ZipfLaw::new(mix_pages, law_s);
    let ranks = ZipfRng::new(&mut rng);
    let mix = Coin::new(share);
    let scan =
        Scan { stream, pages, base, per_page, page: 0, nth: 0, mix, mix_base, law, ranks, rng };
    Ok(Made { stage, workload: Box::new(scan) })
}

impl Workload for Scan {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Self { stream, pages, base, per_page, page, nth, mix, mix_base, law, ranks, rng } =
            self;
        stream.step(stage, u64::MAX, |out| {
            let mut lines = Vec::with_capacity(out.len());
            for slot in out {
                if mix.throw(rng) {
                    *slot = *mix_base + law.draw(ranks);
                    lines.push((rng.next_u64() >> 58) as u32);
                    continue;
                }
                *slot = *base + *page;
                lines.push(*nth * 64 / *per_page);
                *nth += 1;
                if *nth == *per_page {
                    *nth = 0;
                    *page = (*page + 1) % *pages;
                }
            }
            Lines::Given(lines)
        })
    }
}
