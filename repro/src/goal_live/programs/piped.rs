//! Programs that read numbers: so many units are asked for by a line.

use super::work::{Owned, Work, pinned};
use crate::validate::programs::h2::{self, TABLE};
use crate::validate::programs::recipe::missing_program;
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

const FRAME: &str = include_str!("frame.py");
const SQUEEZE: &str = include_str!("squeeze.py");
const SESSIONS: &str = include_str!("sessions.js");

/// A program with both ends of its pipes.
#[derive(Debug)]
pub struct Piped {
    child: Owned,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Line that asks for a number of units.
    ask: fn(u64) -> String,
}

impl Piped {
    pub fn start(
        command: &mut Command,
        dir: &Path,
        ask: fn(u64) -> String,
    ) -> anyhow::Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Owned::start(command, dir)?;
        let input = child.0.stdin.take().context("no pipe")?;
        let output = BufReader::new(child.0.stdout.take().context("no pipe")?);
        Ok(Self { child, input, output, ask })
    }

    /// Waits for a line.
    pub fn hear(&mut self, expected: &str) -> anyhow::Result<()> {
        let mut line = String::new();
        while line.trim() != expected {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                bail!("the program has ended");
            }
        }
        Ok(())
    }

    pub fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.input.write_all(text.as_bytes()).context("the program does not listen")
    }
}

impl Work for Piped {
    fn pid(&self) -> u32 {
        self.child.0.id()
    }

    fn work(&mut self, units: u64) -> anyhow::Result<()> {
        self.say(&(self.ask)(units))?;
        self.hear("done")
    }
}

fn number(units: u64) -> String {
    format!("{units}\n")
}

fn ready(command: &mut Command, dir: &Path) -> anyhow::Result<Piped> {
    let mut piped = Piped::start(command, dir, number)?;
    piped.hear("ready")?;
    Ok(piped)
}

pub fn node(dir: &Path) -> anyhow::Result<Piped> {
    let script = dir.join("sessions.js");
    std::fs::write(&script, SESSIONS)?;
    // Garbage is collected when the program says so, and not before.
    let mut node = pinned("node");
    ready(
        node.args(["--expose-gc", "--initial-old-space-size=4096"]).arg(script).arg("250000"),
        dir,
    )
}

pub fn xz(dir: &Path) -> anyhow::Result<Piped> {
    let script = dir.join("squeeze.py");
    std::fs::write(&script, SQUEEZE)?;
    ready(pinned("python3").arg(script).arg("8"), dir)
}

/// Python of a virtual environment, where pandas need not be in the system's.
fn python() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    Some(home.join(".cache/frostline/venv/bin/python"))
}

pub fn no_pandas() -> Option<String> {
    let python = python()?;
    let imports = Command::new(&python).args(["-c", "import pandas"]).output();
    (!imports.is_ok_and(|output| output.status.success())).then(|| {
        let venv = "$HOME/.cache/frostline/venv";
        format!("pandas is not there: python3 -m venv {venv} && {venv}/bin/pip install pandas")
    })
}

pub fn pandas(dir: &Path) -> anyhow::Result<Piped> {
    let script = dir.join("frame.py");
    std::fs::write(&script, FRAME)?;
    ready(pinned(python().context("HOME is not set")?).arg(script).arg("8000000"), dir)
}

pub fn no_h2() -> Option<String> {
    h2::missing().or_else(|| missing_program("taskset", "util-linux"))
}

pub fn h2(dir: &Path) -> anyhow::Result<Piped> {
    let words = TABLE.asked(512, 600_000).command(dir)?;
    let (java, arguments) = words.split_first().context("no command")?;
    ready(pinned(java).args(arguments), dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_works_when_asked_and_its_end_is_noticed() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = "echo ready; while read n; do [ $n = 3 ] && exit; echo noise; echo done; done";
        let mut command = Command::new("sh");
        let mut piped = ready(command.args(["-c", script]), dir.path()).expect("it starts");
        assert!(piped.work(1).is_ok() && piped.work(2).is_ok());
        assert!(piped.work(3).is_err());
        let mut command = Command::new("sh");
        assert!(ready(command.args(["-c", "exit 1"]), dir.path()).is_err());
    }
}
