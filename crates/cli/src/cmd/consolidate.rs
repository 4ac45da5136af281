//! `frostline consolidate`: asks a program to gather its hot pages.

use crate::live::consolidation;
use crate::live::inside::Agent;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_driver::environment::AGENT_THREAD;
use frostline_inprocess::consolidate::Numbers;
use frostline_inprocess::consolidate::request::{self, Request};
use frostline_inprocess::inject::{self, Injected};
use frostline_linux::{Root, Target};
use frostline_terminal::errors::failure;
use frostline_terminal::output;
use frostline_terminal::progress::note;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `--help` says first.
pub const LONG: &str = "\
Asks a program to gather its hot base pages, which lie scattered, in few regions of 2 MiB, once. \
Its addresses stay. The pages can be moved from inside only: either it was started by `frostline run \
--consolidate` or `--in-process`, or --inject brings the library into it now, where it stays.";

const EXAMPLES: &str = "\
Examples:
  frostline consolidate 4711
  frostline consolidate 4711 --hot-pages 290 --json
  frostline consolidate 4711 --dry-run
  frostline consolidate 4711 --inject";

/// A look takes a second, and as long as the program keeps the thread from working.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for a thread that can be made to load the library.
const THREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether something has come.
const LOOK: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Process
    #[arg(value_name = "PID")]
    pid: u32,
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
/// Where the program has no agent, does not answer, or cannot do it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::system();
    let target = Target::open(&root, args.pid)?;
    check_user(&root, &target)?;
    let request = Request {
        pid: args.pid,
        start_ticks: target.identity().start_ticks,
        limit: args.hot_pages,
        dry_run: args.dry_run,
        number: std::process::id().into(),
    };
    let there = has_agent(&root, &target)?;
    if !there && !args.inject {
        return Err(failure(
            format!("process {} ({}) has no agent in it", args.pid, target.comm()?),
            "start it by `frostline run --consolidate -- ...`, or let --inject bring one into it",
        ));
    }
    let library = (!there).then(|| Agent::find(args.agent.as_deref())).transpose()?;
    if let Some(library) = library.as_ref().filter(|_| args.dry_run) {
        return say_what_would_be_done(&target, library.path(), args.json);
    }
    // Before the library is there: this is what it is to begin for.
    request::ask(&root, &request)?;
    let answer = library
        .map_or(Ok(()), |library| bring_in(&target, library.path()))
        .and_then(|()| wait_for_answer(&root, &target, &request));
    let numbers = answer.inspect_err(|_| request::forget(&root, args.pid))?;
    if let Some(why) = numbers.refused {
        anyhow::bail!(why);
    }
    if args.json {
        output::text(&output::envelope(&[&numbers])?)?;
    } else {
        output::text(&(consolidation::text(&numbers) + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Questions are files that only who has asked may remove.
fn check_user(root: &Root, target: &Target) -> anyhow::Result<()> {
    let own = Target::open(root, std::process::id())?;
    match target.user() {
        Some(theirs) if own.user() != Some(theirs) => Err(failure(
            format!(
                "process {} belongs to another user ({theirs}), and could not answer",
                target.pid()
            ),
            "have that user start it by `frostline run --consolidate -- ...`, which needs no questions",
        )),
        _ => Ok(()),
    }
}

fn has_agent(root: &Root, target: &Target) -> anyhow::Result<bool> {
    let pid = target.pid();
    let comm = |tid| root.read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    Ok(target
        .threads()?
        .into_iter()
        .any(|tid| comm(tid).trim_end().as_bytes() == AGENT_THREAD.to_bytes()))
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

fn bring_in(target: &Target, library: &Path) -> anyhow::Result<()> {
    match inject::inject(target, library, THREAD_TIMEOUT)? {
        Injected::Loaded => note("the library is in the program, and stays there"),
        Injected::LetGo => note("the program loads the library, which takes longer than usual"),
    }
    Ok(())
}

fn wait_for_answer(root: &Root, target: &Target, request: &Request) -> anyhow::Result<Numbers> {
    let began = Instant::now();
    loop {
        if let Some(numbers) = request::answered(root, request) {
            return Ok(numbers);
        }
        if began.elapsed() > TIMEOUT || !target.is_alive() {
            target.check_alive()?;
            return Err(failure(
                format!("the agent in process {} does not answer", target.pid()),
                "it looks again when the program has 4 MiB of memory, and must be allowed to write \
                 to /run/frostline",
            ));
        }
        std::thread::sleep(LOOK);
    }
}
