//! `frostline attach`: tiers a program that runs already.

use crate::live::options::Tiering;
use crate::live::session::Session;
use frostline_driver::Selection;
use frostline_linux::Root;
use frostline_linux::groups::GroupName;
use frostline_terminal::cancel;
use frostline_terminal::errors::usage;
use frostline_terminal::progress::note;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `--help` says first.
pub const LONG: &str = "\
Keeps the hot pages of a running program, or of all programs of a cgroup, in fast memory, the \
others in a slower tier, until it ends or you press Ctrl-C. Either way the program goes on \
unharmed; pages that are in swap by then come back when they are touched.";

const SHORT: &str = "\
Examples:
  frostline attach 4711 --fast 40%
  frostline attach --cgroup system.slice/redis.service --fast 2GiB";

const EXAMPLES: &str = "\
Examples:
  frostline attach 4711 --fast 40%
  frostline attach --cgroup system.slice/redis.service --fast 2GiB
  frostline attach 4711 --slow none --seconds 60 --summary s.json";

#[derive(clap::Args)]
#[command(after_help = SHORT, after_long_help = EXAMPLES)]
pub struct Args {
    /// Number of the process
    #[arg(value_name = "PID", required_unless_present = "cgroup")]
    pid: Option<String>,
    /// Manage all processes of this control group instead: its name, or its folder
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    cgroup: Option<String>,
    /// Leave the processes that the process has started alone
    #[arg(long)]
    no_children: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    #[command(flatten)]
    tiering: Tiering,
}

fn process(text: &str) -> anyhow::Result<u32> {
    text.parse().map_err(|_| {
        usage(format!("'{text}' is no number of a process"), format!("`pidof {text}` tells it"))
    })
}

/// Runs the command.
///
/// # Errors
/// Where there is no such target, or rights are missing.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (who, name) = match (args.pid, args.cgroup) {
        (Some(pid), _) => {
            let pid = process(&pid)?;
            (Selection::Process { pid, tree: !args.no_children }, format!("process {pid}"))
        }
        (None, Some(text)) => {
            let group = GroupName::parse(&text)?;
            let name = format!("cgroup {group}");
            (Selection::Cgroup(group), name)
        }
        (None, None) => return Err(usage("no target", "give a PID or --cgroup PATH")),
    };
    let limit = args.seconds.map(Duration::try_from_secs_f64).transpose();
    let limit = limit.map_err(|_| usage("--seconds is no length of time", "give 60"))?;
    cancel::install()?;
    let began = Instant::now();
    let mut session = Session::begin(&Root::system(), &args.tiering, who, &name)?;
    note(&format!("{name} is managed; Ctrl-C ends that"));
    loop {
        let pause = match session.step() {
            Ok(pause) => pause,
            Err(error) => {
                session.give_up();
                return Err(error);
            }
        };
        let over = limit.is_some_and(|limit| began.elapsed() >= limit);
        if over || cancel::requested() || session.is_idle() {
            session.end()?;
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(pause.max(Duration::from_millis(1)));
    }
}
