//! Programs that do a given number of units of work when asked: servers, and scripts that read numbers.

mod piped;
mod postgres;
mod servers;

use crate::validate::programs::recipe::missing_program;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that runs and has loaded its data.
pub trait Work: Send {
    /// Process that frostline attaches to.
    fn pid(&self) -> u32;

    /// Does so many units, and comes back when all are done.
    ///
    /// # Errors
    /// Where the program has ended or answers otherwise than expected.
    fn work(&mut self, units: u64) -> anyhow::Result<()>;
}

/// A program by name.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    /// Data and requests, in a few words.
    pub about: &'static str,
    /// What is not installed, and the command that installs it.
    pub missing: fn() -> Option<String>,
    /// Starts one with its files in an empty folder.
    pub start: fn(&Path) -> anyhow::Result<Box<dyn Work>>,
}

/// All programs.
pub static ALL: &[Program] = &[
    Program {
        name: "redis",
        about: "300 000 values of 1 KiB, 60 % of them by Zipf's law, the others hardly read",
        missing: || missing_program("redis-server", "redis-server"),
        start: |dir| Ok(Box::new(servers::redis(dir, Some(0.99))?)),
    },
    Program {
        name: "redis-uniform",
        about: "300 000 values of 1 KiB, all alike",
        missing: || missing_program("redis-server", "redis-server"),
        start: |dir| Ok(Box::new(servers::redis(dir, None)?)),
    },
    Program {
        name: "memcached",
        about: "300 000 values of 1 KiB, 60 % of them by Zipf's law, the others hardly read",
        missing: || missing_program("memcached", "memcached"),
        start: |dir| Ok(Box::new(servers::memcached(dir)?)),
    },
    Program {
        name: "postgresql",
        about: "1.5 M accounts in 300 MiB of shared buffers",
        missing: postgres::missing,
        start: |dir| Ok(Box::new(postgres::start(dir)?)),
    },
    Program {
        name: "h2",
        about: "600 000 accounts in a Java heap, Zipf",
        missing: piped::no_h2,
        start: |dir| Ok(Box::new(piped::h2(dir)?)),
    },
    Program {
        name: "pandas",
        about: "orders of a year, recent days first",
        missing: piped::no_pandas,
        start: |dir| Ok(Box::new(piped::pandas(dir)?)),
    },
    Program {
        name: "node",
        about: "250 000 sessions, Zipf",
        missing: || missing_program("node", "nodejs"),
        start: |dir| Ok(Box::new(piped::node(dir)?)),
    },
    Program {
        name: "xz",
        about: "liblzma, preset 8",
        missing: || missing_program("python3", "python3"),
        start: |dir| Ok(Box::new(piped::xz(dir)?)),
    },
];

/// A child that is killed when it goes out of scope.
#[derive(Debug)]
struct Owned(Child);

impl Owned {
    /// Starts it on the last core, with what it says in `dir`.
    fn start(command: &mut Command, dir: &Path) -> anyhow::Result<Self> {
        let said = std::fs::File::create(dir.join("said"))?;
        let child = command.stderr(Stdio::from(said)).spawn();
        Ok(Self(child.with_context(|| format!("cannot start {command:?}"))?))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program on the last core, which those that are compared take in turn; the client has the others.
fn pinned(program: impl Into<PathBuf>) -> Command {
    let core = std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program.into());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}
