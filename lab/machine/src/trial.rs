//! One program under one system, in a machine of its own.

use crate::measured::{DONE, Free, Measured, READY, Resident, Watermarks};
use crate::programs::Program;
use crate::systems::System;
use crate::truth::{Counts, Truth};
use anyhow::{Context, bail};
use frostline_guest::{Guest, LabOptions, Outcome, program};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const PAGE: u64 = 4096;
/// A program that this machine must have.
const REDIS: &str = "redis-server";
const CLIENT: &str = "lab-program";

/// What came out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trial {
    /// Program.
    pub program: String,
    /// System.
    pub system: String,
    /// Seed.
    pub seed: u64,
    /// Accesses of the program to memory while it worked.
    pub accesses: u64,
    /// Share of them that node 0 served.
    pub fast_hit_ratio: f64,
    /// The same in the second half of the time.
    pub fast_hit_ratio_late: f64,
    /// Modelled time of the work, in seconds.
    pub seconds: f64,
    /// Bytes that the kernel has moved between nodes.
    pub moved_bytes: u64,
    /// Processor time of everything but the program's own instructions, in seconds.
    pub tiering_seconds: f64,
    /// Accesses of the program to memory before that.
    pub accesses_before: u64,
    /// Where its memory was when the work began.
    pub resident: Resident,
    /// What was free in node 0 before the program began.
    pub free_before: Free,
    /// And when the work began.
    pub free: Free,
    /// Where the kernel begins to make room in node 0.
    pub watermarks: Watermarks,
    /// Of every quarter of a second of the work: when it ended, in seconds since the work began,
    /// and the share of accesses in it that node 0 served.
    pub series: Vec<(f64, f64)>,
    /// Frostline's own summary of its whole run; none under the kernel's systems.
    pub driver: Option<serde_json::Value>,
}

/// Boots the machine and runs it.
///
/// # Errors
/// What went wrong in the guest, or that there can be none.
pub fn run(work: Program, system: &System, seed: u64, lab: LabOptions) -> anyhow::Result<Trial> {
    let lab = LabOptions { seed, interval_ms: 250, ..lab };
    let mut guest =
        Guest::default().lab(lab).memory_mib(work.fast_mib, work.slow_mib).timeout_s(1800);
    if work.comm == REDIS {
        guest = guest.file(installed(REDIS)?);
    }
    for name in ["frostline", "frostline-load", "lab-guest", "lab-program"] {
        guest = guest.file(program(name).map_err(anyhow::Error::msg)?);
    }
    let script = format!(
        "{}wrap= background=\nlab-guest publish || exit 1\nstart\nseed={seed}\n\
         lab-guest measure -- $wrap {}\ncode=$?\n[ -z \"$background\" ] || kill $background\n\
         lab-guest end\nexit $code\n",
        system.script(seed),
        work.command,
    );
    let report = match guest.run(&script) {
        Outcome::Ran(report) => report,
        Outcome::Impossible(reason) | Outcome::Failed(reason) => bail!(reason),
    };
    let what = || format!("{} under {}, seed {seed}", work.name, system.name);
    if report.code != 0 {
        bail!("{}: exit code {}\n{}{}", what(), report.code, report.stdout, report.stderr);
    }
    let measured = Measured::find(&report.stdout)
        .with_context(|| format!("{}: nothing was measured\n{}", what(), report.stdout))?;
    let truth = Truth::parse(&report.truth()).with_context(what)?;
    let ready = truth.at_mark(work.comm, READY);
    let done = truth.at_mark(work.comm, DONE);
    let worked = done - ready;
    anyhow::ensure!(worked.all() > 0, "{}: no access was counted", what());
    let driver = match std::fs::read_to_string(report.file("summary.json")) {
        Ok(text) => Some(serde_json::from_str(&text).with_context(what)?),
        Err(_) if !system.is_ours() => None,
        Err(error) => bail!(
            "{}: frostline left no summary: {error}\n{}{}",
            what(),
            report.stdout,
            report.stderr
        ),
    };
    // A server has a client, which is one of our programs.
    let own = |comm: &str| measured.times.get(comm).map_or(0.0, |times| times.user_seconds);
    let own = own(work.comm) + if work.comm == REDIS { own(CLIENT) } else { 0.0 };
    let all: f64 = measured.times.values().map(|times| times.all()).sum();
    Ok(Trial {
        program: work.name.to_owned(),
        system: system.name.clone(),
        seed,
        accesses: worked.all(),
        fast_hit_ratio: worked.fast_share(),
        fast_hit_ratio_late: (done - middle(&truth, work.comm, done, ready)).fast_share(),
        seconds: measured.seconds,
        moved_bytes: measured.counter("pgmigrate_success") * PAGE,
        tiering_seconds: all - own,
        accesses_before: ready.all(),
        resident: measured.resident.get(work.comm).cloned().unwrap_or_default(),
        free_before: measured.free_before,
        free: measured.free,
        watermarks: measured.watermarks,
        series: series(&truth, work.comm),
        driver,
    })
}

/// A program of this machine's.
fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file());
    found.with_context(|| {
        format!("this machine has no {name}\nhint: as root: apt-get install {name}")
    })
}

fn series(truth: &Truth, comm: &str) -> Vec<(f64, f64)> {
    let points = truth.between(comm, READY, DONE);
    let mut before = truth.at_mark(comm, READY);
    let begin = truth.lines.iter().find(|line| line.mark == READY).map_or(0, |line| line.time_ns);
    let share = |(time_ns, counts): (u64, Counts)| {
        let worked = counts - std::mem::replace(&mut before, counts);
        (time_ns.saturating_sub(begin) as f64 / 1e9, worked.fast_share())
    };
    points.into_iter().map(share).collect()
}

/// Counts when half of the accesses were made.
fn middle(truth: &Truth, comm: &str, done: Counts, ready: Counts) -> Counts {
    let half = ready.all() + (done - ready).all() / 2;
    let series = truth.between(comm, READY, DONE);
    series.iter().map(|(_, counts)| *counts).find(|counts| counts.all() >= half).unwrap_or(ready)
}
