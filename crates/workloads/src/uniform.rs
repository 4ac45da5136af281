//! `uniform`: independent accesses, all pages alike.
//!
//! Model: every access takes any page with equal probability. No placement beats another, hence
//! a policy gains nothing and loses what it migrates: the control experiment.
//! Source: GUPS (HPC Challenge RandomAccess) as tiering papers use it.
//! Not: a program; the pages of a real one are never equally hot.

use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream};
use super::params::{self, Param, Settings};
use super::stage::Stage;
use frostline_core::rng::Rng;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("1GiB"),
    params::PAGES,
    params::accesses("32M"),
    params::writes("5%"),
    params::gap("50"),
    params::THREADS,
    params::INIT,
    params::THIN,
    params::EPOCH,
    params::SEED,
];

#[derive(Debug)]
struct Uniform {
    stream: PageStream,
    pages: u32,
    base: u32,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(1)?;
    let (stream, stage, [area]) = PageStream::open(settings, &mut rng, [pages], settings.thin()?)?;
    let base = area.run.start.0;
    Ok(Made { stage, workload: Box::new(Uniform { stream, pages, base, rng }) })
}

impl Workload for Uniform {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let Self { stream, pages, base, rng } = self;
        stream.step(stage, u64::MAX, |out| {
            for page in out {
                *page = *base + rng.below(u64::from(*pages)) as u32;
            }
            Lines::Random
        })
    }
}
