//! Experiments: figures and tables of papers, as files that say what to run and what was published.

pub mod file;
mod measure;
pub mod show;

use crate::study::stats::Stat;
use crate::study::{ModelArgs, Request, Study, run};
use clap::Parser;
use file::Experiment;
use frostline_core::policy::registry;
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
    /// Size of fast memory.
    pub fast: String,
    /// Unit of all numbers: `%`, `points` or `x`.
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
    let mut options = Model::parse_from(words).model.options(sizes[0])?;
    options.heatmap = effort.charts;
    let seeds = if effort.quick { experiment.quick_seeds } else { experiment.seeds };
    let request = Request {
        traces: experiment.workload.iter().map(|w| w.trace(effort.quick).to_owned()).collect(),
        sizes,
        policies: registry::expand(&experiment.policies)?,
        seeds: effort.seeds.unwrap_or(seeds),
        bound: experiment.bound,
        jobs: effort.jobs,
        options,
    };
    experiment.check(&request.policies)?;
    let study = run(&request)?;
    let findings = findings(experiment, &study);
    Ok(Outcome { study, findings })
}

fn findings(experiment: &Experiment, study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    for result in &experiment.result {
        let workloads = experiment.workload.iter().zip(&study.traces);
        for (workload, trace) in workloads.filter(|(w, _)| result.is_for(&w.name)) {
            let sizes = experiment.fast.iter().zip(&trace.sizes);
            for (fast, size) in sizes.filter(|(fast, _)| result.is_at(fast)) {
                let Some(values) = measure::values(result, size) else { continue };
                let stat = Stat::of(values.iter().copied());
                let paper = result.paper.as_ref().map(file::Published::range);
                findings.push(Finding {
                    what: result.what.clone(),
                    workload: workload.name.clone(),
                    fast: fast.clone(),
                    unit: result.measure.unit(),
                    paper,
                    ours: stat.mean,
                    half_width: stat.half_width,
                    same_direction: paper
                        .and_then(|range| measure::same_direction(result.measure, range, stat)),
                    differs: result.differs.clone(),
                });
            }
        }
    }
    findings
}
