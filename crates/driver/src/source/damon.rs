//! Accesses to pages wherever they are, by DAMON: a few thousand single pages at a time, evenly
//! spread, others every few seconds.
//!
//! DAMON tells exactly whether a single page was accessed, and costs in proportion to how many it
//! looks at. So every page is watched now and then, and counts as sampled if it is accessed in that
//! time. Several processes take turns.

use super::looks::Looks;
use super::{Assignment, Source, SourceStats, Touch, TouchKind, WorkingSet};
use frostline_core::event::SampleKind;
use frostline_core::span::Span;
use frostline_core::types::{Nanos, Vpn};
use frostline_daemon::Drawn;
use frostline_linux::accesses::damon::{Damon, DamonOptions};
use frostline_linux::changes::Changes;
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Root, process};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the same pages are watched, at least: three reports.
const TURN: Nanos = Nanos(1_500_000_000);
const OPTIONS: DamonOptions =
    DamonOptions { sampling: Duration::from_millis(250), aggregation: Duration::from_millis(500) };
/// Pages watched at a time: at first, at least and at most.
const FIRST: usize = 1024;
const LEAST: usize = 256;
const MOST: usize = 16_384;
/// How often a touch of a page in a slower tier is seen, at most, where all are seen.
const WINDOW: Nanos = Nanos(1_000_000_000);
/// Samples that a page can be worth, and all pages together until each has been looked at once:
/// policies cool hotness after so many samples, and pages must not be forgotten in between.
const MOST_WEIGHT: f64 = 16.0;
const ROUND_SAMPLES: f64 = 50_000.0;
/// Length of a clock tick in which the kernel counts processor time: `USER_HZ` is 100.
const TICK: Nanos = Nanos(10_000_000);

/// See the module.
#[derive(Debug)]
pub struct DamonPages {
    changes: Changes,
    /// Share of a core for the kernel's thread and for telling it what to watch.
    share: f64,
    running: Option<(u32, Damon)>,
    pids: BTreeSet<u32>,
    pages: usize,
    /// Most pages at a time, halved where we take too much memory.
    most: usize,
    turn_ends: Nanos,
    touches: u64,
    lost: u64,
    /// Pages that were accessed in this turn: each counts once.
    seen: BTreeSet<Vpn>,
    /// Pages that are watched in this turn, and for how many they stand.
    watched: (u64, Option<u64>),
    looks: Looks,
    /// Samples that a page is worth.
    weight: u32,
    /// Processor time of kernel threads that have ended, and of telling them what to watch.
    cpu_before: Nanos,
    /// Time and processor time when the turn began.
    turn_began: (Nanos, Nanos),
}

impl DamonPages {
    /// Watches nobody yet, and will take about `share` of a core.
    pub fn new(changes: Changes, share: f64) -> Self {
        Self {
            changes,
            share,
            running: None,
            pids: BTreeSet::new(),
            pages: FIRST,
            most: MOST,
            turn_ends: Nanos::ZERO,
            touches: 0,
            lost: 0,
            seen: BTreeSet::new(),
            watched: (0, None),
            looks: Looks::default(),
            weight: 1,
            cpu_before: Nanos::ZERO,
            turn_began: (Nanos::ZERO, Nanos::ZERO),
        }
    }

    /// Processor time of the kernel's thread.
    fn kernel_cpu(&self) -> Nanos {
        let ticks = self.running.as_ref().and_then(|(_, damon)| {
            let stat = process::stat(self.changes.root(), damon.kdamond().ok()?).ok()?;
            Some(stat.cpu_ticks)
        });
        Nanos(ticks.unwrap_or(0) * TICK.0)
    }

    /// As many pages as our share of a core allows.
    fn adapt(&mut self, now: Nanos) {
        let (began, before) = self.turn_began;
        let wall = now.saturating_sub(began).0;
        let used = self.stats().cpu.saturating_sub(before).0.max(TICK.0 / 4);
        if wall > 0 && self.running.is_some() {
            let factor = self.share * wall as f64 / used as f64;
            // Another number costs more than other pages: the kernel then begins anew.
            if !(0.7..1.4).contains(&factor) {
                let pages = self.pages as f64 * factor.clamp(0.5, 2.0);
                self.pages = (pages as usize).clamp(LEAST, self.most);
            }
        }
    }
}

/// Samples that a page is worth which was accessed in a turn of this length. Where slower tiers
/// are watched all the time, a page there can be sampled once in [`WINDOW`]; one that is looked at
/// rarely counts for the time between two looks, as far as [`ROUND_SAMPLES`] go.
fn weight(assigned: Assignment<'_>, turn: Nanos) -> u32 {
    let looked_at = assigned.pages.len() as f64;
    if assigned.drawn != Drawn::FromFast || looked_at == 0.0 {
        return 1;
    }
    let between = assigned.of as f64 / looked_at * turn.0 as f64;
    let most = (ROUND_SAMPLES / assigned.of as f64).clamp(1.0, MOST_WEIGHT);
    (between / WINDOW.0 as f64).clamp(1.0, most).round() as u32
}

impl Source for DamonPages {
    fn name(&self) -> &'static str {
        "damon"
    }

    fn attach(&mut self, _: &Root, pid: u32, _: bool) -> Result<(), LinuxError> {
        self.pids.insert(pid);
        Ok(())
    }

    fn wants_pages(&self, now: Nanos) -> usize {
        if now >= self.turn_ends { self.pages } else { 0 }
    }

    fn watch(&mut self, now: Nanos, assigned: Assignment<'_>) -> Result<(), LinuxError> {
        self.adapt(now);
        let (looked_at, stands_for) = std::mem::take(&mut self.watched);
        let time = now.saturating_sub(self.turn_began.0);
        self.looks.note(stands_for, looked_at, self.seen.len() as u64, time);
        self.turn_began = (now, self.stats().cpu);
        self.seen.clear();
        let began = clock::thread_cpu();
        let watched = self.begin_turn(assigned.pages);
        self.watched.1 = assigned.of_all();
        let used = clock::thread_cpu().saturating_sub(began);
        // Telling the kernel what to watch costs time for every page, too.
        self.cpu_before = self.cpu_before.saturating_add(used);
        let turn = (used.0 as f64 / self.share).max(TURN.0 as f64);
        self.turn_ends = now.saturating_add(Nanos(turn as u64));
        self.weight = weight(assigned, Nanos(turn as u64));
        watched
    }

    fn detach(&mut self, _: &Root, pid: u32) {
        self.pids.remove(&pid);
    }

    fn poll(&mut self, _: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        let (touches, seen) = (&mut self.touches, &mut self.seen);
        if let Some((pid, damon)) = &mut self.running {
            damon.poll(&mut |found| {
                if found.count > 0 && found.span.pages == 1 && seen.insert(found.span.start) {
                    *touches += 1;
                    let kind = TouchKind::Sample(SampleKind::LoadMiss.into());
                    let touch = Touch { pid: *pid, page: found.span.start, kind };
                    (0..self.weight).for_each(|_| sink(touch));
                }
            });
        }
        Ok(())
    }

    fn working_set(&self) -> Option<WorkingSet> {
        self.looks.working_set()
    }

    fn save_memory(&mut self) {
        self.most = (self.most / 2).max(LEAST);
        self.pages = self.pages.min(self.most);
    }

    fn stats(&self) -> SourceStats {
        let running = self.running.as_ref().map_or(0, |(_, damon)| damon.lost());
        let cpu = self.cpu_before.saturating_add(self.kernel_cpu());
        SourceStats { touches: self.touches, lost: self.lost + running, cpu }
    }
}

impl DamonPages {
    fn begin_turn(&mut self, pages: &[(u32, Vpn)]) -> Result<(), LinuxError> {
        let mut by_pid: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
        for &(pid, page) in pages {
            by_pid.entry(pid).or_default().push(Span::single(page));
        }
        let last = self.running.as_ref().map_or(0, |(pid, _)| *pid);
        let next = by_pid.range(last + 1..).next().or_else(|| by_pid.iter().next());
        let Some((&pid, spans)) = next else { return Ok(()) };
        let mut spans = spans.clone();
        spans.sort_unstable();
        spans.dedup();
        if spans.len() > self.pages {
            spans = (0..self.pages).map(|i| spans[i * spans.len() / self.pages]).collect();
        }
        self.watched.0 = spans.len() as u64;
        let restarted = match &mut self.running {
            Some((running, damon)) if *running == pid => damon.set_regions(&spans).is_err(),
            _ => true,
        };
        if restarted {
            self.cpu_before = self.cpu_before.saturating_add(self.kernel_cpu());
            if let Some((_, damon)) = self.running.take() {
                self.lost += damon.lost();
            }
            match Damon::start(&self.changes, pid, &spans, OPTIONS) {
                Ok(damon) => self.running = Some((pid, damon)),
                // The process has ended; another one gets its turn.
                Err(_) if process::stat(self.changes.root(), pid).is_err() => {
                    self.pids.remove(&pid);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
