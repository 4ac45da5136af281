//! Plan of what is to be run, with a time for it from brief runs on this machine.
//!
//! Each experiment runs its first workload on its first machine under one seed: the quick trace, cut short, with
//! all policies at the first size. What is made once, such as a graph, is taken by its time; making and
//! measuring a trace, and the runs, by their time for each access.

use super::Effort;
use super::night::{Night, Task, duration};
use super::piece::{Piece, Played, pieces};
use crate::experiment::file::{Experiment, Workload};
use crate::parallel;
use frostline_core::spec::Spec;
use frostline_report::table::Table;
use frostline_report::units::count;
use frostline_sim::measure_footprint;
use frostline_study::Monitor;
use frostline_terminal::output;
use frostline_trace::{Batch, MemTrace};
use serde::Serialize;
use std::fmt::Write;
use std::sync::OnceLock;
use std::time::Instant;

/// Accesses to which a trace is cut for measuring.
const BRIEF: &str = "1M";

/// What is missing of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it goes by.
    pub experiment: String,
    /// Simulations.
    pub runs: u64,
    /// Their accesses.
    pub accesses: u64,
    /// These, and those of making and measuring traces.
    #[serde(skip)]
    pub passed: u64,
    /// Estimated seconds of one core.
    pub core_seconds: f64,
    /// Nanoseconds for each access of a run, as measured; 0 where nothing is missing or there are no runs.
    pub ns_per_access: f64,
}

/// All of them, the longest first, and what is there already.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Experiments of which something is missing.
    #[serde(skip)]
    pub experiments: Vec<Row>,
    /// How many have results.
    pub complete: usize,
    /// Runs at the same time.
    pub jobs: usize,
    /// Estimated time of all.
    pub seconds: f64,
}

/// What a brief run took.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    once_seconds: f64,
    trace_seconds_per_access: f64,
    run_seconds_per_access: f64,
}

impl Plan {
    /// Measures what is missing, and puts the tasks in order: those that take longest first, what has results
    /// last.
    ///
    /// # Errors
    /// What a file names does not exist or does not fit together; a stop.
    pub fn make(night: &Night<'_>, tasks: &mut Vec<Task>) -> anyhow::Result<Self> {
        let stored = tasks.iter().map(|task| Ok(night.stored(task)?.is_some()));
        let stored = stored.collect::<anyhow::Result<Vec<bool>>>()?;
        let paces: Vec<OnceLock<Pace>> = tasks.iter().map(|_| OnceLock::new()).collect();
        let jobs = night.effort.jobs;
        let missing: Vec<usize> = (0..tasks.len()).filter(|&task| !stored[task]).collect();
        parallel::each(&missing, jobs, |&task, monitor| {
            let pace = Pace::measure(&tasks[task].experiment, monitor)?;
            paces[task].get_or_init(|| pace);
            Ok(())
        })?;
        let mut rows = Vec::new();
        for ((task, stored), pace) in std::mem::take(tasks).into_iter().zip(stored).zip(paces) {
            let row = match stored {
                true => Row::of(&task, &[], Pace::default()),
                false => {
                    Row::of(&task, &night.missing(&task)?, pace.into_inner().unwrap_or_default())
                }
            };
            rows.push((row, stored, task));
        }
        rows.sort_by(|a, b| b.0.core_seconds.total_cmp(&a.0.core_seconds));
        let complete = rows.iter().filter(|(_, stored, _)| *stored).count();
        let mut experiments = Vec::new();
        for (row, stored, mut task) in rows {
            task.pace = row.core_seconds / (row.passed as f64).max(1.0);
            tasks.push(task);
            experiments.extend((!stored).then_some(row));
        }
        let seconds = experiments.iter().map(|row| row.core_seconds).sum::<f64>() / jobs as f64;
        Ok(Self { experiments, complete, jobs, seconds })
    }

    /// Prints it for programs.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn json(&self) -> anyhow::Result<()> {
        output::json_about(self, &self.experiments)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["experiment", "runs", "accesses", "ns each", "of one core"]);
        for row in &self.experiments {
            let Row { experiment, runs, accesses, core_seconds, ns_per_access, .. } = row;
            table.row(vec![
                experiment.clone(),
                runs.to_string(),
                count(*accesses as f64),
                if *runs == 0 { "-".into() } else { format!("{ns_per_access:.1}") },
                duration(*core_seconds),
            ]);
        }
        let runs: u64 = self.experiments.iter().map(|row| row.runs).sum();
        let accesses: u64 = self.experiments.iter().map(|row| row.accesses).sum();
        let core_seconds: f64 = self.experiments.iter().map(|row| row.core_seconds).sum();
        let core = duration(core_seconds);
        table.row(vec!["all".into(), runs.to_string(), count(accesses as f64), "-".into(), core]);
        let Self { jobs, seconds, complete, .. } = self;
        let mut out = table.show(0);
        let _ = writeln!(out, "\ntime     {} with -j {jobs}", duration(*seconds));
        out.push_str("measured by a brief run of each experiment on this machine, just now\n");
        if *complete > 0 {
            let _ = writeln!(out, "there    results of {complete} more");
        }
        out
    }
}

impl Row {
    fn of(task: &Task, missing: &[Piece<'_>], pace: Pace) -> Self {
        let accesses: u64 = missing.iter().map(Piece::accesses).sum();
        let traces: u64 = missing.iter().map(Piece::records).sum();
        let once = pace.once_seconds * missing.len() as f64;
        let runs_seconds = pace.run_seconds_per_access * accesses as f64;
        Self {
            experiment: task.name.clone(),
            runs: missing.iter().map(Piece::runs).sum(),
            accesses,
            passed: missing.iter().map(Piece::passed).sum(),
            core_seconds: once + pace.trace_seconds_per_access * traces as f64 + runs_seconds,
            ns_per_access: pace.run_seconds_per_access * 1e9,
        }
    }
}

impl Pace {
    fn measure(experiment: &Experiment, monitor: &dyn Monitor) -> anyhow::Result<Self> {
        let brief = brief(experiment);
        let effort = Effort { quick: false, seeds: Some(1), jobs: 1, charts: false };
        let all = pieces(&brief, effort)?;
        let mut pace = Self::of_trace(&brief.workload[0].trace, &brief.machine)?;
        let Played { study, .. } = all[0].play(monitor)?;
        let runs = study.sizes.iter().flat_map(|size| &size.policies).flat_map(|of| &of.runs);
        let simulated = runs.fold(0.0, |sum, run| sum + run.report.host.wall_seconds);
        pace.run_seconds_per_access = simulated / (all[0].accesses() as f64).max(1.0);
        Ok(pace)
    }

    /// Of a generated trace. Recorded ones are there.
    fn of_trace(trace: &str, machine: &str) -> anyhow::Result<Self> {
        let Ok(mut source) = frostline_workloads::from_spec(trace) else {
            return Ok(Self::default());
        };
        let machine = frostline_study::machine(machine)?;
        let began = Instant::now();
        source.next_batch(&mut Batch::new())?;
        let once_seconds = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let whole = MemTrace::capture(&mut *source)?;
        let footprint = measure_footprint(&mut whole.reader()?, &machine)?;
        let seconds = began.elapsed().as_secs_f64();
        let trace_seconds_per_access = seconds / footprint.records.max(1) as f64;
        Ok(Self { once_seconds, trace_seconds_per_access, run_seconds_per_access: 0.0 })
    }
}

/// The first workload on the first machine, with a trace cut short.
fn brief(experiment: &Experiment) -> Experiment {
    let of = &experiment.workload[0];
    let trace = of.trace(true);
    let trace = shortened(trace).unwrap_or_else(|| trace.to_owned());
    let workload = Workload { trace, quick: None, ..of.clone() };
    Experiment {
        machine: experiment.machines()[0].clone(),
        machines: Vec::new(),
        fast: experiment.fast.iter().take(1).cloned().collect(),
        workload: vec![workload],
        result: Vec::new(),
        chart: Vec::new(),
        heatmap: Vec::new(),
        ..experiment.clone()
    }
}

/// None for a recorded trace, and where a generator cannot do with so few accesses.
fn shortened(trace: &str) -> Option<String> {
    let spec = Spec::parse(trace.strip_prefix("synth:")?).ok()?.with("accesses", BRIEF);
    let pairs: String = spec.pairs().map(|(key, value)| format!(":{key}={value}")).collect();
    let short = format!("synth:{}{pairs}", spec.name());
    frostline_workloads::from_spec(&short).is_ok().then_some(short)
}
