//! Experiments: figures and tables of papers, as files that say what to run and what was published.

pub mod chart;
pub mod file;
pub mod huge_pages;
mod measure;
pub mod show;

use crate::study::stats::Stat;
use crate::study::{Input, ModelArgs, Request, Study, run, with_seed};
use chart::Drawn;
use clap::Parser;
use file::{Experiment, ResultOf, Workload};
use frostline_sim::FastSize;
use huge_pages::HugePage;
use serde::Serialize;

/// Stands for the best policy of another family.
const OTHERS: &str = "others";

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The smaller workloads, and fewer seeds.
    pub quick: bool,
    /// How many seeds; `None` for as many as the file says.
    pub seeds: Option<u64>,
    /// Runs at the same time; `None` for one per core.
    pub jobs: Option<usize>,
    /// Whether what only charts show is kept.
    pub charts: bool,
}

/// One published number beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it says.
    pub what: String,
    /// Name of the workload.
    pub workload: String,
    /// Size of fast memory; `-` for what does not depend on it.
    pub fast: String,
    /// Unit of all numbers: `%`, `points`, `x`, or none.
    pub unit: &'static str,
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
    /// All runs.
    pub study: Study,
    /// In the order of the file, a size of fast memory each.
    pub findings: Vec<Finding>,
    /// In the order of the file, a workload and size each; of the first seed.
    pub charts: Vec<Drawn>,
}

/// The model's options, with their defaults.
#[derive(Parser)]
struct Model {
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs all that the experiment asks for.
///
/// # Errors
/// What the file names does not exist or does not fit together; a trace that cannot be made; a
/// stop.
pub fn carry_out(experiment: &Experiment, effort: Effort) -> anyhow::Result<Outcome> {
    let mut words = vec!["model".to_owned(), "--machine".to_owned(), experiment.machine.clone()];
    if experiment.tlb {
        words.extend(["--tlb".to_owned(), "on".to_owned()]);
    }
    let sizes = experiment.sizes()?;
    let size = sizes.first().copied().unwrap_or(FastSize::Ratio(1, 8));
    let mut options = Model::parse_from(words).model.options(size)?;
    options.heatmap = effort.charts;
    let seeds = if effort.quick { experiment.quick_seeds } else { experiment.seeds };
    let request = Request {
        traces: experiment.workload.iter().map(|w| w.trace(effort.quick).to_owned()).collect(),
        sizes,
        policies: experiment.policies()?,
        seeds: effort.seeds.unwrap_or(seeds),
        bound: experiment.bound,
        jobs: effort.jobs,
        options,
        every_series: experiment.result.iter().any(|result| result.since.is_some()),
    };
    experiment.check(&request.policies)?;
    let study = run(&request)?;
    let pages = huge_pages_of(experiment, &study)?;
    let findings = findings(experiment, &study, &pages);
    let charts = chart::draw(experiment, &study, &pages);
    Ok(Outcome { study, findings, charts })
}

/// By workload and seed; empty for workloads of which nobody wants to know.
fn huge_pages_of(
    experiment: &Experiment,
    study: &Study,
) -> anyhow::Result<Vec<Vec<Vec<HugePage>>>> {
    let workloads = experiment.workload.iter().zip(&study.traces);
    let of_workload = |(workload, trace): (&Workload, &crate::study::TraceStudy)| {
        if !experiment.wants_huge_pages(&workload.name) {
            return Ok(Vec::new());
        }
        let samples = (experiment.samples as f64 / trace.scale).ceil() as u64;
        let of_seed = |seed: &u64| {
            let input = Input::open(&with_seed(&trace.name, *seed), 1)?;
            huge_pages::sample(&input, trace.footprint.records, samples)
        };
        study.seeds.iter().map(of_seed).collect()
    };
    workloads.map(of_workload).collect()
}

fn findings(experiment: &Experiment, study: &Study, pages: &[Vec<Vec<HugePage>>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for result in &experiment.result {
        let workloads = experiment.workload.iter().zip(&study.traces).zip(pages);
        for ((workload, trace), pages) in workloads.filter(|((w, _), _)| result.is_for(&w.name)) {
            if result.measure.is_of_workload() {
                let values = measure::values_of_workload(result, pages);
                findings.extend(values.map(|values| finding(result, workload, "-", &values)));
                continue;
            }
            let sizes = experiment.fast.iter().zip(&trace.sizes);
            for (fast, size) in sizes.filter(|(fast, _)| result.is_at(fast)) {
                let values = measure::values(result, size);
                findings.extend(values.map(|values| finding(result, workload, fast, &values)));
            }
        }
    }
    findings
}

fn finding(result: &ResultOf, workload: &Workload, fast: &str, values: &[f64]) -> Finding {
    let stat = Stat::of(values.iter().copied());
    let paper = result.paper.as_ref().map(file::Published::range);
    Finding {
        what: result.what.clone(),
        workload: workload.name.clone(),
        fast: fast.to_owned(),
        unit: result.measure.unit(),
        paper,
        ours: stat.mean,
        half_width: stat.half_width,
        same_direction: paper
            .and_then(|range| measure::same_direction(result.measure, range, stat)),
        differs: result.differs.clone(),
    }
}
