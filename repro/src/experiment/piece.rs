//! Pieces of an experiment: all runs of one workload on one machine under one seed.
//!
//! They are what is done side by side, and what is kept of an experiment that was stopped: their runs share a
//! trace, and making it takes longer than running a few policies on it.

use super::Effort;
use super::file::Experiment;
use super::huge_pages::{self, HugePage};
use frostline_sim::{FastSize, SimOptions};
use frostline_study::{Input, Monitor, Programs, Request, TraceStudy, run, with_seed};
use frostline_terminal::digest::{sha256, sha256_of};
use frostline_terminal::limit;
use std::path::Path;

/// One of them.
pub struct Piece<'a> {
    experiment: &'a Experiment,
    /// Its place among all of the experiment.
    pub number: usize,
    /// Number of the machine and of the workload in the file, and of the seed.
    pub at: [usize; 3],
    programs: Programs,
    request: Request,
    /// Records of the trace, as far as it says so before it is made.
    records: u64,
}

/// What came out of it.
pub struct Played {
    /// Its runs.
    pub study: TraceStudy,
    /// How huge pages are used; empty where nobody wants to know.
    pub pages: Vec<HugePage>,
}

/// All pieces: by machine, then by workload, then by seed.
///
/// # Errors
/// What the file names does not exist or does not fit together.
pub fn pieces(experiment: &Experiment, effort: Effort) -> anyhow::Result<Vec<Piece<'_>>> {
    experiment.check(&experiment.labels()?)?;
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for machine in 0..experiment.machines().len() {
        for workload in 0..experiment.workload.len() {
            for seed in 0..effort.seeds_of(experiment) as usize {
                let at = [machine, workload, seed];
                pieces.push(Piece::new(experiment, pieces.len(), at, effort)?);
            }
        }
    }
    // Threads that would have no piece of their own help with one.
    let threads = effort.jobs.div_ceil(pieces.len());
    pieces.iter_mut().for_each(|piece| piece.request.jobs = Some(threads));
    Ok(pieces)
}

impl<'a> Piece<'a> {
    fn new(
        experiment: &'a Experiment,
        number: usize,
        at: [usize; 3],
        effort: Effort,
    ) -> anyhow::Result<Self> {
        let [machine, workload, seed] = at;
        let options = options(experiment, machine, effort)?;
        let workload = &experiment.workload[workload];
        let programs = experiment.programs(workload, &options.machine, effort.quick)?;
        let seed = options.seed + seed as u64;
        let seeded = programs.seeded(seed);
        let records = records(&seeded)?;
        let request = Request {
            traces: vec![seeded],
            guests: experiment.guests()?,
            sizes: experiment.sizes()?,
            policies: experiment.policies()?,
            seeds: 1,
            bound: experiment.bound,
            jobs: Some(1),
            options: SimOptions { seed, ..options },
            every_series: experiment.wants_every_series(),
            limit: limit::current(),
        };
        Ok(Self { experiment, number, at, programs, request, records })
    }

    /// What it is, for people.
    pub fn name(&self) -> String {
        let workload = &self.experiment.workload[self.at[1]].name;
        format!("{workload}, seed {}", self.request.options.seed)
    }

    /// Whether all its traces are generated, so that it can be made anywhere.
    pub fn is_generated(&self) -> bool {
        let Programs { trace, beside, .. } = &self.programs;
        std::iter::once(trace).chain(beside).all(|trace| trace.starts_with("synth:"))
    }

    /// Simulations.
    pub fn runs(&self) -> u64 {
        let Request { sizes, policies, guests, traces, .. } = &self.request;
        let sizes = if traces[0].fast.is_some() { 1 } else { sizes.len() };
        (sizes * policies.len() * guests.len().max(1)) as u64
    }

    /// Records of its trace, all programs together.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Accesses that are simulated.
    pub fn accesses(&self) -> u64 {
        self.records * self.runs()
    }

    /// Accesses of all passes over its trace: those of the runs, making it, and measuring it.
    pub fn passed(&self) -> u64 {
        self.records * (self.runs() + 2)
    }

    /// SHA-256 of all that determines what comes out, this program's `build` included.
    ///
    /// # Errors
    /// A recorded trace that cannot be read.
    pub fn key(&self, build: &str) -> anyhow::Result<String> {
        let Request { traces, guests, sizes, policies, bound, options, every_series, .. } =
            &self.request;
        let recorded = std::iter::once(&traces[0].trace).chain(&traces[0].beside);
        let recorded = recorded.map(|trace| sha256(Path::new(trace)));
        let recorded = recorded.collect::<anyhow::Result<Vec<_>>>()?;
        let samples = self.wants_pages().then_some(self.experiment.samples);
        let runs = (traces, guests, sizes, policies, bound, options, every_series);
        // What no user sees prints all of it, and changes with the program only, which is part of the key.
        Ok(sha256_of(&format!("{build} {recorded:?} {samples:?} {runs:?}")))
    }

    /// Makes the trace and runs all policies on it. Only what the first seed shows has series and heatmaps,
    /// but for series that results are made of.
    ///
    /// # Errors
    /// A trace that cannot be made, a run that fails, or a stop.
    pub fn play(&self, monitor: &dyn Monitor) -> anyhow::Result<Played> {
        let mut studies = run(&self.request, monitor)?.traces;
        let mut study = studies.remove(0);
        // The seed has a place of its own, and names that hold it would be others to whoever groups by them.
        study.name.clone_from(&self.programs.trace);
        let first = self.at[2] == 0;
        for run in study.sizes.iter_mut().flat_map(|s| &mut s.policies).flat_map(|p| &mut p.runs) {
            run.report.trace.clone_from(&self.programs.trace);
            run.heatmaps = run.heatmaps.take().filter(|_| first);
            if !first && !self.request.every_series {
                run.series.clear();
            }
        }
        let pages = if self.wants_pages() { self.pages(&study, monitor)? } else { Vec::new() };
        Ok(Played { study, pages })
    }

    fn wants_pages(&self) -> bool {
        let [machine, workload, _] = self.at;
        machine == 0 && self.experiment.wants_huge_pages(&self.experiment.workload[workload].name)
    }

    fn pages(&self, study: &TraceStudy, monitor: &dyn Monitor) -> anyhow::Result<Vec<HugePage>> {
        let samples = (self.experiment.samples as f64 / study.scale).ceil() as u64;
        let trace = with_seed(&self.programs.trace, self.request.options.seed);
        let input = Input::open(&trace, 1, limit::current(), monitor)?;
        huge_pages::sample(&input, study.footprint.records, samples, monitor)
    }
}

/// Of all runs on a machine.
///
/// # Errors
/// A machine or size that is none.
pub fn options(
    experiment: &Experiment,
    machine: usize,
    effort: Effort,
) -> anyhow::Result<SimOptions> {
    let size = experiment.sizes()?.first().copied().unwrap_or(FastSize::Ratio(1, 8));
    let machine = frostline_study::machine(&experiment.machines()[machine])?;
    let mut options = SimOptions::new(machine, size);
    options.tlb = experiment.tlb;
    options.series.points = experiment.series_points();
    options.heatmaps = effort.charts || !experiment.heatmap.is_empty();
    Ok(options)
}

fn records(programs: &Programs) -> anyhow::Result<u64> {
    let of = |trace: &String| {
        let input = Input::open(trace, 1, limit::current(), &frostline_study::Unwatched)?;
        anyhow::Ok(input.source()?.header().expected_records.unwrap_or(0))
    };
    let beside = programs.beside.iter().map(of).sum::<anyhow::Result<u64>>()?;
    Ok(of(&programs.trace)? * u64::from(programs.copies) + beside)
}

/// The same workload under several seeds; none where there are none. Header and footprint stay those of
/// the first one.
pub fn together(seeds: impl IntoIterator<Item = TraceStudy>) -> Option<TraceStudy> {
    seeds.into_iter().reduce(|mut first, other| {
        for (size, more) in first.sizes.iter_mut().zip(other.sizes) {
            for (policy, more) in size.policies.iter_mut().zip(more.policies) {
                policy.runs.extend(more.runs);
            }
        }
        first
    })
}
