//! Senpai's rule: a control group is made to reclaim a little of its memory as long as its program waits less for memory
//! than it may. Which pages go is the kernel's choice.
//!
//! From Weiner et al., "TMO: Transparent Memory Offloading in Datacenters" (ASPLOS '22), section 3.3: so much of the group
//! as `RATIO * (1 - pressure / goal)`. There the ratio is 0.05 % every 6 s and the goal 0.1 %. Here it is 1 % every
//! second, the fastest that frostline goes, so that both settle in the same time, and the goal is the slowdown that is
//! accepted. Pressure is the time in refaults over the last 6 s, by the kernel's accounts of delays: control groups of
//! version 1 have none of their own.

use super::attendant::Line;
use anyhow::{Context, bail};
use frostline_core::types::{Bytes, Nanos};
use frostline_linux::Root;
use frostline_linux::changes::{Changes, SwapOff};
use frostline_linux::process::delays::{DelayAccounting, Delays};
use frostline_linux::swap::zram::{Zram, ZramOptions};
use frostline_terminal::errors::failure;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Hierarchy of version 1 in which memory is limited.
const HIERARCHY: &str = "/sys/fs/cgroup/memory";
const LIMIT: &str = "memory.limit_in_bytes";
/// Part of the memory that is reclaimed in a second where nothing is waited for.
const RATIO: f64 = 0.01;
/// Seconds over which pressure is a mean.
const WINDOW: usize = 6;
/// Seconds of the loss that is told.
const TOLD: usize = 30;
const ROOM: Bytes = Bytes(4 << 30);

/// A control group of version 1 for one program; it is removed when it goes out of scope.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    /// Refaults are timed of threads that begin while this is there.
    _timing: DelayAccounting,
}

impl Group {
    /// # Errors
    /// Without rights, or without such a hierarchy.
    pub fn create() -> anyhow::Result<Self> {
        let path = Path::new(HIERARCHY).join(format!("frostline-goal-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| {
            let what = format!("no control group {}: {error}", path.display());
            failure(what, "Senpai's rule needs the memory controller of version 1, and root")
        })?;
        let changes = Changes::of_this_process(&Root::system())?;
        match DelayAccounting::begin(&changes) {
            Ok(timing) => Ok(Self { path, _timing: timing }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(error.into())
            }
        }
    }

    /// This thread, and what it starts from now on, belongs to it.
    fn enter(&self) -> anyhow::Result<()> {
        self.write("tasks", "0")
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path.join(file);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    fn usage(&self) -> anyhow::Result<f64> {
        let path = self.path.join("memory.usage_in_bytes");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.trim().parse()?)
    }

    /// Has the kernel reclaim so much, as far as it finds it.
    fn reclaim(&self, bytes: f64) -> anyhow::Result<()> {
        let wanted = (self.usage()? - bytes).max(0.0) as u64;
        // Busy: less was found.
        let _ = fs::write(self.path.join(LIMIT), wanted.to_string());
        self.write(LIMIT, "-1")
    }

    /// Runs what is to be in it in a thread of its own.
    pub fn within<T: Send>(
        group: Option<&Self>,
        start: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                group.map_or(Ok(()), Self::enter)?;
                start()
            });
            inside.join().unwrap_or_else(|_| bail!("the start failed"))
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A killed program leaves it some milliseconds later.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Bytes to be reclaimed at that pressure.
fn wanted(memory: f64, pressure: f64, goal: f64) -> f64 {
    memory * RATIO * (1.0 - pressure / goal).max(0.0)
}

/// A thread that keeps to the rule.
pub struct Senpai {
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    ends: Arc<AtomicBool>,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Senpai {
    /// # Errors
    /// Without zram, or accounts of delays.
    pub fn start(group: Arc<Group>, pid: u32, goal: f64) -> anyhow::Result<Self> {
        let changes = Changes::of_this_process(&Root::system())?;
        let delays = DelayAccounting::begin(&changes)?;
        let zram = Zram::create(&changes, &ZramOptions { size: ROOM, algorithm: None })?;
        let (ends, lines) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let rule = Rule { group, pid, goal, delays, zram, changes, seconds: VecDeque::new() };
        let (told, until) = (Arc::clone(&lines), Arc::clone(&ends));
        let thread = std::thread::spawn(move || rule.go_on(&until, &told));
        Ok(Self { thread: Some(thread), ends, lines })
    }

    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => {
                join(thread)?;
                bail!("it has ended")
            }
            None => Ok(()),
        }
    }

    pub fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn stop(mut self) -> anyhow::Result<Vec<Line>> {
        self.check()?;
        let lines = self.lines();
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), join)?;
        Ok(lines)
    }
}

impl Drop for Senpai {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map_or(Ok(()), join);
    }
}

fn join(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| bail!("a thread has failed"))
}

/// What a second has cost.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    useful: f64,
    lost: f64,
}

struct Rule {
    group: Arc<Group>,
    pid: u32,
    goal: f64,
    delays: DelayAccounting,
    zram: Zram,
    changes: Changes,
    seconds: VecDeque<Second>,
}

impl Rule {
    fn go_on(mut self, ends: &AtomicBool, lines: &Mutex<Vec<Line>>) -> anyhow::Result<()> {
        let done = self.keep(ends, lines);
        self.changes.release(SwapOff::WhenItFits)?;
        done
    }

    fn keep(&mut self, ends: &AtomicBool, lines: &Mutex<Vec<Line>>) -> anyhow::Result<()> {
        let mut before = self.delays.of(self.pid)?;
        while !ends.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.delays.of(self.pid)?;
            self.note(now, before);
            before = now;
            let memory = self.group.usage()?;
            let began = own_cpu();
            self.group.reclaim(wanted(memory, self.loss(WINDOW), self.goal))?;
            let used = self.zram.usage()?;
            let line = Line {
                footprint: memory + used.original.0 as f64,
                saved: used.original.saturating_sub(used.memory).0 as f64,
                loss: self.loss(TOLD),
                cpu_share: own_cpu().saturating_sub(began).as_secs_f64(),
            };
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
        Ok(())
    }

    fn note(&mut self, now: Delays, before: Delays) {
        let lost = now.swap_in.saturating_sub(before.swap_in).as_secs_f64();
        let cpu = now.cpu.saturating_sub(before.cpu).as_secs_f64();
        self.seconds.push_front(Second { useful: (cpu - lost).max(0.0), lost });
        self.seconds.truncate(TOLD);
    }

    /// Share of the useful time that was lost in the last seconds.
    fn loss(&self, seconds: usize) -> f64 {
        let last = self.seconds.iter().take(seconds);
        let sum = last.fold(Second::default(), |sum, second| Second {
            useful: sum.useful + second.useful,
            lost: sum.lost + second.lost,
        });
        sum.lost / sum.useful.max(1e-3)
    }
}

/// Processor time of this thread.
fn own_cpu() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_reclaimed_the_nearer_pressure_is_to_the_goal() {
        assert!((wanted(1e9, 0.0, 0.02) - 1e7).abs() < 1.0);
        assert!((wanted(1e9, 0.01, 0.02) - 5e6).abs() < 1.0);
        assert_eq!(wanted(1e9, 0.03, 0.02), 0.0);
    }
}
