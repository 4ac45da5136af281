//! Pages that were written, by the kernel's soft-dirty bits: cleared now and then, and read half a
//! second later.
//!
//! For stores, where the processor does not sample them. A page counts as written once in a turn,
//! however often it was, and of very many some are taken, evenly spread. Clearing costs the
//! process a fault for every page that it writes afterwards: how many there were in the last turn
//! says when the next one may begin.

use super::{Source, SourceStats, Touch, TouchKind};
use frostline_core::event::SampleKind;
use frostline_core::span::{REGION_PAGES, Span};
use frostline_core::types::{Bytes, HUGE_PAGES, Nanos, Vpn};
use frostline_daemon::Pacer;
use frostline_linux::accesses::soft_dirty::{self, SoftDirty};
use frostline_linux::pages::pagemap::Categories;
use frostline_linux::process::Target;
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Root};
use std::collections::BTreeMap;

/// How long pages are given to be written.
const WINDOW: Nanos = Nanos(500_000_000);
/// From one clearing to the next, at least, with the period that the policy began with.
const INTERVAL: Nanos = Nanos(2_000_000_000);
/// Samples of one process in a turn, at most: about as many as other sources give of loads.
const MOST: u64 = 512;
/// What a write to a page costs the process after clearing.
const FAULT: Nanos = Nanos(1000);
/// Share of one core that these faults may cost a process.
const TARGET_SHARE: f64 = 0.01;
/// Part of our own share of a core that goes into this.
const PART: f64 = 0.25;
/// A process can map nothing while its bits are cleared. Where that takes longer than this twice in
/// succession, it is left alone; one larger than that is not begun with.
const MOST_STALL: Nanos = Nanos(50_000_000);
const LARGEST: Bytes = Bytes(16 << 30);
/// Pages of a turn by which is seen that somebody else has cleared the bits, and how many it takes.
const KEPT: usize = 64;
const LEAST_KEPT: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct Writes {
    root: Root,
    processes: BTreeMap<u32, Process>,
    pacer: Pacer,
    /// The period in stores that the policy began with, and the one it wants now; 0 for none.
    periods: (u32, u32),
    turns: u64,
    touches: u64,
    /// Pages that were looked at.
    looked: u64,
    cpu: Nanos,
}

#[derive(Debug)]
struct Process {
    bits: SoftDirty,
    phase: Phase,
    due: Nanos,
    cleared_at: Nanos,
    /// Some of the pages that were written in this turn.
    kept: Vec<Vpn>,
    /// The last clearing took too long.
    stalled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has to be found out whether the bits are ours to clear.
    New,
    /// Cleared: what is marked when it is due was written in the window.
    Window,
    /// Until the next clearing, pages keep their marks.
    Rest,
}

/// What becomes of a process after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Goes,
    /// It has ended, or its bits are not for us.
    Dropped,
}

impl Writes {
    /// Watches nobody yet, takes a part of `share` of a core, and calls what it does at first a
    /// `period` in stores.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where the kernel does not mark written pages.
    pub fn new(root: &Root, share: f64, period: u32) -> Result<Self, LinuxError> {
        soft_dirty::check_support()?;
        Ok(Self::unchecked(root, share, period))
    }

    fn unchecked(root: &Root, share: f64, period: u32) -> Self {
        Self {
            root: root.clone(),
            processes: BTreeMap::new(),
            pacer: Pacer::new(share * PART, Nanos::ZERO),
            periods: (period.max(1), period),
            turns: 0,
            touches: 0,
            looked: 0,
            cpu: Nanos::ZERO,
        }
    }

    /// From one clearing to the next, at least.
    fn interval(&self) -> Nanos {
        let (first, now) = self.periods;
        Nanos((INTERVAL.0 as f64 * f64::from(now) / f64::from(first)) as u64).max(WINDOW)
    }

    fn poll_at(&mut self, now: Nanos, sink: &mut dyn FnMut(Touch)) {
        self.pacer.refill(now);
        let mut due: Vec<(Nanos, u32)> = self
            .processes
            .iter()
            .filter(|(_, process)| process.due <= now)
            .map(|(pid, process)| (process.due, *pid))
            .collect();
        due.sort_unstable();
        for (_, pid) in due {
            let Some(mut process) = self.processes.remove(&pid) else { continue };
            let reads = process.phase == Phase::Window;
            // A window that was begun ends in time, whatever that costs.
            if !reads && self.periods.1 == 0 {
                process.due = now.saturating_add(INTERVAL);
                if process.bits.target().is_alive() {
                    self.processes.insert(pid, process);
                }
                continue;
            }
            if !reads && !self.pacer.allows() {
                self.processes.insert(pid, process);
                continue;
            }
            let began = clock::thread_cpu();
            self.pacer.skip(began);
            let fate = match self.step(&mut process, now, sink) {
                Err(error) if error.is_gone() => renewed(&mut process),
                // Nothing is lost to the process, and no other source depends on it.
                Err(_) => Fate::Dropped,
                Ok(fate) => fate,
            };
            let ended = clock::thread_cpu();
            self.pacer.charge(ended);
            self.cpu = self.cpu.saturating_add(ended.saturating_sub(began));
            if fate == Fate::Goes {
                self.processes.insert(pid, process);
            }
        }
    }

    fn step(
        &mut self,
        process: &mut Process,
        now: Nanos,
        sink: &mut dyn FnMut(Touch),
    ) -> Result<Fate, LinuxError> {
        match process.phase {
            Phase::New => {
                let identity = process.bits.target().identity();
                let usage = process.bits.target().usage()?;
                let ours = soft_dirty::is_noted(&self.root, identity);
                if usage.resident > LARGEST || !(ours || process.bits.is_untouched()?) {
                    return Ok(Fate::Dropped);
                }
                soft_dirty::note_cleared(&self.root, identity)?;
                clear(process, now)
            }
            Phase::Window => {
                let mut runs = Vec::new();
                self.looked += process.bits.written(&mut runs)?;
                self.turns += 1;
                let chosen = spread(&runs, MOST, self.turns);
                self.touches += chosen.len() as u64;
                let pid = process.bits.target().pid();
                let kind = TouchKind::Sample(SampleKind::Store.into());
                chosen.iter().for_each(|page| sink(Touch { pid, page: *page, kind }));
                process.kept = chosen;
                process.kept.truncate(KEPT);
                process.phase = Phase::Rest;
                process.due = process.cleared_at.saturating_add(self.interval());
                Ok(Fate::Goes)
            }
            Phase::Rest => {
                // Marks stay until they are cleared, and we did not.
                let (present, marked) = process.bits.marked(&process.kept)?;
                if present >= LEAST_KEPT && marked * 2 < present {
                    return Ok(Fate::Dropped);
                }
                let mut runs = Vec::new();
                self.looked += process.bits.written(&mut runs)?;
                let cost = faults(&runs) as f64 * FAULT.0 as f64 / TARGET_SHARE;
                let allowed = process.cleared_at.saturating_add(Nanos(cost as u64));
                if now < allowed {
                    process.due = allowed;
                    return Ok(Fate::Goes);
                }
                clear(process, now)
            }
        }
    }
}

fn clear(process: &mut Process, now: Nanos) -> Result<Fate, LinuxError> {
    // Waiting for the processor, or for the process, holds nobody up.
    let began = clock::thread_cpu();
    process.bits.clear()?;
    let stalls = clock::thread_cpu().saturating_sub(began) > MOST_STALL;
    let stalled = std::mem::replace(&mut process.stalled, stalls);
    process.phase = Phase::Window;
    process.cleared_at = now;
    process.due = now.saturating_add(WINDOW);
    Ok(if stalls && stalled { Fate::Dropped } else { Fate::Goes })
}

/// A process whose page table is gone has ended, or runs another program.
fn renewed(process: &mut Process) -> Fate {
    if !process.bits.target().is_alive() || process.bits.reopen().is_err() {
        return Fate::Dropped;
    }
    process.phase = Phase::New;
    process.kept.clear();
    Fate::Goes
}

/// Faults that the writes to these pages have cost: a folio has one entry.
fn faults(runs: &[(Span, Categories)]) -> u64 {
    runs.iter().map(|(span, is)| span.pages.div_ceil(unit(*is))).sum()
}

fn unit(is: Categories) -> u64 {
    if is.has(Categories::HUGE) { REGION_PAGES } else { 1 }
}

/// At most `most` pages of `runs`, evenly spread, from another one on with each `turn`. A folio
/// is one page: which of its insides was written is not known.
fn spread(runs: &[(Span, Categories)], most: u64, turn: u64) -> Vec<Vpn> {
    let step = faults(runs).div_ceil(most).max(1);
    let mut next = turn % step;
    let mut chosen = Vec::new();
    for (span, is) in runs {
        let unit = unit(*is);
        let units = span.pages.div_ceil(unit);
        while next < units {
            let inside = if unit == 1 { 0 } else { turn.wrapping_mul(197) % u64::from(HUGE_PAGES) };
            let page = span.start.0 + next * unit + inside;
            chosen.push(Vpn(page.min(span.end().0 - 1)));
            next += step;
        }
        next -= units;
    }
    chosen
}

impl Source for Writes {
    fn name(&self) -> &'static str {
        "soft-dirty"
    }

    fn attach(&mut self, root: &Root, pid: u32, _: bool) -> Result<(), LinuxError> {
        // Without these bits there are other sources: no reason to leave the process alone.
        if let Ok(bits) = Target::open(root, pid).and_then(SoftDirty::open) {
            let process = Process {
                bits,
                phase: Phase::New,
                due: Nanos::ZERO,
                cleared_at: Nanos::ZERO,
                kept: Vec::new(),
                stalled: false,
            };
            self.processes.insert(pid, process);
        }
        Ok(())
    }

    fn detach(&mut self, _: &Root, pid: u32) {
        self.processes.remove(&pid);
    }

    fn poll(&mut self, _: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        self.poll_at(clock::monotonic(), sink);
        Ok(())
    }

    fn set_period(&mut self, kind: SampleKind, period: u32) {
        if kind == SampleKind::Store {
            self.periods.1 = period;
        }
    }

    fn pages_looked_at(&self) -> u64 {
        self.looked
    }

    fn stats(&self) -> SourceStats {
        SourceStats { touches: self.touches, lost: 0, cpu: self.cpu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::fs;
    use tempfile::TempDir;

    const SECOND: u64 = 1_000_000_000;
    const DIRTY: u64 = 1 << 63 | 1 << 55;
    const CLEAN: u64 = 1 << 63;

    /// Our own process in a tree of files, with a mapping of `PAGES` pages from page 16 on.
    struct Fake {
        folder: TempDir,
        writes: Writes,
        /// Until the bits are cleared for the first time.
        code_is_marked: Cell<bool>,
    }

    const FIRST: usize = 16;
    const PAGES: usize = 2000;

    impl Fake {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::at(folder.path());
            let mut writes = Writes::unchecked(&root, 1.0, 100);
            let code_is_marked = Cell::new(true);
            let mut fake =
                Self { folder, writes: Writes::unchecked(&root, 1.0, 100), code_is_marked };
            let zeros = "0 ".repeat(40);
            fake.file("stat", format!("{} (x) S 1 {zeros}", std::process::id()));
            fake.file("clear_refs", "");
            fake.file("status", "VmRSS: 8000 kB\n");
            fake.file(
                "maps",
                format!(
                    "1000-2000 r-xp 0 08:01 5 /bin/x\n{:x}-{:x} rw-p 0 00:00 0\n",
                    FIRST << 12,
                    (FIRST + PAGES) << 12
                ),
            );
            fake.dirty(|_| true);
            writes.attach(&root, std::process::id(), false).unwrap();
            fake.writes = writes;
            // The allowance of the first moments.
            fake.writes.pacer.refill(Nanos(0));
            fake
        }

        fn file(&self, name: &str, text: impl AsRef<[u8]>) {
            let folder = self.folder.path().join(format!("proc/{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
        }

        fn dirty(&self, is: impl Fn(usize) -> bool) {
            let entry = |page: usize| {
                let marked = page.checked_sub(FIRST).map_or(self.code_is_marked.get(), &is);
                if marked { DIRTY } else { CLEAN }
            };
            let bytes: Vec<u8> =
                (0..FIRST + PAGES).flat_map(|page| entry(page).to_ne_bytes()).collect();
            self.file("pagemap", bytes);
        }

        /// Whether the bits were cleared since the last call; then none is set any more.
        fn cleared(&self) -> bool {
            let path = self.folder.path().join(format!("proc/{}/clear_refs", std::process::id()));
            let cleared = !fs::read_to_string(&path).unwrap().is_empty();
            if cleared {
                fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
                self.code_is_marked.set(false);
                self.dirty(|_| false);
            }
            cleared
        }

        fn poll(&mut self, ms: u64) -> Vec<u64> {
            let mut pages = Vec::new();
            self.writes.poll_at(Nanos(ms * 1_000_000), &mut |touch| {
                assert_eq!(touch.kind, TouchKind::Sample(SampleKind::Store.into()));
                pages.push(touch.page.0 - FIRST as u64);
            });
            pages
        }
    }

    #[test]
    fn what_is_written_in_the_window_is_told_once() {
        let mut fake = Fake::new();
        assert!(fake.poll(1000).is_empty());
        assert!(fake.cleared());
        fake.dirty(|page| page % 100 == 7);
        assert!(fake.poll(1400).is_empty(), "the window is open");
        assert_eq!(fake.poll(1500).len(), PAGES / 100);
        fake.dirty(|page| page % 50 == 7);
        assert!(fake.poll(2900).is_empty(), "nothing is told of the rest");
        assert!(!fake.cleared());
        // 40 faults of 1 us are less than 1 % of two seconds.
        assert!(fake.poll(3000).is_empty());
        assert!(fake.cleared());
        assert_eq!(fake.writes.stats().touches, PAGES as u64 / 100);
        assert_eq!(fake.writes.pages_looked_at(), 2 * PAGES as u64);
        assert!(fake.writes.stats().cpu > Nanos::ZERO);
    }

    #[test]
    fn faults_of_the_process_are_limited() {
        let mut fake = Fake::new();
        fake.poll(1000);
        // So many faults take 2 ms: at 1 %, 200 ms. The interval is longer.
        fake.cleared();
        fake.dirty(|_| true);
        assert_eq!(fake.poll(1500).len(), 500, "one in four: at most 512");
        let process = fake.writes.processes.values_mut().next().unwrap();
        process.cleared_at = Nanos(2900 * 1_000_000);
        fake.poll(3000);
        assert!(!fake.cleared(), "not before 3.1 s");
        fake.poll(3099);
        assert!(!fake.cleared());
        fake.poll(3100);
        assert!(fake.cleared());
    }

    #[test]
    fn the_policy_sets_the_pace() {
        let mut fake = Fake::new();
        fake.poll(1000);
        fake.cleared();
        fake.writes.set_period(SampleKind::LoadMiss, 0);
        fake.writes.set_period(SampleKind::Store, 300);
        fake.poll(1500);
        fake.poll(6999);
        assert!(!fake.cleared(), "three times the period");
        fake.writes.set_period(SampleKind::Store, 0);
        fake.poll(9000);
        assert!(!fake.cleared(), "no stores are wanted");
        fake.writes.set_period(SampleKind::Store, 100);
        fake.poll(11_000);
        assert!(fake.cleared());
    }

    #[test]
    fn bits_that_somebody_else_clears_are_left_to_them() {
        let mut fake = Fake::new();
        fake.poll(1000);
        fake.cleared();
        fake.dirty(|page| page < 100);
        fake.poll(1500);
        fake.dirty(|page| page < 10);
        fake.poll(3000);
        assert!(!fake.cleared());
        assert!(fake.writes.processes.is_empty());

        let mut fake = Fake::new();
        fake.code_is_marked.set(false);
        fake.dirty(|_| true);
        fake.poll(1000);
        assert!(!fake.cleared(), "it was somebody else before us");
        let path = fake.folder.path().join("run/frostline/soft-dirty");
        assert!(!path.exists());

        let mut fake = Fake::new();
        fake.poll(1000);
        assert!(fake.cleared());
        let root = Root::at(fake.folder.path());
        let mut next = Writes::unchecked(&root, 1.0, 100);
        next.attach(&root, std::process::id(), false).unwrap();
        next.pacer.refill(Nanos(0));
        fake.writes = next;
        fake.poll(1000);
        assert!(fake.cleared(), "a frostline before us is no reason");
    }

    #[test]
    fn a_share_of_a_core_is_kept() {
        let mut fake = Fake::new();
        fake.writes.pacer = Pacer::new(1e-6, Nanos::ZERO);
        fake.writes.pacer.refill(Nanos(0));
        let mut turns = 0;
        for ms in (1000..600_000).step_by(500) {
            fake.poll(ms);
            turns += u64::from(fake.cleared());
        }
        let most = Nanos(600 * SECOND / 1_000_000);
        assert!((2..290).contains(&turns), "{turns}");
        let used = fake.writes.stats().cpu;
        assert!(used < Nanos(most.0 * 20 + 20_000_000), "{used:?}");
    }

    proptest! {
        #[test]
        fn pages_are_spread_evenly(
            sizes in proptest::collection::vec((1_u64..600, any::<bool>()), 0..20),
            most in 1_u64..50,
            turn in any::<u64>(),
        ) {
            let mut at = 0;
            let runs: Vec<(Span, Categories)> = sizes.into_iter().map(|(size, huge)| {
                let (is, pages) = if huge {
                    (Categories::HUGE, size % 3 * REGION_PAGES + REGION_PAGES)
                } else {
                    (Categories::NONE, size)
                };
                at += 1024;
                let span = Span::new(Vpn(at), pages);
                at += pages;
                (span, is)
            }).collect();
            let chosen = spread(&runs, most, turn);
            let units = faults(&runs);
            prop_assert!(chosen.len() as u64 <= most);
            prop_assert!(chosen.len() as u64 >= units / units.div_ceil(most).max(1));
            prop_assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(chosen.iter().all(|page| runs.iter().any(|(s, _)| s.contains(*page))));
        }
    }

    #[test]
    fn every_page_has_its_turn() {
        let runs = [(Span::new(Vpn(0), 90), Categories::NONE)];
        let mut seen: Vec<u64> =
            (0..10).flat_map(|turn| spread(&runs, 9, turn)).map(|page| page.0).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..90).collect::<Vec<u64>>());
    }
}
