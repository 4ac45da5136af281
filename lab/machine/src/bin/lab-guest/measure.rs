//! Measurement of what the guest spends between the lines `ready` and `done` of a program.

use anyhow::{Context, ensure};
use frostline_lab::measured::{DONE, Free, Measured, READY, Resident, Times, Watermarks};
use frostline_linux::lab::LabMemory;
use frostline_linux::{Root, process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Ticks of `/proc/PID/stat` in a second (`USER_HZ`).
const TICKS: f64 = 100.0;

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
            let Ok(stat) = process::stat(root, pid) else { continue };
            let sum = times.entry(stat.comm.raw().to_owned()).or_default();
            sum.user_seconds += stat.user_ticks as f64 / TICKS;
            sum.system_seconds += (stat.cpu_ticks - stat.user_ticks) as f64 / TICKS;
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
        Measured {
            seconds,
            counters: counters.collect(),
            times: times.collect(),
            ..Measured::default()
        }
    }
}

/// Of every process that has memory, where it is.
fn resident(root: &Root) -> anyhow::Result<BTreeMap<String, Resident>> {
    let mut all = BTreeMap::new();
    for pid in process::pids(root)? {
        let read = |file: &str| root.read(format!("/proc/{pid}/{file}"));
        // It may have ended since; the kernel's own have none.
        let (Ok(stat), Ok(maps)) = (process::stat(root, pid), read("numa_maps")) else { continue };
        let found = Resident::parse(&maps, &read("smaps_rollup").unwrap_or_default());
        if found != Resident::default() {
            all.insert(stat.comm.raw().to_owned(), found);
        }
    }
    Ok(all)
}

/// Runs the command; its exit code is ours.
pub fn run(root: &Root, memory: &LabMemory, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let (program, rest) = command.split_first().context("no command")?;
    let free = || anyhow::Ok(Free::parse(&root.read("/proc/buddyinfo")?, 0));
    let free_before = free()?;
    let watermarks = Watermarks::parse(&root.read("/proc/zoneinfo")?, 0);
    let mut child = Command::new(program).args(rest).stderr(Stdio::piped()).spawn()?;
    let stderr = child.stderr.take().context("standard error")?;
    let (mut ready, mut done) = (None, None);
    let (mut there, mut free_ready) = (BTreeMap::new(), Free::default());
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        match &*line {
            "ready" => {
                there = resident(root)?;
                free_ready = free()?;
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
    let measured = Measured {
        resident: there,
        free_before,
        free: free_ready,
        watermarks,
        ..done.since(&ready)
    };
    println!("measured {}", measured.to_json()?);
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}
