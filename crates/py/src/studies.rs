//! Comparisons and advice. A request and what comes of it are JSON.

use crate::policy::Classes;
use crate::watched::watched;
use frostline_core::Limit;
use frostline_core::policy::{example, registry};
use frostline_core::spec::{self, SpecError};
use frostline_sim::{FastSize, RunReport, Scale, SeriesPoint, SimOptions};
use frostline_study::advise::{self as advice, Advice, Extent, Question};
use frostline_study::{BoundResult, Programs, Request, SizeStudy, StudyError, machine, policies};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Machine and policies of a request.
#[derive(Deserialize)]
struct Model {
    policies: String,
    machine: String,
    seed: u64,
    tlb: bool,
    scale: String,
    jobs: Option<usize>,
}

impl Model {
    fn options(&self, fast: FastSize) -> anyhow::Result<SimOptions> {
        let scale: Scale = self.scale.parse()?;
        let machine = machine(&self.machine)?;
        Ok(SimOptions { seed: self.seed, tlb: self.tlb, scale, ..SimOptions::new(machine, fast) })
    }
}

/// Request of [`compare`].
#[derive(Deserialize)]
struct Compared {
    traces: Vec<String>,
    fast: Vec<String>,
    seeds: u64,
    bound: bool,
    series: bool,
    #[serde(flatten)]
    model: Model,
}

/// Request of [`advise`].
#[derive(Deserialize)]
struct Advised {
    trace: String,
    goals: Vec<f64>,
    /// All of the trace is replayed.
    exact: bool,
    #[serde(flatten)]
    model: Model,
}

/// A run as Python gets it.
#[derive(Serialize)]
struct Run<'a> {
    report: &'a RunReport,
    /// Modelled time over the least that any run beside it takes with all memory fast.
    slowdown: f64,
    /// Where it was asked for and there is one.
    bound: Option<Most>,
    /// Why there is none.
    no_bound: Option<String>,
    /// Empty but for the first seed, and unless it is asked for.
    series: &'a [SeriesPoint],
}

/// Advice for a policy as Python gets it.
#[derive(Serialize)]
struct Told {
    policy: String,
    footprint_bytes: u64,
    /// Part of the regions that was replayed; 1 for all.
    part: f64,
    replays: usize,
    answers: Vec<Answer>,
    /// Shares of the footprint, and slowdowns with them.
    curve: Vec<(f64, f64)>,
}

/// Sizes as shares of the footprint.
#[derive(Serialize)]
struct Answer {
    max_slowdown: f64,
    fast_share: Option<f64>,
    low_share: Option<f64>,
    high_share: Option<f64>,
    is_least: bool,
}

impl From<Advice> for Told {
    fn from(advice: Advice) -> Self {
        let answer = |answer: &advice::Answer| {
            let (low_share, high_share) = answer.interval.unwrap_or_default();
            let advice::Answer { goal, size, is_least, .. } = *answer;
            Answer { max_slowdown: goal, fast_share: size, low_share, high_share, is_least }
        };
        Self {
            footprint_bytes: advice.footprint_bytes,
            part: advice.part.unwrap_or(1.0),
            replays: advice.replays,
            answers: advice.answers.iter().map(answer).collect(),
            curve: advice.curve.points().to_vec(),
            policy: advice.policy,
        }
    }
}

/// Replays traces under policies and sizes of fast memory. `classes` are policies by name that are written in Python.
#[pyfunction]
#[pyo3(signature = (request, progress=None, classes=None))]
pub fn compare(
    py: Python<'_>,
    request: &str,
    progress: Option<&Bound<'_, PyAny>>,
    classes: Option<BTreeMap<String, Py<PyAny>>>,
) -> PyResult<String> {
    watched(py, progress, |monitor| {
        let classes = classes.unwrap_or_default();
        let Compared { traces, fast, seeds, bound, series, model } = serde_json::from_str(request)?;
        let sizes: Vec<FastSize> =
            fast.iter().map(|text| text.parse()).collect::<Result<_, SpecError>>()?;
        let first = sizes.first().ok_or_else(|| {
            StudyError::usage("no size of fast memory", "name one: 1:8, 40%, 2GiB")
        })?;
        let options = model.options(*first)?;
        let request = Request {
            traces: traces.iter().map(|trace| Programs::alone(trace)).collect(),
            guests: Vec::new(),
            policies: named(&model.policies, &classes)?,
            seeds,
            bound,
            jobs: model.jobs,
            options,
            every_series: false,
            limit: Limit::default(),
            sizes,
        };
        let made_by = Classes::new(classes, monitor.failure());
        let study = frostline_study::run_with(&request, &made_by, monitor)?;
        let sizes = study.traces.iter().flat_map(|trace| &trace.sizes);
        let runs = sizes.flat_map(|size| runs_of(size, series));
        Ok(serde_json::to_string(&runs.collect::<Vec<_>>())?)
    })
}

/// What fast memory can save at most, as Python gets it.
#[derive(Serialize)]
struct Most {
    saving_upper_ns: f64,
    all_fast_saving_ns: f64,
    feasible_share: f64,
    gap: f64,
}

impl From<&BoundResult> for Most {
    fn from(bound: &BoundResult) -> Self {
        let BoundResult { saving_upper_ns, feasible_share, gap, all_fast_saving_ns } = *bound;
        Self { saving_upper_ns, all_fast_saving_ns, feasible_share, gap }
    }
}

fn runs_of(size: &SizeStudy, series: bool) -> impl Iterator<Item = Run<'_>> {
    size.policies.iter().flat_map(|policy| &policy.runs).map(move |run| Run {
        report: &run.report,
        slowdown: size.slowdown_of(&run.report),
        bound: size.bound.as_ref().ok().map(Most::from),
        no_bound: size.bound.as_ref().err().map(ToString::to_string),
        series: if series { &run.series } else { &[] },
    })
}

/// Policies of a list, those of classes as they are, in its order.
fn named(list: &str, classes: &BTreeMap<String, Py<PyAny>>) -> anyhow::Result<Vec<String>> {
    let mut named = Vec::new();
    for item in spec::list(list) {
        match classes.contains_key(item) || item == example::ENTRY.name {
            true => named.push(item.to_owned()),
            false => named.extend(policies(item)?),
        }
    }
    let mut seen = BTreeSet::new();
    named.retain(|policy| seen.insert(policy.clone()));
    if named.is_empty() {
        return Ok(policies(list)?);
    }
    Ok(named)
}

/// Looks for sizes of fast memory that slowdowns take.
#[pyfunction]
#[pyo3(signature = (request, progress=None))]
pub fn advise(
    py: Python<'_>,
    request: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |monitor| {
        let Advised { trace, goals, exact, model } = serde_json::from_str(request)?;
        // The size is what is looked for.
        let options = model.options(FastSize::Percent(100.0))?;
        if !goals.iter().all(|goal| *goal > 0.0 && goal.is_finite()) {
            let hint = "slowdowns are shares above 0: 0.02 for 2 %";
            return Err(StudyError::usage(format!("no slowdowns: {goals:?}"), hint).into());
        }
        let question = Question {
            goals,
            policies: registry::expand(&model.policies)?,
            extent: if exact { Extent::All } else { Extent::ByLength },
            jobs: model.jobs,
            options,
        };
        let mut trace = advice::Trace::open(&trace, Limit::default(), monitor)?;
        let told = advice::advise(&mut trace, &question, monitor)?;
        let told: Vec<Told> = told.into_iter().map(Told::from).collect();
        Ok(serde_json::to_string(&told)?)
    })
}
