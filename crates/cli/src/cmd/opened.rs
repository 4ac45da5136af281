//! A trace, or runs of `frostline compare`, for the page.

use super::{heatmap, profile};
use anyhow::Context;
use frostline_core::policy::registry;
use frostline_profile::CurvePoint;
use frostline_sim::{FastSize, Heatmap, RunReport, SimOptions};
use frostline_study::advise::{Extent, Question, Trace, advise};
use frostline_study::{Programs, Request, machine, slowdown_among};
use frostline_terminal::limit;
use frostline_terminal::progress::Screen;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Slowdowns that are asked about.
const GOALS: [f64; 4] = [0.01, 0.02, 0.05, 0.1];
/// Sizes of fast memory that policies are compared with.
const SIZES: [FastSize; 2] = [FastSize::Ratio(1, 2), FastSize::Ratio(1, 8)];

/// What the page gets.
#[derive(Serialize)]
struct Opened<'a> {
    name: &'a str,
    /// What a trace says of itself; `None` for runs.
    trace: Option<Advised>,
    compared: Vec<Compared>,
}

#[derive(Serialize)]
struct Advised {
    machine: String,
    policy: &'static str,
    records: u64,
    touched_bytes: u64,
    footprint_bytes: u64,
    miss_curve: Vec<CurvePoint>,
    /// Shares of the footprint, and slowdowns with so much fast memory.
    slowdowns: Vec<(f64, f64)>,
    answers: Vec<Answered>,
    map: Heatmap,
}

#[derive(Serialize)]
struct Answered {
    max_slowdown: f64,
    /// Share of the footprint; `None` where all is not enough.
    fast_share: Option<f64>,
}

/// One run.
#[derive(Serialize)]
struct Compared {
    trace: String,
    machine: String,
    policy: String,
    seed: u64,
    fast: String,
    fast_bytes: u64,
    /// By how much longer it takes than the least that any run of the same would take with all memory fast; a share of that.
    slowdown: f64,
    fast_hits: f64,
    share_of_bound: Option<f64>,
    moved_bytes: u64,
}

impl Compared {
    /// Of a run beside `all`, those with the same memory among them.
    fn new(run: &RunReport, all: &[&RunReport]) -> Self {
        let is_alike = |other: &&RunReport| {
            (&other.trace, &other.machine, &other.fast, other.seed)
                == (&run.trace, &run.machine, &run.fast, run.seed)
        };
        let slowdown = slowdown_among(run, all.iter().copied().filter(is_alike));
        Self {
            trace: run.trace.clone(),
            machine: run.machine.clone(),
            policy: run.policy.clone(),
            seed: run.seed,
            fast: run.fast.clone(),
            fast_bytes: run.fast_bytes,
            slowdown: slowdown - 1.0,
            fast_hits: run.fast_hit_ratio,
            share_of_bound: run.share_of_bound,
            moved_bytes: run.promoted_bytes + run.demoted_bytes,
        }
    }
}

/// What `compare --json` prints, as far as it is shown.
#[derive(Deserialize)]
struct Runs {
    runs: Vec<RunReport>,
}

/// Looks at a trace, under these policies among others, or at runs; as JSON.
///
/// # Errors
/// What cannot be read, a machine that cannot be, or a stop.
pub fn look(name: &str, by: &str, policies: &str) -> anyhow::Result<String> {
    let opened = match runs(name)? {
        Some(runs) => {
            Opened { name, trace: None, compared: side_by_side(&runs.iter().collect::<Vec<_>>()) }
        }
        None => {
            // A wrong name is told before the work, not after it.
            let policies = frostline_study::policies(policies)?;
            let machine = machine(by)?;
            let options =
                SimOptions { tlb: true, ..SimOptions::new(machine, FastSize::Percent(100.0)) };
            let trace = Some(advised(name, by, options.clone())?);
            Opened { name, trace, compared: compared(name, policies, options)? }
        }
    };
    Ok(serde_json::to_string(&opened)?)
}

/// Runs that a file holds; `None` where it is none with JSON.
fn runs(name: &str) -> anyhow::Result<Option<Vec<RunReport>>> {
    // A trace that is no file has a reader of its own, which says what is wrong with it.
    let Ok(mut file) = File::open(name).map(BufReader::new) else { return Ok(None) };
    if !file.fill_buf().is_ok_and(|start| start.trim_ascii_start().starts_with(b"{")) {
        return Ok(None);
    }
    let runs: Runs = serde_json::from_reader(file).with_context(|| {
        format!("{name} holds no runs as `frostline compare --json` prints them")
    })?;
    Ok(Some(runs.runs))
}

fn advised(trace: &str, by: &str, options: SimOptions) -> anyhow::Result<Advised> {
    let map = heatmap::maps(trace, by)?.by_address;
    let summary = profile::profile_of(trace, None, None)?.summary();
    let machine = options.machine.name.clone();
    let question = Question {
        goals: GOALS.to_vec(),
        policies: vec![registry::DEFAULT.to_owned()],
        extent: Extent::ByLength,
        jobs: None,
        options,
    };
    let mut opened = Trace::open(trace, limit::current(), &Screen)?;
    let advice = advise(&mut opened, &question, &Screen)?.remove(0);
    let answers = advice.answers.iter();
    Ok(Advised {
        machine,
        policy: registry::DEFAULT,
        records: summary.records,
        touched_bytes: summary.bytes,
        footprint_bytes: advice.footprint_bytes,
        miss_curve: summary.miss_curve,
        slowdowns: advice.curve.points().to_vec(),
        answers: answers
            .map(|answer| Answered { max_slowdown: answer.goal, fast_share: answer.size })
            .collect(),
        map,
    })
}

fn compared(
    trace: &str,
    policies: Vec<String>,
    options: SimOptions,
) -> anyhow::Result<Vec<Compared>> {
    let request = Request {
        traces: vec![Programs::alone(trace)],
        guests: Vec::new(),
        sizes: SIZES.to_vec(),
        policies,
        seeds: 1,
        bound: true,
        jobs: None,
        options,
        every_series: false,
        limit: limit::current(),
    };
    let study = frostline_study::run(&request, &Screen)?;
    Ok(side_by_side(&study.reports()))
}

fn side_by_side(runs: &[&RunReport]) -> Vec<Compared> {
    runs.iter().map(|run| Compared::new(run, runs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_advised_on_and_compared_and_runs_are_shown() {
        let told = |name: &str| -> serde_json::Value {
            let text = look(name, "dram-cxl", "first-touch,memtis").expect("it is told");
            serde_json::from_str(&text).expect("JSON")
        };
        let trace = told("synth:zipf:pages=2K:accesses=200K");
        assert_eq!(trace["trace"]["answers"].as_array().map(Vec::len), Some(GOALS.len()));
        let compared = trace["compared"].as_array().expect("runs");
        assert_eq!(compared.len(), 2 * SIZES.len());
        for run in compared {
            assert!(run["slowdown"].as_f64().is_some_and(|slowdown| slowdown > -0.5), "{run}");
            assert!(run["fast_hits"].as_f64().is_some_and(|hits| hits > 0.1), "{run}");
        }

        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("runs.json");
        let name = file.to_str().expect("UTF-8");
        let run = RunReport { slowdown_vs_all_fast: 1.25, ..RunReport::default() };
        let text = frostline_terminal::output::envelope(&[run]).expect("JSON");
        std::fs::write(&file, text).expect("room");
        let runs = told(name);
        assert!(runs["trace"].is_null());
        assert_eq!(runs["compared"][0]["slowdown"], 0.25);
        std::fs::write(&file, r#" {"nodes": []}"#).expect("room");
        let error = look(name, "dram-cxl", "all").expect_err("no runs").to_string();
        assert!(error.contains("frostline compare --json"), "{error}");
    }
}
