//! Programs that work when asked, and their processes.

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

/// A child that is killed when it goes out of scope.
#[derive(Debug)]
pub struct Owned(pub Child);

impl Owned {
    /// Starts it on the last core, with what it says in `dir`.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn start(command: &mut Command, dir: &Path) -> anyhow::Result<Self> {
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
pub fn pinned(program: impl Into<PathBuf>) -> Command {
    let core = std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program.into());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}
