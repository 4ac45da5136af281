//! `frostline run`: runs a program with less fast memory.

use crate::live::inside::{Agent, Inside};
use crate::live::options::Tiering;
use crate::live::session::Session;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_driver::Selection;
use frostline_linux::Root;
use frostline_linux::changes::Changes;
use frostline_linux::process::delays::DelayAccounting;
use frostline_record::{CtrlC, Running};
use frostline_terminal::errors::{failure, with_code};
use frostline_terminal::progress::note;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

/// What `--help` says first.
pub const LONG: &str = "\
Runs PROGRAM and keeps its hot pages in fast memory, the others in a slower tier. The program is \
not modified, and neither is the kernel. However frostline ends, the program goes on unharmed.

The exit code is the program's own, or 128 + the number of the signal that killed it; 125 where \
frostline failed before the program ran, 126 where the program cannot be executed, 127 where it \
is not there.

Signals that others send to frostline are passed on to the program, one for one. Ctrl-C at the \
terminal reaches it by itself, and frostline stays until it has ended.";

const SHORT: &str = "\
Examples:
  frostline run --fast 40% -- redis-server
  frostline run --dry-run -- sort big.txt";

const EXAMPLES: &str = "\
Examples:
  frostline run --fast 40% -- redis-server
  frostline run --policy memtis --slow zram:size=8GiB --fast 2GiB -- ./server --port 8000
  frostline run --slow node:1 --fast 1:2 --journal j -- make -j4
  frostline run --fast 2GiB --slow node:1 --limit node:1=4GiB --slow zram -- ./server
  frostline run --dry-run -- sort big.txt
  frostline run --in-process --policy hybridtier --fast 1:8 -- ./server
  frostline run --consolidate -- ./server";

#[derive(clap::Args)]
#[command(after_help = SHORT, after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    tiering: Tiering,
    /// Leave the programs that PROGRAM starts alone
    #[arg(long)]
    no_children: bool,
    /// Have the program tier itself, by a preloaded library
    ///
    /// One thread of the library does the work, without rights to look into others. A dry run prints
    /// how.
    #[arg(long)]
    in_process: bool,
    /// That library [default: what FROSTLINE_AGENT names, or libfrostline_agent.so beside frostline
    /// or in ../lib]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    agent: Option<PathBuf>,
    /// Have the program gather its hot base pages in few regions of 2 MiB
    ///
    /// It does so from inside. Regions with fewer hot pages than that (1 to 512) are emptied of them;
    /// auto, as their distribution suggests. Without --in-process nothing else is done: the program
    /// is not tiered.
    #[arg(long, value_name = "PAGES", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "auto", value_parser = ConsolidationLimit::parse)]
    consolidate: Option<ConsolidationLimit>,
    /// The program to run, and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// Where the program cannot be started, or what was asked for makes no sense.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::system();
    // Better said before the program runs.
    let (options, _) = args.tiering.resolve(&root)?;
    let (program, rest) = args.command.split_first().expect("clap demands one");
    let name = program.to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command.args(rest);
    if args.in_process || args.consolidate.is_some() {
        let agent = Agent::find(args.agent.as_deref())?;
        let inside = match args.in_process {
            true => Inside::new(&root, &args.tiering, agent, !args.no_children)?,
            false => Inside::without_tiering(&args.tiering, agent, !args.no_children)?,
        };
        let inside = inside.consolidate(args.consolidate, options.cpu_limit.clone());
        if args.tiering.dry_run {
            return inside.explain(&args.command);
        }
        return run_inside(&root, inside, command, &name);
    }
    if args.agent.is_some() {
        let hint = "give --in-process or --consolidate, too";
        return Err(failure("--agent names the library for what is done from inside", hint));
    }
    // The kernel times no refaults of threads that begin before it is told to.
    let changes = options.moves().then(|| Changes::of_this_process(&root));
    let timing =
        changes.map(|changes| changes.and_then(|changes| DelayAccounting::begin(&changes)));
    let program = start(&mut command, &name)?;
    let who = Selection::Process { pid: program.id(), tree: !args.no_children };
    match Session::begin(&root, &args.tiering, who, &name) {
        Ok(session) => tend(session, &program)?,
        // There was nothing left to do.
        Err(_) if program.has_ended() => {}
        Err(error) => note(&format!("{name} runs without tiering: {error:#}")),
    }
    drop(timing);
    Ok(code_of(program.wait()?))
}

fn start(command: &mut Command, name: &str) -> anyhow::Result<Running> {
    Running::start(command, CtrlC::IsTheirs).map_err(|error| {
        let (code, hint) = match error.kind() {
            ErrorKind::NotFound => (127, "is it installed, and its folder in PATH?"),
            _ => (126, "is it executable? (chmod +x)"),
        };
        with_code(code, format!("cannot run {name}: {error}"), hint)
    })
}

/// The program tiers itself: waits for its end, says what came of it, and undoes what was set up.
fn run_inside(
    root: &Root,
    inside: Inside,
    mut command: Command,
    name: &str,
) -> anyhow::Result<ExitCode> {
    let mut prepared = inside.set_up(root, &mut command);
    if let Err(error) = &prepared {
        note(&format!("{name} runs without tiering: {error:#}"));
    }
    let started = start(&mut command, name);
    let waited = started.and_then(|program| {
        let pid = program.id();
        if let Ok(prepared) = &mut prepared
            && let Err(error) = prepared.follow(&program)
        {
            note(&format!("the series ends here, the program goes on: {error:#}"));
        }
        Ok((pid, program.wait()?))
    });
    if let Ok(prepared) = prepared {
        let told = prepared.end(root, name, waited.as_ref().ok().map(|(pid, _)| *pid));
        // The program's own end counts.
        told.unwrap_or_else(|error| note(&format!("{error:#}")));
    }
    Ok(code_of(waited?.1))
}

/// Drives until the program has ended.
fn tend(mut session: Session, program: &Running) -> anyhow::Result<()> {
    loop {
        match session.step() {
            Ok(pause) => std::thread::sleep(pause.max(Duration::from_millis(1))),
            Err(error) => {
                note(&format!("tiering has stopped, the program goes on: {error:#}"));
                session.give_up();
                return Ok(());
            }
        }
        if program.has_ended() {
            return session.end();
        }
    }
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
