//! Runs a program and measures what the guest spends between its lines `ready` and `done`.

use anyhow::{Context, ensure};
use frostline_lab::measured::{Measured, Times};
use frostline_linux::lab::LabMemory;
use frostline_linux::{Root, process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Ticks of `/proc/PID/stat` in a second (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Marks of the machine's counts.
const READY: u64 = 1;
const DONE: u64 = 2;

/// A moment.
struct Moment {
    at: Instant,
    counters: BTreeMap<String, u64>,
    times: BTreeMap<String, Times>,
}

impl Moment {
    fn now(root: &Root) -> anyhow::Result<Self> {
        let text = root.read("/proc/vmstat")?;
        let counters = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        let mut times = BTreeMap::<String, Times>::new();
        for pid in process::pids(root)? {
            // It may have ended since.
            let Ok(stat) = root.read(format!("/proc/{pid}/stat")) else { continue };
            let Some((comm, user, system)) = times_of(&stat) else { continue };
            let sum = times.entry(comm.to_owned()).or_default();
            sum.user_seconds += user as f64 / TICKS;
            sum.system_seconds += system as f64 / TICKS;
        }
        Ok(Self { at: Instant::now(), counters: counters.collect(), times })
    }

    fn since(&self, before: &Self) -> Measured {
        let counters = self.counters.iter().filter_map(|(name, value)| {
            let grown = value.saturating_sub(*before.counters.get(name)?);
            (grown > 0).then(|| (name.clone(), grown))
        });
        let times = self.times.iter().filter_map(|(name, now)| {
            let grown = now.since(before.times.get(name).copied().unwrap_or_default());
            (grown.all() > 0.0).then(|| (name.clone(), grown))
        });
        let seconds = (self.at - before.at).as_secs_f64();
        Measured { seconds, counters: counters.collect(), times: times.collect() }
    }
}

/// Name, and ticks in user and system mode, of `/proc/PID/stat` (proc_pid_stat(5)).
fn times_of(stat: &str) -> Option<(&str, u64, u64)> {
    let comm = stat.get(stat.find('(')? + 1..stat.rfind(')')?)?;
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ').skip(11);
    Some((comm, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Runs the command; its exit code is ours.
pub fn run(root: &Root, memory: &LabMemory, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let (program, rest) = command.split_first().context("no command")?;
    let mut child = Command::new(program).args(rest).stderr(Stdio::piped()).spawn()?;
    let stderr = child.stderr.take().context("standard error")?;
    let (mut ready, mut done) = (None, None);
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        match &*line {
            "ready" => {
                memory.mark(READY);
                ready = Some(Moment::now(root)?);
            }
            "done" => {
                memory.mark(DONE);
                done = Some(Moment::now(root)?);
            }
            other => eprintln!("{other}"),
        }
    }
    let status = child.wait()?;
    let (Some(ready), Some(done)) = (ready, done) else {
        ensure!(!status.success(), "the program said neither `ready` nor `done`");
        eprintln!("{}: {status}", program.display());
        return Ok(ExitCode::FAILURE);
    };
    println!("measured {}", done.since(&ready).to_json()?);
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_shift_fields() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 31 42 0 0 20";
        assert_eq!(times_of(stat), Some(("a) b (c", 31, 42)));
        assert_eq!(times_of("7 (x"), None);
    }
}
