//! Execution of a study.

use super::bounds::{self, BoundResult, NoBound};
use super::input::{Input, Watched};
use super::labels::{is_offline, labels};
use super::oracle::{LazyOrder, MatrixOracle};
use super::programs::{CoRunners, Programs};
use super::{PolicyStudy, SizeStudy, Study, TraceStudy};
use crate::{Monitor, Pass, StudyError, error};
use anyhow::Context;
use frostline_bound::EpochMatrix;
use frostline_core::Limit;
use frostline_core::params::Kind;
use frostline_core::policy::{Made, Offer, PolicyError, registry};
use frostline_core::spec::Spec;
use frostline_core::types::PageCount;
use frostline_sim::{
    FastSize, Footprint, GuestSetup, Labels, Machine, Progress, RunOutcome, Scale, Setting,
    SimError, SimOptions, Together, measure_footprint, simulate, simulate_together,
};
use frostline_trace::TraceSource;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs at the same time, whatever is asked for.
const MOST_JOBS: usize = 1024;

/// What to run.
pub struct Request {
    /// Traces, and what runs at the same time.
    pub traces: Vec<Programs>,
    /// Virtual machines around every program, each kind in a run of its own; none for programs by
    /// themselves.
    pub guests: Vec<GuestSetup>,
    /// Sizes of fast memory.
    pub sizes: Vec<FastSize>,
    /// Policies, checked.
    pub policies: Vec<String>,
    /// How many seeds, from `options.seed` upwards; at least 1.
    pub seeds: u64,
    /// Compute the bound where it applies.
    pub bound: bool,
    /// Threads; `None` for one per core.
    pub jobs: Option<usize>,
    /// Everything else.
    pub options: SimOptions,
    /// Keep the series of every seed, not of the first alone.
    pub every_series: bool,
    /// What reading traces may take without accounting for it.
    pub limit: Limit,
}

/// A machine by its preset or file, with parameters.
///
/// # Errors
/// [`StudyError::Usage`] for one that is not known or not possible.
pub fn machine(text: &str) -> Result<Machine, StudyError> {
    Machine::parse(text).map_err(|error| error::of_machine(&error))
}

/// Maker of policies by their descriptions.
pub trait Policies: Sync {
    /// Makes a policy for a run. It is called from several threads at once.
    ///
    /// # Errors
    /// One that is not known or cannot be made.
    fn make(&self, policy: &str, offer: &Offer) -> Result<Made, PolicyError>;
}

/// Maker of those in the registry.
struct Registered;

impl Policies for Registered {
    fn make(&self, policy: &str, offer: &Offer) -> Result<Made, PolicyError> {
        registry::make(policy, offer)
    }
}

/// Runs everything; traces one after the other, the runs of a trace side by side.
///
/// # Errors
/// The first error of any run, or [`StudyError::Stopped`].
pub fn run(request: &Request, monitor: &dyn Monitor) -> anyhow::Result<Study> {
    run_with(request, &Registered, monitor)
}

/// The same with policies that `policies` makes.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    request: &Request,
    policies: &dyn Policies,
    monitor: &dyn Monitor,
) -> anyhow::Result<Study> {
    let threads = threads(request.jobs)?;
    let seeds: Vec<u64> =
        (0..request.seeds.max(1)).map(|i| request.options.seed.wrapping_add(i)).collect();
    let mut traces = Vec::new();
    for programs in &request.traces {
        let by = By { policies, monitor };
        let trace = threads.install(|| run_seeds(request, programs, &seeds, by));
        traces.push(trace.map_err(|error| named(error, &programs.trace))?);
    }
    let (machine, tlb) = (request.options.machine.clone(), request.options.tlb);
    Ok(Study { machine, tlb, seeds, traces })
}

/// Threads for as many runs at the same time; `None` for one per core.
pub(crate) fn threads(jobs: Option<usize>) -> anyhow::Result<ThreadPool> {
    let threads = ThreadPoolBuilder::new().num_threads(jobs.unwrap_or(0).min(MOST_JOBS));
    threads.build().context("cannot start threads")
}

/// A generated trace is generated anew with every seed, unless its description names one: seeds
/// would show little otherwise, because most of the model is not random.
fn run_seeds(
    request: &Request,
    programs: &Programs,
    seeds: &[u64],
    by: By<'_>,
) -> anyhow::Result<TraceStudy> {
    if seeds.len() == 1 || !generated_without_seed(&programs.trace) && !programs.are_several() {
        return run_trace(request, programs, seeds, by);
    }
    let mut whole: Option<TraceStudy> = None;
    for &seed in seeds {
        let mut next = run_trace(request, &programs.seeded(seed), &[seed], by)?;
        // The seed has a place of its own, and names that hold it would be others to whoever groups by them.
        for policy in next.sizes.iter_mut().flat_map(|size| &mut size.policies) {
            policy.runs.iter_mut().for_each(|run| run.report.trace.clone_from(&programs.trace));
        }
        match &mut whole {
            Some(whole) => whole.append_runs(next, request.every_series),
            None => {
                next.name.clone_from(&programs.trace);
                whole = Some(next);
            }
        }
    }
    whole.context("no seed is given")
}

/// The trace that stands for a seed: generated with it, unless its description names one.
pub fn with_seed(name: &str, seed: u64) -> String {
    if generated_without_seed(name) { format!("{name}:seed={seed}") } else { name.to_owned() }
}

fn generated_without_seed(name: &str) -> bool {
    let spec = name.strip_prefix("synth:").map(Spec::parse);
    matches!(spec, Some(Ok(spec)) if spec.get("seed").is_none())
}

/// A generated trace without its seed; none for a recorded one.
pub fn seedless(name: &str) -> Option<String> {
    let spec = Spec::parse(name.strip_prefix("synth:")?).ok()?;
    let others = spec.pairs().filter(|(key, _)| *key != "seed");
    let others = others.map(|(key, value)| format!(":{key}={value}"));
    Some(format!("synth:{}{}", spec.name(), others.collect::<String>()))
}

/// Says which trace it was, where the error does not.
fn named(error: anyhow::Error, trace: &str) -> anyhow::Error {
    match format!("{error:#}").contains(trace) {
        true => error,
        false => error.context(format!("trace {trace}")),
    }
}

/// A trace that is open, and measured on a machine.
pub(crate) struct Ready {
    pub(crate) input: Arc<Input>,
    pub(crate) footprint: Footprint,
    /// Where several programs run at once, or in virtual machines.
    pub(crate) co_runners: Option<CoRunners>,
}

/// Who makes policies, and who hears of the progress.
#[derive(Clone, Copy)]
struct By<'a> {
    policies: &'a dyn Policies,
    monitor: &'a dyn Monitor,
}

/// A trace made ready for its runs.
struct Prepared<'a> {
    request: &'a Request,
    machine: &'a Machine,
    by: By<'a>,
    ready: Ready,
    scale_of: Scale,
    scale: f64,
    matrix: Option<Arc<EpochMatrix>>,
    order: Arc<LazyOrder>,
}

struct Job {
    size: usize,
    policy: usize,
    guest: Option<usize>,
    seed: u64,
    first_seed: bool,
}

fn run_trace(
    request: &Request,
    programs: &Programs,
    seeds: &[u64],
    by: By<'_>,
) -> anyhow::Result<TraceStudy> {
    let monitor = by.monitor;
    let kinds = request.guests.len().max(1);
    let passes = 1 + request.sizes.len() * request.policies.len() * kinds * seeds.len();
    let open = |name: &str, times| Input::open(name, times, request.limit, monitor);
    let input = open(&programs.trace, passes + usize::from(request.bound))?;
    let machine = programs.machine.as_ref().unwrap_or(&request.options.machine);
    let inside = Together::inside(machine, request.guests.first());
    let mut footprint = footprint(&input, &inside, monitor)?;
    let together = programs.are_several() || !request.guests.is_empty();
    let co_runners = match together {
        true => {
            let open = |name: &str| open(name, passes);
            let measure = |input: &Input| self::footprint(input, &inside, monitor);
            Some(CoRunners::open(programs, &footprint, seeds[0], open, measure)?)
        }
        false => None,
    };
    if let Some(co_runners) = &co_runners {
        footprint = co_runners.footprint(&request.guests);
    }
    let ready = Ready { input: Arc::new(input), footprint, co_runners };
    run_ready(request, programs, ready, seeds, by)
}

/// Runs of one trace that is ready, with the request's first seed, on the threads of the caller's pool; the
/// request's traces and jobs do not matter.
pub(crate) fn run_one(
    request: &Request,
    ready: Ready,
    monitor: &dyn Monitor,
) -> anyhow::Result<TraceStudy> {
    let programs = Programs::alone(ready.input.name());
    let by = By { policies: &Registered, monitor };
    run_ready(request, &programs, ready, &[request.options.seed], by)
}

fn run_ready(
    request: &Request,
    programs: &Programs,
    ready: Ready,
    seeds: &[u64],
    by: By<'_>,
) -> anyhow::Result<TraceStudy> {
    let monitor = by.monitor;
    let Ready { input, footprint, co_runners } = &ready;
    let machine = programs.machine.as_ref().unwrap_or(&request.options.machine);
    let header = input.source()?.header().clone();
    let together = co_runners.is_some();
    let wanted = match request.bound {
        true if together => Err(NoBound::Together),
        true => bounds::applies(machine, &request.options.faults, footprint),
        false => Err(NoBound::NotAsked),
    };
    let offline = request.policies.iter().any(|policy| is_offline(policy));
    if offline && together {
        let hint = "leave the offline policies out, or --guest, --programs and --beside";
        let what = format!("no future is known to programs: {}", NoBound::Together);
        return Err(StudyError::failed(what, hint).into());
    }
    if offline && let Err(why) = bounds::fits(footprint) {
        let hint = "leave the offline policies out, or take a shorter trace";
        let what = format!("offline policies need to hold the trace: {why}");
        return Err(StudyError::failed(what, hint).into());
    }
    let matrix = match offline || wanted.is_ok() {
        true => Some(bounds::matrix(input, footprint, monitor)?),
        false => None,
    };
    let mut sizes = Vec::new();
    for &fast in programs.fast.as_ref().map_or(request.sizes.as_slice(), std::slice::from_ref) {
        let fast_pages = fast.pages(footprint).0;
        let bound = match (&wanted, &matrix) {
            (Ok(()), Some(matrix)) => Ok(bounds::compute(matrix, machine, fast_pages, monitor)?),
            (Err(why), _) => Err(why.clone()),
            (Ok(()), None) => Err(NoBound::NotAsked),
        };
        monitor.check()?;
        let fast_bytes = PageCount(fast_pages).bytes().0;
        sizes.push(SizeStudy { fast, fast_bytes, bound, policies: Vec::new() });
    }

    let scale_of = programs.scale.unwrap_or(request.options.scale);
    let scale = scale_of.factor(footprint);
    // The matrix is large; runs need it for offline policies only.
    let matrix = matrix.filter(|_| offline).map(Arc::new);
    let order = Arc::new(LazyOrder::new(Arc::clone(input)));
    let prepared = Prepared { request, machine, by, ready, scale_of, scale, matrix, order };
    let outcomes = run_all(&prepared, &sizes, seeds)?;
    collect(&mut sizes, &labels(&request.policies, &request.guests), seeds.len(), outcomes);
    let (name, footprint) = (programs.trace.clone(), prepared.ready.footprint);
    Ok(TraceStudy { name, header, footprint, scale, sizes })
}

/// What a trace uses of a machine, by a pass over it.
///
/// # Errors
/// A trace that cannot be read, or [`StudyError::Stopped`].
pub fn footprint(
    input: &Input,
    machine: &Machine,
    monitor: &dyn Monitor,
) -> anyhow::Result<Footprint> {
    footprint_by(input, machine, monitor, |source| Box::new(source))
}

/// The same by a pass that somebody else hears of, too: `heard` wraps its source.
pub(crate) fn footprint_by<'a>(
    input: &Input,
    machine: &Machine,
    monitor: &'a dyn Monitor,
    heard: impl FnOnce(Watched<'a>) -> Box<dyn TraceSource + 'a>,
) -> anyhow::Result<Footprint> {
    let watched = Watched::new(input.source()?, "measuring the footprint", None, monitor);
    let mut source = heard(watched);
    let footprint = measure_footprint(&mut *source, machine);
    monitor.check()?;
    if let Some(warning) = source.warning() {
        monitor.note(&format!("note: {}: {warning}", input.name()));
    }
    Ok(footprint?)
}

/// Virtual machines by number, or none.
fn kinds(request: &Request) -> Vec<Option<usize>> {
    match request.guests.len() {
        0 => vec![None],
        n => (0..n).map(Some).collect(),
    }
}

fn run_all(
    prepared: &Prepared<'_>,
    sizes: &[SizeStudy],
    seeds: &[u64],
) -> anyhow::Result<Vec<RunOutcome>> {
    let mut jobs = Vec::new();
    for size in 0..sizes.len() {
        for policy in 0..prepared.request.policies.len() {
            for guest in kinds(prepared.request) {
                for (i, &seed) in seeds.iter().enumerate() {
                    jobs.push(Job { size, policy, guest, seed, first_seed: i == 0 });
                }
            }
        }
    }
    let what = match jobs.len() {
        1 => "simulating".to_owned(),
        n => format!("simulating {n} runs"),
    };
    let total = prepared.ready.footprint.records * jobs.len() as u64;
    let pass = prepared.by.monitor.pass(&what, "accesses", Some(total));
    let finished = AtomicUsize::new(0);
    let outcomes: anyhow::Result<Vec<RunOutcome>> = jobs
        .par_iter()
        .map(|job| {
            let outcome = prepared.run_job(job, &sizes[job.size], &*pass)?;
            finished.fetch_add(1, Ordering::Relaxed);
            Ok(outcome)
        })
        .collect();
    drop(pass);
    if prepared.by.monitor.stops() {
        let runs = Some((finished.load(Ordering::Relaxed), jobs.len()));
        return Err(StudyError::Stopped { runs }.into());
    }
    outcomes
}

impl Prepared<'_> {
    /// What the machine offers: with a daemon, what one has outside of the kernel.
    fn offer(&self) -> Offer {
        let options = &self.request.options;
        match &options.daemon {
            Some(daemon) => Offer { brief: daemon.brief, ..self.machine.offer_outside() },
            None => self.machine.offer(options.tlb),
        }
    }

    fn run_job(&self, job: &Job, size: &SizeStudy, pass: &dyn Pass) -> anyhow::Result<RunOutcome> {
        self.by.monitor.check()?;
        let spec = &self.request.policies[job.policy];
        let machine = self.machine;
        let context = Offer {
            seed: job.seed,
            scale: self.scale,
            fast_pages: size.fast.pages(&self.ready.footprint),
            total_pages_hint: PageCount(self.ready.footprint.peak_resident_pages),
            oracle: self.matrix.as_ref().filter(|_| is_offline(spec)).map(|matrix| {
                let model = bounds::model(machine, size.fast_bytes / 4096);
                let (matrix, order) = (Arc::clone(matrix), Arc::clone(&self.order));
                Arc::new(MatrixOracle { matrix, model, order }) as _
            }),
            ..self.offer()
        };
        let policy = self.by.policies.make(spec, &context)?;
        let swaps = policy.facts.swaps;
        let entry = registry::check(spec).ok();
        let setting = |(key, value): &(&str, String)| {
            let param = entry.and_then(|entry| entry.params().find(|p| p.name == *key));
            let kind = param.map_or(Kind::Text, |param| param.kind);
            ((*key).to_owned(), Setting::new(kind, value))
        };
        let mut policy_config: Vec<(String, Setting)> = policy.config.iter().map(setting).collect();
        let guest = job.guest.map(|kind| &self.request.guests[kind]);
        if let Some(guest) = guest {
            let guest = Setting::new(Kind::Text, &guest.to_string());
            policy_config.push(("guest".to_owned(), guest));
        }
        let epoch_records = match &self.matrix {
            Some(matrix) if is_offline(spec) => matrix.epoch_records(0).end,
            _ => 0,
        };
        let options = SimOptions {
            fast: size.fast,
            labels: Labels { trace: self.ready.input.name().to_owned(), policy_config },
            seed: job.seed,
            scale: self.scale_of,
            epoch_records,
            machine: machine.clone(),
            ..self.request.options.clone()
        };
        let mut seen = 0;
        let mut observer = |progress: &Progress| {
            pass.advance(progress.records - seen);
            seen = progress.records;
            !self.by.monitor.stops()
        };
        let outcome = match &self.ready.co_runners {
            Some(co_runners) => {
                let programs =
                    co_runners.together(&self.ready.input, guest, self.scale, job.seed)?;
                simulate_together(programs, &self.ready.footprint, policy, &options, &mut observer)
            }
            None => {
                let mut source = self.ready.input.source()?;
                simulate(&mut *source, &self.ready.footprint, policy, &options, &mut observer)
            }
        };
        pass.advance(self.ready.footprint.records.saturating_sub(seen));
        let mut outcome = match outcome {
            Err(SimError::Cancelled) => return Err(StudyError::Stopped { runs: None }.into()),
            other => other.with_context(|| format!("policy {spec} at {}", size.fast))?,
        };
        if !job.first_seed {
            outcome.heatmaps = None;
            if !self.request.every_series {
                outcome.series = Vec::new();
            }
        }
        if !swaps {
            add_bound(&mut outcome, spec, &size.bound);
        }
        Ok(outcome)
    }
}

/// All-fast memory is larger than what the bound is for.
fn add_bound(outcome: &mut RunOutcome, spec: &str, bound: &Result<BoundResult, NoBound>) {
    if let Ok(bound) = bound {
        outcome.report.bound_gap = Some(bound.gap);
        if spec != registry::ALL_FAST {
            outcome.report.share_of_bound = bound.share(outcome.report.saving_ns);
        }
    }
}

fn collect(sizes: &mut [SizeStudy], policies: &[String], seeds: usize, outcomes: Vec<RunOutcome>) {
    let mut outcomes = outcomes.into_iter();
    for size in sizes {
        for spec in policies {
            let runs = outcomes.by_ref().take(seeds).collect();
            size.policies.push(PolicyStudy { spec: spec.clone(), runs });
        }
    }
}
