//! Watch over a run: what is noted on the way, and changes nothing.

use super::accessed::Accessed;
use super::kernel::Kernel;
use super::served::Served;
use super::setup::Setup;
use crate::heatmap::HeatmapsBuilder;
use crate::operations::Operations;
use crate::report::SeriesPoint;
use crate::series::Series;
use frostline_core::Engine;
use frostline_core::placement::View;
use frostline_core::types::*;
use std::collections::BTreeMap;

/// What has happened up to a moment of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Modelled time.
    pub seconds: f64,
    /// Loads and stores that memory of each tier served, thinning multiplied out; no fetches or
    /// write-backs.
    pub accesses: Vec<u64>,
    /// Pages moved to faster tiers.
    pub promoted_pages: u64,
    /// Pages moved to slower tiers.
    pub demoted_pages: u64,
    /// Processor time of all tiering work, in seconds.
    pub tiering_seconds: f64,
}

/// Totals at the last point of the series.
#[derive(Clone, Copy, Debug, Default)]
struct SeriesBase {
    fast: u64,
    all: u64,
    promoted: u64,
    demoted: u64,
}

/// What is noted.
pub(super) struct Watch {
    pub(super) operations: Operations,
    pub(super) series: Series,
    base: SeriesBase,
    pub(super) heatmaps: Option<HeatmapsBuilder>,
    pub(super) accessed: Accessed,
    pub(super) moments: Vec<Moment>,
}

impl Watch {
    pub(super) fn new(setup: &Setup<'_>) -> Self {
        let Setup { options, footprint, thinning, .. } = *setup;
        Self {
            operations: Operations::default(),
            series: Series::new(options.series),
            base: SeriesBase::default(),
            heatmaps: options.heatmaps.then(|| HeatmapsBuilder::new(thinning)),
            accessed: Accessed::new(footprint.records, options.scale.factor(footprint)),
            moments: Vec::new(),
        }
    }

    /// Adds a point to the series. `decider` is the engine that decides.
    pub(super) fn add_point(&mut self, kernel: &Kernel<'_>, served: &Served, decider: &Engine) {
        let (fast, all) = served.sums();
        let stats = kernel.engine.stats();
        let base = std::mem::replace(
            &mut self.base,
            SeriesBase { fast, all, promoted: stats.promoted_pages, demoted: stats.demoted_pages },
        );
        let accesses = all - base.all;
        let hits = (fast - base.fast) as f64;
        let mut gauges = BTreeMap::new();
        decider.policy().metrics(&mut |name, value| {
            gauges.insert(name.to_owned(), value);
        });
        let point = SeriesPoint {
            seconds: kernel.time.ns / 1e9,
            accesses,
            fast_hit_ratio: if accesses > 0 { hits / accesses as f64 } else { 0.0 },
            resident_bytes: resident(&kernel.engine.view()),
            promoted_bytes: (stats.promoted_pages - base.promoted) * PAGE_BYTES,
            demoted_bytes: (stats.demoted_pages - base.demoted) * PAGE_BYTES,
            classes_bytes: decider.policy().classes().map(|c| c.map(|pages| pages * PAGE_BYTES)),
            gauges,
        };
        self.series.push(kernel.time.ns, point);
    }

    /// Notes a moment.
    pub(super) fn note_moment(
        &mut self,
        kernel: &Kernel<'_>,
        served: &Served,
        spared: &[u64; MAX_TIERS],
        tiering_seconds: f64,
    ) {
        let plain =
            |tier: &[u64; 4]| tier[AccessKind::Load as usize] + tier[AccessKind::Store as usize];
        let accesses = served.accesses[..kernel.setup.tiers()].iter().map(plain);
        let stats = kernel.engine.stats();
        self.moments.push(Moment {
            seconds: kernel.time.ns / 1e9,
            accesses: accesses.zip(spared).map(|(all, spared)| all - spared).collect(),
            promoted_pages: stats.promoted_pages,
            demoted_pages: stats.demoted_pages,
            tiering_seconds,
        });
    }
}

fn resident(view: &View<'_>) -> Vec<u64> {
    (0..view.tiers()).map(|t| view.used(TierId(t as u8)).bytes().0).collect()
}
