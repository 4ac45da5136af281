//! Accesses to pages wherever they are, by the kernel's idle bits: some thousand pages at a time
//! are marked as idle, and those that are not any more half a second later were accessed.
//!
//! For kernels with idle page tracking, where DAMON is missing or taken.

use super::looks::Looks;
use super::{Assignment, Source, SourceStats, Touch, TouchKind, WorkingSet};
use frostline_core::event::SampleKind;
use frostline_core::types::{Nanos, Vpn};
use frostline_linux::accesses::idle::IdleBitmap;
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::process::Target;
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Root};
use std::collections::BTreeMap;

/// How long pages are given to be accessed, at least.
const TURN: Nanos = Nanos(500_000_000);
/// Pages looked at in a turn: at first, at least and at most.
const FIRST: usize = 1024;
const LEAST: usize = 256;
const MOST: usize = 65_536;

/// See the module.
#[derive(Debug)]
pub struct IdlePages {
    root: Root,
    bitmap: IdleBitmap,
    share: f64,
    pages: usize,
    /// Most pages at a time, halved where we take too much memory.
    most: usize,
    turn_ends: Nanos,
    turn_began: (Nanos, Nanos),
    /// Frames that are marked, ascending, and whose they are.
    marked: Vec<(u64, u32, Vpn)>,
    /// For how many pages they stand.
    stands_for: Option<u64>,
    looks: Looks,
    /// Found by the last turn.
    found: Vec<Touch>,
    touches: u64,
    cpu: Nanos,
}

impl IdlePages {
    /// Watches nobody yet, and will take about `share` of a core.
    ///
    /// # Errors
    /// Where the kernel has no idle page tracking, or rights are missing.
    pub fn new(root: &Root, share: f64) -> Result<Self, LinuxError> {
        Ok(Self {
            root: root.clone(),
            bitmap: IdleBitmap::open(root)?,
            share,
            pages: FIRST,
            most: MOST,
            turn_ends: Nanos::ZERO,
            turn_began: (Nanos::ZERO, Nanos::ZERO),
            marked: Vec::new(),
            stands_for: None,
            looks: Looks::default(),
            found: Vec::new(),
            touches: 0,
            cpu: Nanos::ZERO,
        })
    }

    /// Reports what was accessed since the pages were marked.
    fn finish(&mut self, turn: Nanos) -> Result<(), LinuxError> {
        let frames: Vec<u64> = self.marked.iter().map(|(frame, ..)| *frame).collect();
        let idle = self.bitmap.are_idle(&frames)?;
        let touched = idle.iter().filter(|idle| !**idle).count() as u64;
        self.looks.note(self.stands_for, frames.len() as u64, touched, turn);
        for ((_, pid, page), idle) in self.marked.drain(..).zip(idle) {
            if !idle {
                let kind = TouchKind::Sample(SampleKind::LoadMiss.into());
                self.found.push(Touch { pid, page, kind });
            }
        }
        Ok(())
    }

    fn begin(&mut self, pages: &[(u32, Vpn)]) -> Result<(), LinuxError> {
        let mut by_pid: BTreeMap<u32, Vec<Vpn>> = BTreeMap::new();
        for &(pid, page) in pages {
            by_pid.entry(pid).or_default().push(page);
        }
        for (pid, pages) in by_pid {
            match frames_of(&self.root, pid, &pages) {
                Ok(frames) => {
                    let with_pid = frames.into_iter().map(|(frame, page)| (frame, pid, page));
                    self.marked.extend(with_pid);
                }
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        self.marked.sort_unstable_by_key(|(frame, ..)| *frame);
        self.marked.dedup_by_key(|(frame, ..)| *frame);
        let frames: Vec<u64> = self.marked.iter().map(|(frame, ..)| *frame).collect();
        self.bitmap.mark(&frames)
    }
}

fn frames_of(root: &Root, pid: u32, pages: &[Vpn]) -> Result<Vec<(u64, Vpn)>, LinuxError> {
    let target = Target::open(root, pid)?;
    let mut pagemap = Pagemap::open(&target)?;
    let mut frames = Vec::new();
    for &page in pages {
        if let Some(frame) = pagemap.page(page)?.pfn() {
            frames.push((frame, page));
        }
    }
    Ok(frames)
}

impl Source for IdlePages {
    fn name(&self) -> &'static str {
        "page-idle"
    }

    fn attach(&mut self, _: &Root, _: u32, _: bool) -> Result<(), LinuxError> {
        Ok(())
    }

    fn wants_pages(&self, now: Nanos) -> usize {
        if now >= self.turn_ends { self.pages } else { 0 }
    }

    fn watch(&mut self, now: Nanos, assigned: Assignment<'_>) -> Result<(), LinuxError> {
        let (at, before) = self.turn_began;
        let turn = now.saturating_sub(at);
        let wall = turn.0 as f64;
        let used = self.cpu.saturating_sub(before).0.max(1) as f64;
        let factor = (self.share * wall / used).clamp(0.5, 2.0);
        self.pages = ((self.pages as f64 * factor) as usize).clamp(LEAST, self.most);
        self.turn_began = (now, self.cpu);
        self.turn_ends = now.saturating_add(TURN);
        let began = clock::thread_cpu();
        let done = self.finish(turn).and_then(|()| self.begin(assigned.pages));
        self.stands_for = assigned.of_all();
        self.cpu = self.cpu.saturating_add(clock::thread_cpu().saturating_sub(began));
        done
    }

    fn poll(&mut self, _: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        self.touches += self.found.len() as u64;
        self.found.drain(..).for_each(sink);
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
        SourceStats { touches: self.touches, lost: 0, cpu: self.cpu }
    }
}
