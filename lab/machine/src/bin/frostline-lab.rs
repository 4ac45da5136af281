//! `cargo xtask lab`: an emulated machine with two tiers of memory, and what runs in it.
#![forbid(unsafe_code)]

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use frostline_core::policy::registry;
use frostline_core::spec;
use frostline_guest::{Guest, Lab, LabOptions, Outcome, program};
use frostline_lab::advice::{self, Asked};
use frostline_lab::compare::{self, Plan};
use frostline_lab::programs::{self, Program};
use frostline_lab::systems::System;
use frostline_lab::trial::Trial;
use frostline_lab::validate::{Numbers, Pair, predict, recording, series, table};
use rayon::prelude::*;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How far the measured latency may be from the one asked for.
const TOLERANCE: f64 = 0.02;
/// So that no draw of a recording has the seed of another recording.
const SEEDS_BETWEEN_DRAWS: u64 = 1000;

/// An emulated machine with two tiers of memory, and what runs in it
///
/// `docs/notes/lab.md` describes it.
#[derive(Parser)]
#[command(name = "cargo xtask lab", max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args, Clone)]
struct MachineArgs {
    /// Latencies of the two nodes: 100:300 in ns, or a machine of the simulator's, as dram-cxl
    #[arg(long, default_value = "100:300")]
    machine: String,
    /// Seed of the machine's random numbers, the first one where there are several
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// What a sample takes of the processor that makes it, in ns
    #[arg(long, default_value_t = 250)]
    sample_cost: u64,
    /// Reference: slow memory takes longer, equal runs are identical. Fast: neither
    #[arg(long, value_enum, default_value = "reference")]
    mode: Mode,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Reference,
    Fast,
}

impl MachineArgs {
    fn options(&self) -> anyhow::Result<LabOptions> {
        let pair = self
            .machine
            .split_once(':')
            .and_then(|(fast, slow)| Some((fast.parse::<u64>().ok()?, slow.parse::<u64>().ok()?)));
        let latency_ns = match pair {
            Some(pair) => pair,
            None => {
                let machine = frostline_sim::Machine::parse(&self.machine).context("--machine")?;
                ensure!(
                    machine.tiers.len() == 2 && machine.all_direct(),
                    "--machine {}: the lab has two tiers, both with direct access",
                    self.machine
                );
                let ns = |tier: usize| machine.tiers[tier].read_ns.round() as u64;
                (ns(0), ns(1))
            }
        };
        let mode = match self.mode {
            Mode::Reference => Lab::Reference,
            Mode::Fast => Lab::Fast,
        };
        let (seed, sample_ns) = (self.seed, self.sample_cost);
        Ok(LabOptions { mode, latency_ns, seed, sample_ns, ..LabOptions::default() })
    }
}

#[derive(Subcommand)]
enum Command {
    /// Run a job in the machine: `chase`, which measures latencies, or a script for its shell
    Run {
        #[command(flatten)]
        machine: MachineArgs,
        /// Sizes of nodes 0 and 1 in MiB
        #[arg(long, default_value = "256:512")]
        memory: String,
        /// Write the machine's counts to this file
        #[arg(long)]
        truth: Option<PathBuf>,
        /// `chase`, or a script; then files that it needs
        #[arg(last = true, required = true)]
        job: Vec<PathBuf>,
    },
    /// Compare systems: what really happened to programs under each of them
    Compare {
        #[command(flatten)]
        machine: MachineArgs,
        /// One program, few systems, two seeds
        #[arg(long)]
        quick: bool,
        /// Programs, separated by commas [default: all]
        #[arg(long, value_delimiter = ',')]
        programs: Vec<String>,
        /// Systems and policies [default: first-touch, autonuma, damon, reclaim, memtis-plus]
        #[arg(long)]
        systems: Option<String>,
        /// Seeds [default: 5, with --quick 2]
        #[arg(long)]
        seeds: Option<u64>,
        /// Machines at the same time
        #[arg(short, long, default_value_t = 2)]
        jobs: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Validate the simulator: programs recorded and simulated beside the same in the machine
    Validate(ValidateArgs),
    /// Ask for advice on recorded programs, and follow it in the machine
    Advise(AdviseArgs),
}

#[derive(clap::Args)]
struct AdviseArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Programs, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Policy
    #[arg(long, default_value = registry::DEFAULT)]
    policy: String,
    /// Slowdown that is accepted: the policy's own work takes some per cent there
    #[arg(long, default_value = "10%", value_parser = spec::parse_ratio)]
    max_slowdown: f64,
    /// Change the simulated machine; for each sample, frost looks and plans for so long
    #[arg(long, value_name = "CHANGES", default_value = "costs.sample_policy_ns=4750")]
    with: String,
    /// Keep recordings and runs here; those that are there already are taken as they are
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ValidateArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// One program, two systems
    #[arg(long)]
    quick: bool,
    /// Programs, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// first-touch, autonuma, and policies that the machine can run [default: all of them]
    #[arg(long, alias = "systems")]
    policies: Option<String>,
    /// Seeds
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Simulations of each recording, with seeds of their own; the mean counts, since a race that is decided
    /// by chance says little once
    #[arg(long, default_value = "5")]
    draws: NonZeroU64,
    /// Machines at the same time
    #[arg(short, long, default_value_t = 1)]
    jobs: usize,
    /// Take what `compare --json` or `validate --keep` has written as what happened in the machine
    #[arg(long, value_name = "FILE.json")]
    trials: Vec<PathBuf>,
    /// Keep recordings here, and what happened in the machine as trials.json; recordings that are
    /// there already are taken as they are
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Change the simulated machine: key=value, separated by colons, as in costs.lookup_ns=0
    #[arg(long, value_name = "CHANGES", default_value = "")]
    with: String,
    /// Write what happened over time in both worlds here, a file for each pair
    #[arg(long, value_name = "FOLDER")]
    series: Option<PathBuf>,
    /// Put the table into this document, between its marks
    #[arg(long, value_name = "FILE.md")]
    write: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What both worlds have. Other policies need what nothing in the machine can tell them.
const POLICIES: &str = "first-touch,autonuma,memtis-plus,hemem,hybridtier,memtis,memtis-ns,memtis-nw,\
                        memtis-artifact";

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run { machine, memory, truth, job } => run(&machine, &memory, truth, &job),
        Command::Compare { machine, quick, programs, systems, seeds, jobs, json } => {
            let systems =
                systems.as_deref().unwrap_or("first-touch,autonuma,damon,reclaim,memtis-plus");
            let plan = plan(&machine, quick, &programs, systems, seeds, jobs);
            plan.and_then(|plan| compare(&plan, json))
        }
        Command::Validate(args) => validate(&args),
        Command::Advise(args) => advise(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(
    machine: &MachineArgs,
    memory: &str,
    truth: Option<PathBuf>,
    job: &[PathBuf],
) -> anyhow::Result<ExitCode> {
    let lab = machine.options()?;
    let sizes = memory
        .split_once(':')
        .and_then(|(fast, slow)| Some((fast.parse().ok()?, slow.parse().ok()?)));
    let (fast, slow) = sizes.with_context(|| format!("--memory '{memory}'\nhint: 256:512"))?;
    let (job, files) = job.split_first().context("no job")?;
    let is_chase = job.as_os_str() == "chase";
    let script = if is_chase {
        "lab-guest chase\n".to_owned()
    } else {
        std::fs::read_to_string(job).with_context(|| job.display().to_string())?
    };
    let mut guest = Guest::default().lab(lab).memory_mib(fast, slow).timeout_s(3600);
    guest = guest.file(program("lab-guest").map_err(anyhow::Error::msg)?);
    for file in files {
        guest = guest.file(file);
    }
    // The script may end itself.
    let script = format!(
        "lab-guest publish || exit 1\n(\n{script}\n)\ncode=$?\nlab-guest end\nexit $code\n"
    );
    let report = match guest.run(&script) {
        Outcome::Ran(report) => report,
        Outcome::Impossible(reason) => {
            eprintln!("error: {reason}");
            return Ok(ExitCode::from(77));
        }
        Outcome::Failed(reason) => anyhow::bail!(reason),
    };
    print!("{}", report.stdout);
    eprint!("{}", report.stderr);
    if let Some(path) = truth {
        std::fs::write(&path, report.truth()).with_context(|| path.display().to_string())?;
    }
    if is_chase && lab.mode == Lab::Reference && report.code == 0 {
        return check_latencies(&report.stdout, lab.latency_ns);
    }
    Ok(ExitCode::from(report.code as u8))
}

/// Compares what `lab-guest chase` has measured with what was asked for.
fn check_latencies(stdout: &str, asked: (u64, u64)) -> anyhow::Result<ExitCode> {
    let mut good = true;
    for (node, asked) in [asked.0, asked.1].into_iter().enumerate() {
        let line = stdout.lines().find_map(|line| line.strip_prefix(&format!("node {node}: ")));
        let line = line.with_context(|| format!("node {node} was not measured"))?;
        let mut numbers = line.split(' ').filter_map(|word| word.parse::<f64>().ok());
        let (with, without) = numbers.next().zip(numbers.next()).context(line.to_owned())?;
        let off = (with - without) / asked as f64 - 1.0;
        let verdict = if off.abs() <= TOLERANCE { "good" } else { "off" };
        good &= off.abs() <= TOLERANCE;
        println!(
            "node {node}: {asked} ns asked, {:.1} measured ({:+.1} %, {verdict})",
            with - without,
            100.0 * off
        );
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Programs of these names; all where there are none.
fn named(names: &[String]) -> anyhow::Result<Vec<Program>> {
    match names {
        [] => Ok(programs::ALL.to_vec()),
        names => names.iter().map(|name| programs::find(name)).collect(),
    }
}

fn plan(
    machine: &MachineArgs,
    quick: bool,
    names: &[String],
    systems: &str,
    seeds: Option<u64>,
    jobs: usize,
) -> anyhow::Result<Plan> {
    let programs = match names {
        [] if quick => vec![programs::find("hotcold")?],
        names => named(names)?,
    };
    let systems = systems.split(',').map(System::find).collect::<anyhow::Result<_>>()?;
    let seeds = seeds.unwrap_or(if quick { 2 } else { 5 });
    Ok(Plan { programs, systems, seeds, jobs, lab: machine.options()? })
}

fn compare(plan: &Plan, json: bool) -> anyhow::Result<ExitCode> {
    let trials = compare::run(plan)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&trials)?);
    } else {
        print!("{}", compare::table(&trials));
    }
    Ok(ExitCode::SUCCESS)
}

fn validate(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let systems = match &args.policies {
        Some(systems) => systems,
        None if args.quick => "first-touch,memtis-plus",
        None => POLICIES,
    };
    let seeds = Some(args.seeds);
    let mut plan = plan(&args.machine, args.quick, &args.programs, systems, seeds, args.jobs)?;
    plan.systems = plan.systems.into_iter().map(System::validated).collect();
    if let Some(path) = &args.write {
        // Said before the hours, not after them.
        with_table(path, "")?;
    }
    let trials = trials(args, &plan)?;
    let temporary = tempfile::tempdir()?;
    let folder = args.keep.as_deref().unwrap_or(temporary.path());
    let mut pairs = Vec::new();
    // Some system leaves a program all that the kernel gives.
    let full = |program: &str| {
        let of = trials.iter().filter(|other| other.program == program).map(|other| other.free);
        of.filter(|free| free.pages > 0).min_by_key(|free| free.pages).unwrap_or_default()
    };
    let watermarks = |program: &str| {
        let of = trials.iter().filter(|other| other.program == program);
        of.map(|other| other.watermarks).max_by_key(|marks| marks.low_pages).unwrap_or_default()
    };
    let wanted = |trial: &&Trial| {
        plan.programs.iter().any(|program| program.name == trial.program)
            && plan.systems.iter().any(|system| system.name == trial.system)
    };
    for trial in trials.iter().filter(wanted) {
        let node =
            predict::Node { full: full(&trial.program), watermarks: watermarks(&trial.program) };
        let work = programs::find(&trial.program)?;
        let recording = recording::make(work, trial.seed, folder)?;
        let mut wanted = predict::Parameters::of(trial, node, work, plan.lab)?;
        if !args.with.is_empty() {
            wanted.machine += &format!(":{}", args.with);
        }
        let draw = |draw: u64| {
            let seed = wanted.seed + draw * SEEDS_BETWEEN_DRAWS;
            predict::run(&recording, &predict::Parameters { seed, ..wanted.clone() })
        };
        let draws: Vec<_> =
            (0..args.draws.get()).into_par_iter().map(draw).collect::<anyhow::Result<_>>()?;
        let simulated = Numbers::mean(draws.iter().map(|draw| &draw.numbers));
        let predicted = draws.into_iter().next().context("there is one")?;
        if let Some(folder) = &args.series {
            std::fs::create_dir_all(folder)?;
            let name = format!("{}-{}-{}.csv", trial.program, trial.system, trial.seed);
            std::fs::write(folder.join(name), series::csv(trial, &predicted))?;
        }
        pairs.push(Pair {
            program: trial.program.clone(),
            system: trial.system.clone(),
            seed: trial.seed,
            lab: Numbers::from(trial),
            simulated,
            counters: predicted.counters,
        });
    }
    let text = table::markdown(&pairs);
    if let Some(path) = &args.write {
        std::fs::write(path, with_table(path, &text)?)?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&pairs)?);
    } else {
        print!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}

fn advise(args: &AdviseArgs) -> anyhow::Result<ExitCode> {
    let temporary = tempfile::tempdir()?;
    let folder = args.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)?;
    let (lab, seed) = (args.machine.options()?, args.machine.seed);
    let (policy, goal, with) = (&args.policy, args.max_slowdown, &args.with);
    let asked = Asked { policy, goal, lab, seed, folder, with };
    let mut cases = Vec::new();
    for work in named(&args.programs)? {
        let case = advice::follow(work, asked).with_context(|| work.name)?;
        eprintln!(
            "{}: {:.1} % predicted, {:.1} % measured",
            case.program,
            100.0 * case.predicted,
            100.0 * case.measured()
        );
        cases.push(case);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&cases)?);
    } else {
        print!("{}", advice::table(&cases));
    }
    Ok(ExitCode::SUCCESS)
}

/// A document with `text` between its marks.
fn with_table(path: &Path, text: &str) -> anyhow::Result<String> {
    let document = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    table::insert(&document, text)
}

/// What happened in the machine: read, or made to happen. What is read may be more than was asked for.
fn trials(args: &ValidateArgs, plan: &Plan) -> anyhow::Result<Vec<Trial>> {
    if args.trials.is_empty() {
        let trials = compare::run(plan)?;
        if let Some(folder) = &args.keep {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join("trials.json"), serde_json::to_string_pretty(&trials)?)?;
        }
        return Ok(trials);
    }
    let read = |path: &Path| -> anyhow::Result<Vec<Trial>> {
        let text = std::fs::read_to_string(path)?;
        Ok(serde_json::from_str(&text)?)
    };
    let mut all = Vec::new();
    for path in &args.trials {
        all.extend(read(path).with_context(|| path.display().to_string())?);
    }
    let place = |trial: &Trial| {
        let program = plan.programs.iter().position(|program| program.name == trial.program);
        let system = plan.systems.iter().position(|system| system.name == trial.system);
        (program, system, trial.seed)
    };
    all.sort_by_key(place);
    Ok(all)
}
