//! `frostline run`: runs a program with less fast memory.

use crate::errors::with_code;
use crate::live::options::Tiering;
use crate::live::session::Session;
use crate::progress::note;
use frostline_driver::Selection;
use frostline_linux::Root;
use frostline_record::Forwarder;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

/// What `--help` says first.
pub const LONG: &str = "\
Runs PROGRAM and keeps its hot pages in fast memory, the others in a slower tier. The program is \
not modified, and neither is the kernel. However frostline ends, the program goes on unharmed.

The exit code is the program's own, or 128 + the number of the signal that killed it; 125 where \
frostline failed before the program ran, 126 where the program cannot be executed, 127 where it \
is not there.";

const EXAMPLES: &str = "\
Examples:
  frostline run --fast 40% -- redis-server
  frostline run --policy memtis --slow zram:size=8GiB --fast 2GiB -- ./server --port 8000
  frostline run --slow node:1 --fast 1:2 --journal j -- make -j4
  frostline run --fast 2GiB --slow node:1 --limit node:1=4GiB --slow zram -- ./server
  frostline run --dry-run -- sort big.txt";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    tiering: Tiering,
    /// Leave the programs that PROGRAM starts alone
    #[arg(long)]
    no_children: bool,
    /// The program to run, and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// Where the program cannot be started, or what was asked for makes no sense.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::system();
    // Better said before the program runs.
    args.tiering.resolve(&root)?;
    let (program, rest) = args.command.split_first().expect("clap demands one");
    let name = program.to_string_lossy().into_owned();
    let mut child = Command::new(program).args(rest).spawn().map_err(|error| {
        let (code, hint) = match error.kind() {
            ErrorKind::NotFound => (127, "is it installed, and its folder in PATH?"),
            _ => (126, "is it executable? (chmod +x)"),
        };
        with_code(code, format!("cannot run {name}: {error}"), hint)
    })?;
    let pid = rustix::process::Pid::from_child(&child);
    let forwarder = Forwarder::start(pid)?;
    let who = Selection::Process { pid: child.id(), tree: !args.no_children };
    match Session::begin(&root, &args.tiering, who, &name) {
        Ok(session) => tend(session, &mut child)?,
        // There was nothing left to do.
        Err(_) if ended(&child) => {}
        Err(error) => note(&format!("{name} runs without tiering: {error:#}")),
    }
    let status = child.wait()?;
    drop(forwarder);
    Ok(code_of(status))
}

/// Drives until the program has ended.
fn tend(mut session: Session, child: &mut Child) -> anyhow::Result<()> {
    loop {
        match session.step() {
            Ok(pause) => std::thread::sleep(pause.max(Duration::from_millis(1))),
            Err(error) => {
                note(&format!("tiering has stopped, the program goes on: {error:#}"));
                session.give_up();
                return Ok(());
            }
        }
        if ended(child) {
            return session.end();
        }
    }
}

/// Whether it has ended; it is not waited for, so that its number stays its own.
fn ended(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = rustix::process::Pid::from_child(child);
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
