//! Experiments: figures and tables of papers, as files that say what to run and what was published.

mod adaptation;
pub mod cannot;
pub mod chart;
pub mod file;
pub mod headlines;
pub mod heatmap;
pub mod huge_pages;
pub mod kept;
pub mod map;
mod measure;
pub mod night;
pub mod piece;
pub mod plan;
pub mod report;
pub mod score;
pub mod show;
pub mod stored;

use crate::parallel::{self, Counted, lock};
use anyhow::Context;
use chart::Drawn;
use file::{Experiment, ResultOf, Workload};
use frostline_sim::SimOptions;
use frostline_study::stats::Stat;
use frostline_study::{Monitor, Study};
use frostline_terminal::cancel;
use frostline_terminal::progress::bar;
use heatmap::Picture;
use huge_pages::HugePage;
use map::Map;
use piece::{Piece, Played, pieces};
use serde::{Deserialize, Serialize};
use std::sync::Mutex;

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The smaller workloads, and fewer seeds.
    pub quick: bool,
    /// How many seeds; `None` for as many as the file says.
    pub seeds: Option<u64>,
    /// Runs at the same time.
    pub jobs: usize,
    /// Whether what only charts show is kept.
    pub charts: bool,
}

impl Effort {
    /// How many seeds an experiment is run with.
    fn seeds_of(&self, experiment: &Experiment) -> u64 {
        let own = if self.quick { experiment.quick_seeds } else { experiment.seeds };
        self.seeds.unwrap_or(own)
    }
}

/// One published number beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What it says.
    pub what: String,
    /// Machine model; none where the experiment has one only.
    pub machine: Option<String>,
    /// Name of the workload.
    pub workload: String,
    /// Size of fast memory; `-` for what does not depend on it.
    pub fast: String,
    /// Unit of all numbers: `%`, `points`, `x`, or none.
    pub unit: String,
    /// As published: least and most, equal where it is one number; none where the text has none.
    pub paper: Option<[f64; 2]>,
    /// Mean over the seeds.
    pub ours: f64,
    /// Half width of its 95 % confidence interval; none for a single run.
    pub half_width: Option<f64>,
    /// Whether both point into the same direction; none where nothing was published, or where our
    /// interval holds both directions.
    pub same_direction: Option<bool>,
    /// Why ours differs.
    pub differs: Option<String>,
}

/// An experiment that was run.
pub struct Outcome {
    /// Whether workloads were smaller than in a full run.
    pub quick: bool,
    /// All runs on the first machine.
    pub study: Study,
    /// Those on the others, in the order of the file.
    pub others: Vec<Study>,
    /// In the order of the file, a size of fast memory each.
    pub findings: Vec<Finding>,
    /// In the order of the file, a workload and size each; of the first seed.
    pub charts: Vec<Drawn>,
    /// In the order of the file.
    pub maps: Vec<Map>,
    /// In the order of the file, a workload and size each; of the first seed.
    pub heatmaps: Vec<Picture>,
}

impl Outcome {
    /// All runs by machine, in the order of the file.
    pub fn studies(&self) -> impl Iterator<Item = &Study> {
        std::iter::once(&self.study).chain(&self.others)
    }
}

/// Runs all that the experiment asks for.
///
/// # Errors
/// What the file names does not exist or does not fit together; a trace that cannot be made; a
/// stop.
pub fn carry_out(experiment: &Experiment, effort: Effort) -> anyhow::Result<Outcome> {
    let outcome = Mutex::new(None);
    let play = |_: usize, piece: &Piece<'_>, monitor: &dyn Monitor| piece.play(monitor);
    let ended = |_: usize, ended: Outcome| {
        *lock(&outcome) = Some(ended);
        Ok(())
    };
    carry_out_all(&[experiment], effort, play, ended)?;
    let outcome = lock(&outcome).take();
    outcome.context("an experiment has at least one workload and seed")
}

/// Runs experiments in this order, all their pieces side by side. `play` makes a piece of the experiment
/// of that number, or knows what came out of it; `ended` hears of each experiment once all its pieces are there.
///
/// # Errors
/// Those of `play` and `ended`; what a file names does not exist or does not fit together; a stop.
pub fn carry_out_all(
    experiments: &[&Experiment],
    effort: Effort,
    play: impl Fn(usize, &Piece<'_>, &dyn Monitor) -> anyhow::Result<Played> + Sync,
    ended: impl Fn(usize, Outcome) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    let mut missing = Vec::new();
    for (number, experiment) in experiments.iter().enumerate() {
        let pieces = pieces(experiment, effort)?;
        missing.push(Mutex::new(pieces.iter().map(|_| None).collect::<Vec<Option<Played>>>()));
        all.extend(pieces.into_iter().enumerate().map(|(at, piece)| (number, at, piece)));
    }
    let bar = bar("running", "accesses", Some(all.iter().map(|(.., piece)| piece.passed()).sum()));
    let advance = |accesses| bar.inc(accesses);
    let ended = parallel::each(&all, effort.jobs, |(number, at, piece), monitor| {
        let counted = Counted::new(monitor, &advance);
        let played = play(*number, piece, &counted)?;
        counted.fill(piece.passed());
        let mut places = lock(&missing[*number]);
        places[*at] = Some(played);
        if places.iter().any(Option::is_none) {
            return Ok(());
        }
        let played = std::mem::take(&mut *places).into_iter().flatten().collect();
        drop(places);
        ended(*number, outcome(experiments[*number], effort, played)?)
    });
    bar.finish_and_clear();
    // A study would say how many of its own runs had finished, which is one piece's.
    ended.map_err(|error| if cancel::requested() { cancel::interrupted("") } else { error })
}

/// What came out of all pieces, which are in the order of [`pieces`].
fn outcome(
    experiment: &Experiment,
    effort: Effort,
    played: Vec<Played>,
) -> anyhow::Result<Outcome> {
    let count = effort.seeds_of(experiment);
    let mut played = played.into_iter();
    let (mut studies, mut pages) = (Vec::new(), Vec::new());
    for number in 0..experiment.machines().len() {
        let SimOptions { machine, tlb, seed, .. } = piece::options(experiment, number, effort)?;
        let mut traces = Vec::new();
        for _ in &experiment.workload {
            let mut seeds: Vec<Played> = played.by_ref().take(count as usize).collect();
            if number == 0 {
                pages.push(seeds.iter_mut().map(|one| std::mem::take(&mut one.pages)).collect());
            }
            traces.extend(piece::together(seeds.into_iter().map(|one| one.study)));
        }
        studies.push(Study { machine, tlb, seeds: (seed..seed + count).collect(), traces });
    }
    let findings = findings(experiment, &studies, &pages);
    let study = studies.remove(0);
    let charts = chart::draw(experiment, &study, &pages);
    let maps = experiment.map.iter().map(|map| map.draw(&study)).collect();
    let heatmaps = heatmap::draw(experiment, &study);
    Ok(Outcome { quick: effort.quick, study, others: studies, findings, charts, maps, heatmaps })
}

fn findings(
    experiment: &Experiment,
    studies: &[Study],
    pages: &[Vec<Vec<HugePage>>],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for result in experiment.results() {
        if result.measure.is_of_workload() {
            for (workload, pages) in experiment.workload.iter().zip(pages) {
                if result.is_for(&workload.name) {
                    let values = measure::values_of_workload(result, pages);
                    findings.extend(values.map(|v| finding(result, [None, None], workload, &v)));
                }
            }
            continue;
        }
        for (machine, study) in experiment.machines().iter().zip(studies) {
            if result.is_on(machine) {
                of_machine(experiment, result, machine, study, &mut findings);
            }
        }
    }
    findings
}

fn of_machine(
    experiment: &Experiment,
    result: &ResultOf,
    machine: &str,
    study: &Study,
    findings: &mut Vec<Finding>,
) {
    let machine = (experiment.machines().len() > 1).then_some(machine);
    for (workload, trace) in experiment.workload.iter().zip(&study.traces) {
        if !result.is_for(&workload.name) {
            continue;
        }
        let sizes = experiment.fast.iter().zip(&trace.sizes);
        for (fast, size) in sizes.filter(|(fast, _)| result.is_at(fast)) {
            let values = measure::values(result, size);
            let fast = Some(workload.fast.as_deref().unwrap_or(fast));
            findings.extend(values.map(|v| finding(result, [machine, fast], workload, &v)));
        }
    }
}

fn finding(
    result: &ResultOf,
    [machine, fast]: [Option<&str>; 2],
    workload: &Workload,
    values: &[f64],
) -> Finding {
    let stat = Stat::of(values.iter().copied());
    let names = [Some(workload.name.as_str()), fast, machine];
    let names: Vec<&str> = names.into_iter().flatten().collect();
    let paper = result.paper.as_ref().and_then(|paper| paper.range(&names));
    Finding {
        what: result.what.clone(),
        workload: workload.name.clone(),
        machine: machine.map(str::to_owned),
        fast: fast.unwrap_or("-").to_owned(),
        unit: result.unit().to_owned(),
        paper,
        ours: stat.mean,
        half_width: stat.half_width,
        same_direction: paper
            .and_then(|range| measure::same_direction(result.measure, range, stat)),
        differs: result.differs.clone(),
    }
}
