//! Senpai's rule: a control group is made to reclaim a little of its memory as long as its program waits less for memory
//! than it may. Which pages go is the kernel's choice.
//!
//! From Weiner et al., "TMO: Transparent Memory Offloading in Datacenters" (ASPLOS '22), section 3.3: so much of the group
//! as `RATIO * (1 - pressure / goal)`. There the ratio is 0.05 % every 6 s and the goal 0.1 %. Here it is 1 % every
//! second, the fastest that frostline goes, so that both settle in the same time, and the goal is the slowdown that is
//! accepted. Pressure is the time in refaults over the last 6 s, by the kernel's accounts of delays: control groups of
//! version 1 have none of their own.

use super::attached::LATEST;
use super::attendant::Line;
use crate::control_group::ControlGroup;
use anyhow::bail;
use frostline_core::types::Bytes;
use frostline_daemon::{Lost, Meter, Stretch};
use frostline_linux::Root;
use frostline_linux::changes::{Changes, SwapOff};
use frostline_linux::groups::Version;
use frostline_linux::process::clock::thread_cpu;
use frostline_linux::process::delays::{DelayAccounting, Delays};
use frostline_linux::swap::zram::{Zram, ZramOptions};
use frostline_terminal::errors::failure;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Part of the memory that is reclaimed in a second where nothing is waited for.
const RATIO: f64 = 0.01;
/// Seconds over which pressure is a mean.
const WINDOW: usize = 6;
const ROOM: Bytes = Bytes(4 << 30);

/// The program's control group, of version 1, whose threads may be in different ones.
#[derive(Debug)]
pub struct Group {
    group: ControlGroup,
    /// Refaults are timed of threads that begin while this is there.
    _timing: DelayAccounting,
}

impl Group {
    /// # Errors
    /// Without rights, or without such a hierarchy.
    pub fn create() -> anyhow::Result<Self> {
        let group = ControlGroup::create("goal")?;
        if group.version() != Version::One {
            let hint = "Senpai's rule needs the memory controller of version 1";
            return Err(failure("memory is limited by groups of version 2", hint));
        }
        let changes = Changes::of_this_process(&Root::system())?;
        Ok(Self { group, _timing: DelayAccounting::begin(&changes)? })
    }

    fn usage(&self) -> anyhow::Result<f64> {
        Ok(self.group.level()?.memory.used.0 as f64)
    }

    /// Has the kernel reclaim so much, as far as it finds it.
    fn reclaim(&self, bytes: f64) -> anyhow::Result<()> {
        let wanted = (self.usage()? - bytes).max(0.0) as u64;
        // Busy: less was found.
        let _ = self.group.limit(Some(Bytes(wanted)));
        self.group.limit(None)
    }

    /// Runs what is to be in it in a thread of its own.
    pub fn within<T: Send>(
        group: Option<&Self>,
        start: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                group.map_or(Ok(()), |group| group.group.write("tasks", "0"))?;
                start()
            });
            inside.join().unwrap_or_else(|_| bail!("the start failed"))
        })
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
        let rule = Rule { group, pid, goal, delays, zram, changes, meter: Meter::default() };
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
        self.end()?;
        Ok(lines)
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), join)
    }
}

impl Drop for Senpai {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn join(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| bail!("a thread has failed"))
}

struct Rule {
    group: Arc<Group>,
    pid: u32,
    goal: f64,
    delays: DelayAccounting,
    zram: Zram,
    changes: Changes,
    meter: Meter,
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
            let began = thread_cpu();
            self.group.reclaim(wanted(memory, self.loss(WINDOW), self.goal))?;
            let used = self.zram.usage()?;
            let line = Line {
                footprint: memory + used.original.0 as f64,
                saved: used.original.saturating_sub(used.memory).0 as f64,
                loss: self.loss(LATEST),
                cpu_share: thread_cpu().saturating_sub(began).as_secs_f64(),
            };
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
        Ok(())
    }

    fn note(&mut self, now: Delays, before: Delays) {
        let lost = now.swap_in.saturating_sub(before.swap_in).0 as f64;
        let cpu = now.cpu.saturating_sub(before.cpu).0 as f64;
        let lost_to = Lost { swap_ins: lost, ..Lost::default() };
        self.meter.add(Stretch { useful: (cpu - lost).max(0.0), lost: lost_to });
    }

    /// Share of the useful time that was lost in the last seconds.
    fn loss(&self, seconds: usize) -> f64 {
        self.meter.last(seconds).share(Lost::total)
    }
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
