//! `phases`: a program whose memory grows and shrinks while a neighbour of it comes and goes.
//!
//! Model: a resident part is touched rarely but for a small share of it; every other phase a second
//! part of equal size is allocated, filled, accessed evenly by nearly all accesses, and given back.
//! Source: imagick beside XSBench, PET (Doh et al., EuroSys 2025), section 5.2.1 and Fig. 12: before
//! XSBench starts, 90.7 % of the memory of imagick can be slow.
//! Not: two programs. One process does both in turn; lengths and sizes of phases are choices.

use super::coin::Coin;
use super::made::{Made, Workload};
use super::page_stream::{Lines, PageStream, write_pages};
use super::params::{self, Param, Settings};
use super::stage::{Area, Stage};
use frostline_core::rng::Rng;
use frostline_trace::error::TraceError;

pub(super) const PARAMS: &[Param] = &[
    params::size("512MiB"),
    params::PAGES,
    params::accesses("32M"),
    Param::text("phases", "6", "phases, without and with the second part in turn, 1 to 1000"),
    Param::text("burst", "50%", "share of the memory that comes and goes"),
    Param::text("active", "9.3%", "share of the resident part that is in use"),
    Param::text("share", "90%", "share of the accesses that go to what is in use"),
    params::writes("10%"),
    params::gap("30"),
    params::THREADS,
    params::INIT,
    params::EPOCH,
    params::SEED,
];

#[derive(Debug)]
struct Phases {
    stream: PageStream,
    resident: Area,
    burst: Area,
    mapped: bool,
    active: u64,
    coin: Coin,
    phases: u64,
    phase: u64,
    length: u64,
    rng: Rng,
}

pub(super) fn build(settings: &Settings) -> Result<Made, TraceError> {
    let mut rng = settings.rng()?;
    let pages = settings.pages(64)?;
    let (burst, active) = (settings.share("burst")?, settings.share("active")?);
    let burst_pages = (f64::from(pages) * burst) as u32;
    if burst_pages == 0 || burst_pages >= pages {
        let what = format!("of {burst} leaves no memory that comes, or none that stays");
        return Err(settings.refuse("burst", &what, "give a share between 0 and 1, as 50%"));
    }
    let coin = Coin::new(settings.share("share")?);
    let phases = settings.count("phases", 1, 1000)?;
    let sizes = [pages - burst_pages, burst_pages];
    let (stream, mut stage, [resident, burst]) = PageStream::open(settings, &mut rng, sizes, 1)?;
    stage.unmap(burst);
    let workload = Phases {
        stream: stream.without_loading(burst),
        resident,
        burst,
        mapped: false,
        active: ((f64::from(resident.run.pages) * active) as u64).max(1),
        coin,
        phases,
        phase: 0,
        length: settings.accesses()?.div_ceil(phases),
        rng,
    };
    Ok(Made { stage, workload: Box::new(workload) })
}

impl Workload for Phases {
    fn step(&mut self, stage: &mut Stage) -> bool {
        let done = self.stream.done();
        self.phase = (done / self.length).min(self.phases - 1);
        let bursts = self.phase % 2 == 1;
        if bursts && !self.mapped {
            stage.map_again(self.burst);
            write_pages(stage, self.burst.pages());
        } else if !bursts && self.mapped {
            stage.unmap(self.burst);
        }
        self.mapped = bursts;
        let limit = ((self.phase + 1) * self.length).saturating_sub(done).max(1);
        let Self { stream, resident, burst, coin, rng, active, .. } = self;
        stream.step(stage, limit, |out| {
            for page in out {
                let in_use = coin.throw(rng);
                *page = if bursts && in_use {
                    burst.run.start.0 + rng.below(u64::from(burst.run.pages)) as u32
                } else {
                    let among = if in_use { *active } else { u64::from(resident.run.pages) };
                    resident.run.start.0 + rng.below(among) as u32
                };
            }
            Lines::Random
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::check;

    #[test]
    fn the_burst_is_hot_in_every_other_phase_only() {
        let summary = check("phases:size=8MiB:accesses=200K:init=off:phases=2:burst=50%");
        assert!(summary.unmapped_early);
        let burst: u64 =
            summary.pages.iter().filter(|(page, _)| **page >= 1024).map(|(_, n)| n).sum();
        // Half of the accesses, 90 % of these, and one to fill each page.
        assert!((burst as f64 - 90_000.0 - 1024.0).abs() < 1000.0, "{burst}");
        let quiet = check("phases:size=8MiB:accesses=200K:init=off:phases=1:active=10%");
        let in_use: u64 = quiet.pages.iter().filter(|(page, _)| **page < 102).map(|(_, n)| n).sum();
        assert!((in_use as f64 / 200_000.0 - 0.91).abs() < 0.01, "{in_use}");
    }
}
