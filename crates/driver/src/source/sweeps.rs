//! Accesses to all pages in memory, by the access bits in page tables, which are read and cleared in
//! turn, again and again.
//!
//! Needs no support for it in the kernel but BPF. A page is told where its bit was found set; that
//! it was not touched is known of all others. Reading takes 2 ns a page, clearing 70 ns and hearing of
//! a touch some hundred, so that rounds are as far apart as our share of a core asks for.

use super::{Source, SourceStats, Swept, Touch, TouchKind, WorkingSet};
use frostline_core::span::{REGION_PAGES, Span, joined};
use frostline_core::types::{Nanos, PageCount, Vpn};
use frostline_daemon::BIT;
use frostline_linux::accesses::page_tables::{Looked, PageTables, Tables};
use frostline_linux::moves::advise;
use frostline_linux::process::maps::{MapsReader, tierable};
use frostline_linux::process::{Target, clock};
use frostline_linux::{LinuxError, Root};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time from one round to the next: part of the time for which we have watched, since what is hot shows at once and
/// what is touched once in a minute after minutes; and its bounds.
const INTERVAL: f64 = 0.2;
const INTERVALS: (Nanos, Nanos) = (Nanos(2_000_000_000), Nanos(20_000_000_000));
/// Part of the programs' time on processors that goes into access bits, at most, up to the longest interval.
const TAKEN: f64 = 0.005;
/// Pages that are looked at in one piece, and in one poll.
const PIECE: u64 = 8 * REGION_PAGES;
const POLL: u64 = 64 * REGION_PAGES;
/// What it costs to tell of a touch (ns).
const HEARD: u64 = 300;
/// Part of our share of a core that goes into looking and hearing; the rest is for moves.
const PART: f64 = 0.5;

/// A process in a round.
#[derive(Debug)]
struct Seen {
    target: Target,
    tables: Tables,
    /// Its bits were cleared in the round before.
    cleared: bool,
}

/// A round over all pages.
#[derive(Debug, Default)]
struct Round {
    began: Nanos,
    /// Time since the round before began.
    interval: Nanos,
    /// What looking and hearing have cost so far.
    cost: Nanos,
    /// Time on processors since the round before, of processes whose bits had been cleared.
    busy: Nanos,
    /// What was found of processes whose bits had been cleared.
    found: Looked,
    seen: BTreeMap<u32, Seen>,
    /// What is yet to be looked at.
    parts: VecDeque<(u32, Span)>,
}

/// See the module.
#[derive(Debug)]
pub struct Sweeps {
    reader: PageTables,
    maps: MapsReader,
    share: f64,
    /// Bounds of the time from one round to the next.
    intervals: (Nanos, Nanos),
    /// When the last process came.
    began: Nanos,
    /// Processes, and their times on processors when their bits were cleared in the last round.
    processes: BTreeMap<u32, Option<Nanos>>,
    /// Those whose tables could not be read in the last round, which are seen by refaults.
    left_out: BTreeSet<u32>,
    round: Round,
    working_set: Option<WorkingSet>,
    swept: Swept,
    /// Rounds that have ended.
    rounds: u64,
    touches: u64,
    looked_at: u64,
    cpu: Nanos,
}

impl Sweeps {
    /// As users see it.
    pub const NAME: &'static str = "page-tables";

    /// Watches nobody yet, and will take about half of `share` of a core.
    ///
    /// # Errors
    /// Where page tables cannot be read.
    pub fn new(root: &Root, share: f64) -> Result<Self, LinuxError> {
        Ok(Self {
            reader: PageTables::open(root)?,
            maps: MapsReader::new(),
            share: share * PART,
            intervals: INTERVALS,
            began: clock::monotonic(),
            processes: BTreeMap::new(),
            left_out: BTreeSet::new(),
            round: Round::default(),
            working_set: None,
            swept: Swept::default(),
            rounds: 0,
            touches: 0,
            looked_at: 0,
            cpu: Nanos::ZERO,
        })
    }

    /// The same with so much time from one round to the next, or more where our share of a core asks for it.
    #[must_use]
    pub fn every(self, interval: Nanos) -> Self {
        Self { intervals: (interval, interval), ..self }
    }

    /// Rounds that have ended since the beginning.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Whether there is nothing to do until the next one.
    pub fn is_between_rounds(&self) -> bool {
        self.round.parts.is_empty()
    }

    /// Processes that were seen in the last round.
    pub fn watched(&self) -> Vec<u32> {
        let seen = |pid: &&u32| !self.left_out.contains(pid);
        self.processes.keys().filter(seen).copied().collect()
    }

    /// When the next round begins.
    fn next_round(&self) -> Nanos {
        let for_share = Nanos((self.round.cost.0 as f64 / self.share.max(1e-4)) as u64);
        let watched = self.round.began.saturating_sub(self.began).0 as f64;
        let least = Nanos((watched * INTERVAL) as u64).max(self.round.for_programs());
        let interval = least.clamp(self.intervals.0, self.intervals.1);
        self.round.began.saturating_add(for_share.max(interval))
    }

    fn begin(&mut self, root: &Root, now: Nanos) -> Result<(), LinuxError> {
        let interval = now.saturating_sub(self.round.began);
        self.round = Round { began: now, interval, ..Round::default() };
        self.left_out.clear();
        let mut mappings = Vec::new();
        for (&pid, cleared) in &mut self.processes {
            let opened = Target::open(root, pid).and_then(|target| {
                let cpu = target.stat()?.cpu();
                let mut tables = self.reader.of(&target)?;
                self.maps.read(&target, &mut mappings)?;
                let spans: Vec<Span> = tierable(&mappings).map(|(span, _)| span).collect();
                if cleared.is_none() {
                    for span in &spans {
                        if self.reader.check(&mut tables, *span)? {
                            break;
                        }
                    }
                }
                // Much may be reserved, and little of it used.
                let mut parts = Vec::new();
                for span in spans {
                    parts.append(&mut self.reader.populated(&tables, span)?);
                }
                Ok((target, cpu, tables, parts))
            });
            let (target, cpu, tables, parts) = match opened {
                Ok(opened) => opened,
                Err(LinuxError::Unsupported { .. }) => {
                    self.left_out.insert(pid);
                    continue;
                }
                Err(error) if error.is_gone() || error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            self.round.parts.extend(parts.into_iter().map(|part| (pid, part)));
            let before = cleared.replace(cpu);
            let busy = before.map_or(Nanos::ZERO, |before| cpu.saturating_sub(before));
            self.round.busy = self.round.busy.saturating_add(busy);
            self.round.seen.insert(pid, Seen { target, tables, cleared: before.is_some() });
        }
        Ok(())
    }

    /// Looks at a piece, and clears its bits; gives the number of touches.
    fn look(
        &mut self,
        pid: u32,
        piece: Span,
        sink: &mut dyn FnMut(Touch),
    ) -> Result<u64, LinuxError> {
        let Some(Seen { target, tables, cleared }) = self.round.seen.get(&pid) else {
            return Ok(0);
        };
        let mut runs = Vec::new();
        let looked = self.reader.accessed(tables, piece, &mut runs)?;
        self.looked_at += looked.present;
        if *cleared {
            self.round.found.present += looked.present;
            self.round.found.accessed += looked.accessed;
        }
        if runs.is_empty() {
            return Ok(0);
        }
        // Whole regions: a range that ends within a folio would split it.
        let mut last = None;
        let regions = runs.iter().flat_map(|run| {
            let (first, end) = (run.start.0 / REGION_PAGES, run.end().0.div_ceil(REGION_PAGES));
            first..end
        });
        let regions = regions.filter(|region| last.replace(*region) != Some(*region));
        let regions = regions.map(|region| Span::new(Vpn(region * REGION_PAGES), REGION_PAGES));
        let touched = joined(regions.map(|region| region.intersect(piece)));
        match advise::cold(target, &touched) {
            Err(error) if !error.is_gone() => return Err(error),
            _ => {}
        }
        if !cleared {
            return Ok(0);
        }
        let kind = TouchKind::Accessed(self.round.interval);
        runs.iter().flat_map(|run| run.iter()).for_each(|page| sink(Touch { pid, page, kind }));
        Ok(looked.accessed)
    }
}

impl Round {
    /// Time after which what was found takes no more of the programs than it may, if they go on like that.
    fn for_programs(&self) -> Nanos {
        let busy = self.busy.0 as f64 / self.interval.0.max(1) as f64;
        let taken = self.found.accessed as f64 * BIT;
        if self.busy == Nanos::ZERO { INTERVALS.0 } else { Nanos((taken / (TAKEN * busy)) as u64) }
    }

    /// The next piece to look at; it ends between two regions or where its span ends.
    fn piece(&mut self) -> Option<(u32, Span)> {
        let (pid, part) = self.parts.pop_front()?;
        let piece = Span::new(part.start, (PIECE - part.start.0 % PIECE).min(part.pages));
        let rest = Span::between(piece.end(), part.end());
        if !rest.is_empty() {
            self.parts.push_front((pid, rest));
        }
        Some((pid, piece))
    }
}

impl Source for Sweeps {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attach(&mut self, _: &Root, pid: u32, _: bool) -> Result<(), LinuxError> {
        self.processes.insert(pid, None);
        self.began = clock::monotonic();
        Ok(())
    }

    fn detach(&mut self, _: &Root, pid: u32) {
        self.processes.remove(&pid);
        self.left_out.remove(&pid);
        self.round.seen.remove(&pid);
    }

    fn poll(&mut self, root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError> {
        let now = clock::monotonic();
        let began = clock::thread_cpu();
        if self.round.parts.is_empty() {
            if now < self.next_round() {
                return Ok(());
            }
            self.begin(root, now)?;
        }
        let (mut looked_at, mut heard) = (0, 0);
        while looked_at < POLL
            && let Some((pid, piece)) = self.round.piece()
        {
            looked_at += piece.pages;
            heard += self.look(pid, piece, sink)?;
        }
        if self.round.parts.is_empty() {
            self.rounds += 1;
            let Self { round, left_out, .. } = self;
            let is_there = |pid: &u32| round.seen.contains_key(pid) || left_out.contains(pid);
            self.processes.retain(|pid, _| is_there(pid));
            let all_cleared = self.round.seen.values().all(|seen| seen.cleared);
            self.round.seen.clear();
            let Looked { present, accessed } = self.round.found;
            self.working_set = Some(WorkingSet {
                touched_bytes: PageCount(accessed).bytes().0,
                resident_bytes: PageCount(present).bytes().0,
                within: self.round.interval,
            })
            .filter(|_| all_cleared && present > 0);
            if all_cleared && self.left_out.is_empty() {
                self.swept.times += 1;
                self.swept.interval = self.round.interval;
            }
        }
        let used = clock::thread_cpu().saturating_sub(began);
        self.touches += heard;
        self.cpu = self.cpu.saturating_add(used);
        self.round.cost = self.round.cost.saturating_add(used).saturating_add(Nanos(heard * HEARD));
        Ok(())
    }

    fn working_set(&self) -> Option<WorkingSet> {
        self.working_set
    }

    fn swept(&self) -> Option<Swept> {
        Some(self.swept)
    }

    fn pages_looked_at(&self) -> u64 {
        self.looked_at
    }

    fn stats(&self) -> SourceStats {
        SourceStats { touches: self.touches, lost: 0, cpu: self.cpu }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::types::PAGE_BYTES;
    use frostline_testing::{Requirement, skip};
    use memmap2::{Advice, MmapMut};
    use std::collections::BTreeSet;

    const PAGES: u64 = 3 * REGION_PAGES;

    /// Goes on until a round has ended; the touches in `all`.
    fn round(sweeps: &mut Sweeps, root: &Root, all: Span) -> BTreeSet<u64> {
        let mut seen = BTreeSet::new();
        let due = sweeps.next_round();
        while clock::monotonic() < due {
            sweeps.poll(root, &mut |touch| panic!("{touch:?} between two rounds")).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        loop {
            sweeps
                .poll(root, &mut |touch| {
                    assert!(
                        matches!(touch.kind, TouchKind::Accessed(before) if before >= INTERVALS.0)
                    );
                    if all.contains(touch.page) {
                        seen.insert(touch.page.0 - all.start.0);
                    }
                })
                .unwrap();
            if sweeps.round.parts.is_empty() {
                return seen;
            }
        }
    }

    #[test]
    fn a_round_shows_what_was_touched_since_the_one_before() {
        let root = Root::system();
        let mut sweeps = match Sweeps::new(&root, 1.0) {
            Ok(sweeps) => sweeps,
            Err(error) => return skip(Requirement::PageTables, error),
        };
        let mut memory = MmapMut::map_anon((PAGES * PAGE_BYTES) as usize).unwrap();
        memory.advise(Advice::NoHugePage).unwrap();
        memory.fill(1);
        let all = Span::new(Vpn(memory.as_ptr().addr() as u64 / PAGE_BYTES), PAGES);
        let own = std::process::id();
        sweeps.attach(&root, own, false).unwrap();
        assert!(round(&mut sweeps, &root, all).is_empty(), "bits of any age say nothing");
        assert_eq!(sweeps.working_set(), None);
        assert_eq!(sweeps.swept(), Some(Swept::default()), "it has told of nothing");
        for touched in [&[3, 700, 1535][..], &[], &[700]] {
            // Another observer of the whole machine's access bits may take one before us.
            let mut seen = BTreeSet::new();
            for _ in 0..4 {
                touched.iter().for_each(|page| {
                    std::hint::black_box(memory[(page * PAGE_BYTES) as usize]);
                });
                seen.append(&mut round(&mut sweeps, &root, all));
                let set = sweeps.working_set().expect("all was looked at");
                assert!(set.resident_bytes >= all.bytes().0 + set.touched_bytes, "{set:?}");
                if seen.iter().eq(touched) {
                    break;
                }
            }
            assert!(seen.iter().eq(touched), "{seen:?} in place of {touched:?}");
        }
        assert!(sweeps.stats().touches >= 4 && sweeps.pages_looked_at() >= 4 * PAGES);
        let swept = sweeps.swept().expect("it sweeps");
        assert!(swept.times >= 3 && swept.interval >= INTERVALS.0, "{swept:?}");
        sweeps.detach(&root, own);
        assert!(round(&mut sweeps, &root, all).is_empty());
    }

    #[test]
    fn rounds_are_farther_apart_where_touches_take_much_of_a_program() {
        let after = |accessed, busy| {
            let (interval, busy) = (Nanos(4_000_000_000), Nanos(busy));
            let found = Looked { present: 2 * accessed, accessed };
            Round { interval, busy, found, ..Round::default() }.for_programs().as_secs_f64()
        };
        let whole = 4_000_000_000;
        assert!((after(100_000, whole) - 4.0).abs() < 1e-6, "20 ms are a half percent of 4 s");
        assert!((after(100_000, whole / 10) - 40.0).abs() < 1e-6);
        assert!((after(1000, whole) - 0.04).abs() < 1e-6);
        assert_eq!(after(0, 0), 2.0);
    }

    #[test]
    fn pieces_are_cut_between_regions() {
        for (start, pages) in [(0, 1), (5, 10_000), (PIECE - 1, 2), (PIECE, PIECE)] {
            let span = Span::new(Vpn(start), pages);
            let mut round = Round { parts: VecDeque::from([(3, span)]), ..Round::default() };
            let cut: Vec<_> = std::iter::from_fn(|| round.piece()).collect();
            assert!(cut.iter().all(|(pid, piece)| *pid == 3 && !piece.is_empty()));
            assert!(cut.iter().all(|(_, piece)| piece.pages <= PIECE));
            assert!(cut.windows(2).all(|two| two[1].1.start.0.is_multiple_of(REGION_PAGES)));
            assert_eq!(joined(cut.into_iter().map(|(_, piece)| piece)), vec![span]);
        }
    }
}
