//! Tiering by the kernel alone, of one program, within the limit that frostline would have.

mod filler;
pub mod system;

use crate::control_group::ControlGroup;
use anyhow::Context;
use frostline_core::types::Bytes;
use frostline_daemon::Limit;
use frostline_linux::Root;
use frostline_linux::changes::{Changes, SwapOff};
use frostline_linux::process::delays::{DelayAccounting, Delays};
use frostline_terminal::cancel;
use frostline_terminal::progress::note;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use system::{AtWork, System, Taken};

/// Between two looks at the program.
const TICK: Duration = Duration::from_millis(100);
/// By which its end may be seen too late.
const STEP: Duration = Duration::from_millis(5);

/// What a run was like.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub system: String,
    /// As it was asked for.
    pub fast: String,
    /// Whether reclaim went by generations.
    pub generations: bool,
    /// Exit code, or 128 and the signal.
    pub exit: i32,
    pub seconds: f64,
    /// Memory in the fast tier in the mean, and at most.
    pub fast_bytes: f64,
    pub fast_bytes_most: u64,
    /// In the slow tier in the mean, and what of memory that takes, where it is compressed.
    pub slow_bytes: f64,
    pub compressed_bytes: f64,
    /// Refaults of the program's first process, and the time that they took.
    pub refaults: u64,
    pub refault_seconds: f64,
    /// Processor time of a kernel thread that does nothing but tiering; 0 where there is none.
    pub thread_cpu_seconds: f64,
}

/// Sums over time, in bytes and seconds: where the kernel is busy, looks are not equally far apart.
#[derive(Default)]
struct Sums {
    seconds: f64,
    fast: f64,
    slow: f64,
    compressed: f64,
    most: Bytes,
    delays: Delays,
}

impl Sums {
    fn add(&mut self, taken: Taken, lasted: Duration) {
        let seconds = lasted.as_secs_f64();
        self.seconds += seconds;
        self.fast += taken.fast.0 as f64 * seconds;
        self.slow += taken.slow.0 as f64 * seconds;
        self.compressed += taken.compressed.0 as f64 * seconds;
        self.most = self.most.max(taken.fast);
    }

    fn mean(&self, sum: f64) -> f64 {
        if self.seconds > 0.0 { sum / self.seconds } else { 0.0 }
    }
}

/// Runs a program under a system; the machine is as it was before, afterwards.
///
/// # Errors
/// Where the machine lacks something, without rights, where the program does not start, and after a Ctrl-C.
pub fn run(system: System, limit: Limit, program: &[OsString]) -> anyhow::Result<Report> {
    let changes = Changes::of_this_process(&Root::system())?;
    let done = attend(system, limit, program, &changes);
    let restored = changes.release(SwapOff::WhenItFits)?;
    for kept in &restored.kept {
        note(&format!("left: {}: {}", kept.what, kept.why));
    }
    done
}

fn attend(
    system: System,
    limit: Limit,
    program: &[OsString],
    changes: &Changes,
) -> anyhow::Result<Report> {
    let (first, arguments) = program.split_first().context("no program")?;
    let group = ControlGroup::create("kernel")?;
    let mut delays = DelayAccounting::begin(changes)?;
    let at_work = AtWork::set_up(system, limit, &group, changes)?;
    let mut child = Running(group.command(Path::new(first)).args(arguments).spawn()?);
    let began = Instant::now();
    let pid = child.0.id();
    let (mut sums, mut looked) = (Sums::default(), began);
    let exit = loop {
        // Before it is waited for, what is asked of it can be told.
        if let Ok(of_it) = delays.of(pid) {
            sums.delays = of_it;
        }
        if let Some(exit) = child.0.try_wait()? {
            break exit;
        }
        let taken = at_work.taken(&group)?;
        sums.add(taken, looked.elapsed());
        looked = Instant::now();
        at_work.keep(&group, taken);
        cancel::check()?;
        while looked.elapsed() < TICK && child.0.try_wait()?.is_none() {
            std::thread::sleep(STEP);
        }
    };
    Ok(Report {
        system: system.name().to_owned(),
        fast: limit.to_string(),
        generations: at_work.generations,
        exit: code(exit),
        seconds: began.elapsed().as_secs_f64(),
        fast_bytes: sums.mean(sums.fast),
        fast_bytes_most: sums.most.0,
        slow_bytes: sums.mean(sums.slow),
        compressed_bytes: sums.mean(sums.compressed),
        refaults: sums.delays.swap_ins,
        refault_seconds: sums.delays.swap_in.as_secs_f64(),
        thread_cpu_seconds: at_work.thread_cpu(changes.root()).as_secs_f64(),
    })
}

fn code(exit: ExitStatus) -> i32 {
    exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap_or(0))
}

/// A program, which is killed when this goes out of scope before it has ended.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_time_and_not_over_looks() {
        let taken = |fast| Taken { fast: Bytes(fast), ..Taken::default() };
        let mut sums = Sums::default();
        assert_eq!(sums.mean(sums.fast), 0.0);
        sums.add(taken(100), Duration::from_secs(1));
        sums.add(taken(20), Duration::from_secs(3));
        assert_eq!((sums.mean(sums.fast), sums.most), (40.0, Bytes(100)));
    }
}
