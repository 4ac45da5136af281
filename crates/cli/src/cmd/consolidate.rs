//! `frostline consolidate`: has programs gather their hot pages.

use crate::live::consolidation;
use crate::live::gathering::{Gatherer, Plan, THREAD_TIMEOUT, has_agent};
use crate::live::inside::Agent;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::spec;
use frostline_core::types::Nanos;
use frostline_driver::owner::Owner;
use frostline_driver::{CpuShare, Selection, Written};
use frostline_inprocess::consolidate::Numbers;
use frostline_inprocess::inject;
use frostline_linux::{Root, Target};
use frostline_terminal::errors::{self, failure};
use frostline_terminal::progress::note;
use frostline_terminal::{cancel, output};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `--help` says first.
pub const LONG: &str = "\
Has programs gather their hot base pages, which lie scattered, in few regions of 2 MiB: once, or again and \
again (--every). Addresses stay. Which pages are hot is read from page tables for a second or two, where that \
can be done (root), reads among them; elsewhere those that are written count. The pages can be moved from \
inside only: either a program was started by `frostline run --consolidate` or `--in-process`, or --inject \
brings the library into it now, where it stays.";

const EXAMPLES: &str = "\
Examples:
  frostline consolidate 4711
  frostline consolidate 4711 --hot-pages 290 --json
  frostline consolidate 4711 --dry-run
  frostline consolidate 4711 --inject
  frostline consolidate --command redis-server --inject --every 30s";

/// Between two looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Processes
    #[arg(value_name = "PID", required_unless_present = "command")]
    pids: Vec<u32>,
    /// All own processes of that name, as `ps -o comm` prints it, and what they start
    #[arg(long, value_name = "NAME", conflicts_with = "pids")]
    command: Option<String>,
    /// Again and again, so long after each round, until Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = spec::parse_duration)]
    every: Option<Nanos>,
    /// Share of one core for looking which pages are hot, with --every
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    cpu_limit: Written<CpuShare>,
    /// Regions with fewer hot pages than that are emptied of them: 1 to 512, or auto, as the
    /// distribution suggests
    #[arg(long, alias = "limit", value_name = "PAGES", default_value = "auto")]
    #[arg(value_parser = ConsolidationLimit::parse)]
    hot_pages: ConsolidationLimit,
    /// Look, and move nothing. With --inject: say which thread would load the library, and do not have
    /// it do so
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Where the program was not started with the library: have one of its threads, which waits, load
    /// it. Only for programs on x86-64 that use the same glibc as frostline
    #[arg(long)]
    inject: bool,
    /// That library [default: what FROSTLINE_AGENT names, or libfrostline_agent.so beside frostline
    /// or in ../lib]
    #[arg(long, value_name = "FILE", requires = "inject")]
    agent: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where a program has no agent, does not answer, or cannot do it. With `--every` and with several, that is said, and
/// the others go on.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::system();
    if let (true, true, [pid]) = (args.inject, args.dry_run, &*args.pids) {
        let target = Target::open(&root, *pid)?;
        if !has_agent(&root, &target)? {
            let library = Agent::find(args.agent.as_deref())?;
            return say_what_would_be_done(&target, library.path(), args.json);
        }
    }
    let library = args.inject.then(|| Agent::find(args.agent.as_deref())).transpose()?;
    if args.inject && args.dry_run {
        let what = "a dry run brings no library into several programs";
        return Err(failure(what, "name one process, or leave --inject out"));
    }
    // Once, nobody waits longer than needed.
    let share = if args.every.is_some() { args.cpu_limit.get() } else { 1.0 };
    let plan = Plan { limit: args.hot_pages, dry_run: args.dry_run, share, library };
    let mut gatherer = Gatherer::new(root.clone(), plan);
    if !args.json {
        note(&gatherer.telemetry());
    }
    if args.every.is_some() {
        cancel::install()?;
    }
    loop {
        let ended = round(&root, &args, &mut gatherer)?;
        let Some(every) = args.every else { return Ok(ended) };
        let due = Instant::now() + Duration::from_nanos(every.0);
        while Instant::now() < due {
            if cancel::requested() {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// What a process has done.
#[derive(serde::Serialize)]
struct Gathered {
    pid: u32,
    #[serde(flatten)]
    numbers: Numbers,
}

/// One round over all processes.
fn round(root: &Root, args: &Args, gatherer: &mut Gatherer) -> anyhow::Result<ExitCode> {
    let pids = match &args.command {
        Some(name) => {
            let who = Selection::Command { name: name.clone(), owner: Owner::own(), tree: true };
            who.pids(root)?.into_iter().collect()
        }
        None => args.pids.clone(),
    };
    if pids.is_empty() && args.every.is_none() {
        let name = args.command.clone().unwrap_or_default();
        let hint = "`ps -o pid,comm` shows names; processes of other users are left alone";
        return Err(failure(format!("no process named {name:?} runs"), hint));
    }
    let results = gatherer.round(&pids, &cancel::requested)?;
    let alone = results.len() == 1 && args.every.is_none();
    let (mut all, mut failed) = (Vec::new(), false);
    for (pid, result) in results {
        match result {
            Ok(numbers) => all.push(Gathered { pid, numbers }),
            Err(error) if alone => return Err(error),
            Err(error) => {
                failed = true;
                note(&format!("{pid}: {}", errors::text(&error)));
            }
        }
    }
    if args.json {
        output::text(&output::envelope(&all)?)?;
    } else {
        for Gathered { pid, numbers } in &all {
            let who = if alone { String::new() } else { format!("{pid}: ") };
            output::text(&format!("{who}{}\n", consolidation::text(numbers)))?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn say_what_would_be_done(target: &Target, library: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let thread = inject::look(target, library)?;
    if json {
        let found = serde_json::json!({ "library": library, "thread": thread });
        output::text(&output::envelope(&[&found])?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let who = match thread {
        Some(thread) => format!("thread {thread}, which waits,"),
        None => format!("the first thread that waits, within {} s,", THREAD_TIMEOUT.as_secs()),
    };
    let (library, pid) = (library.display(), target.pid());
    output::text(&format!(
        "dry run: {who} would load {library} into process {pid}; it would stay there, look which \
         pages are hot, and gather them\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}
