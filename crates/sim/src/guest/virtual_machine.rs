//! One guest: its page table, its windows, and what it still has to gather.

use super::frame_map::{FrameMap, Moved};
use super::free_frames::FreeFrames;
use super::gpac;
use super::setup::GuestSetup;
use super::tally::Tally;
use crate::footprint::Footprint;
use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_trace::TraceEvent;
use std::collections::{BTreeMap, VecDeque};

/// A guest without its trace.
#[derive(Debug)]
pub(crate) struct VirtualMachine {
    pub(crate) map: FrameMap,
    consolidate: Option<ConsolidationLimit>,
    /// By page: windows in a row in which it was accessed, at most as many as make it hot.
    seen: Vec<u8>,
    /// As many of them make a page hot.
    windows: u8,
    /// It gathers in one window only.
    once: bool,
    window_ns: f64,
    window_end_ns: f64,
    /// Selected in the last window, to be gathered 512 at a time.
    waiting: VecDeque<PageId>,
    /// By region of frames: it was made by a consolidation, and has been in use in every window since.
    gathered: Vec<bool>,
    limit: u32,
    /// When there is something to do.
    due_ns: f64,
}

/// What a guest has just done, to be paid for.
#[derive(Debug)]
pub(crate) enum Done {
    /// Read and cleared so many access bits.
    Scanned(u64),
    /// Gathered pages in a region.
    Consolidated(Vec<Moved>),
    /// Found no region, or no pages.
    Nothing,
}

impl VirtualMachine {
    pub(crate) fn new(
        setup: &GuestSetup,
        footprint: &Footprint,
        scale: f64,
        rng: &mut Rng,
    ) -> Self {
        let regions = Self::regions(setup, footprint);
        let window_ns = (setup.window.0 as f64 / scale).max(1.0);
        Self {
            map: FrameMap::new(FreeFrames::new(regions, setup.aged, rng), setup.huge),
            consolidate: setup.consolidate,
            seen: Vec::new(),
            windows: setup.windows,
            once: setup.once,
            window_ns,
            window_end_ns: window_ns,
            waiting: VecDeque::new(),
            gathered: vec![false; regions as usize],
            limit: 0,
            due_ns: window_ns,
        }
    }

    /// 2 MiB regions of its memory.
    pub(crate) fn regions(setup: &GuestSetup, footprint: &Footprint) -> u32 {
        let pages = footprint.peak_resident_pages as f64 * setup.memory;
        (pages / f64::from(HUGE_PAGES)).ceil().max(1.0) as u32
    }

    /// Whether [`Self::act`] has something to do.
    pub(crate) fn is_due(&self, now_ns: f64) -> bool {
        now_ns >= self.due_ns
    }

    /// Ends a window, or gathers at most 512 pages. What it takes is said by [`Self::busy`].
    ///
    /// Fewer pages than the limit are left for a later window: a region with these would be as
    /// sparse as those that they come from.
    pub(crate) fn act(&mut self, now_ns: f64, late: bool, tally: &mut Tally) -> Done {
        if self.waiting.is_empty() {
            return self.end_window(now_ns, late, tally);
        }
        let count = self.waiting.len().min(HUGE_PAGES as usize);
        let call: Vec<PageId> = self.waiting.drain(..count).collect();
        let done = match self.map.consolidate(&call) {
            Ok(moved) => {
                tally.consolidation.calls += 1;
                tally.consolidation.pages += moved.len() as u64;
                if let Some(first) = moved.first() {
                    self.gathered[PageId(first.to).region().index()] = true;
                }
                Done::Consolidated(moved)
            }
            Err(_) => {
                tally.consolidation.without_region += 1;
                self.waiting.clear();
                Done::Nothing
            }
        };
        if self.waiting.len() < self.limit as usize {
            self.waiting.clear();
        }
        self.plan(now_ns);
        done
    }

    /// What it has done last goes on for so long.
    pub(crate) fn busy(&mut self, ns: f64) {
        self.due_ns += ns;
    }

    fn end_window(&mut self, now_ns: f64, late: bool, tally: &mut Tally) -> Done {
        let by_region = self.map.accessed_by_region();
        tally.add_window(&by_region, late);
        tally.resident_max = tally.resident_max.max(self.map.mapped());
        let mut done = Done::Nothing;
        if let Some(limit) = self.consolidate {
            let mut candidates = self.hot_by_region(&by_region);
            for (region, accessed) in by_region.iter().enumerate() {
                self.gathered[region] &= *accessed > 0;
                if self.gathered[region] {
                    candidates[region] = 0;
                }
            }
            self.limit = limit.of(candidates.iter().map(|hot| u32::from(*hot)));
            let hot = self.map.accessed().filter(|(page, _)| self.is_hot(*page));
            self.waiting = gpac::scattered(hot, &candidates, self.limit).into();
            if self.waiting.len() < self.limit as usize {
                self.waiting.clear();
            }
            tally.consolidation.limit_sum += u64::from(self.limit);
            tally.consolidation.selected += self.waiting.len() as u64;
            tally.consolidation.page_checks += self.map.mapped();
            done = Done::Scanned(self.map.mapped());
            if self.once && !self.waiting.is_empty() {
                self.consolidate = None;
            }
        }
        self.map.clear_accessed();
        self.window_end_ns = now_ns + self.window_ns;
        self.plan(now_ns);
        done
    }

    /// Hot pages by region, of pages accessed in the window that ends; takes note of those.
    fn hot_by_region(&mut self, accessed_by_region: &[u16]) -> Vec<u16> {
        if self.windows == 1 {
            return accessed_by_region.to_vec();
        }
        let mut seen = vec![0; self.seen.len()];
        let mut hot = vec![0; accessed_by_region.len()];
        for (page, frame) in self.map.accessed() {
            if page.index() >= seen.len() {
                seen.resize(page.index() + 1, 0);
            }
            let before = self.seen.get(page.index()).copied().unwrap_or(0);
            seen[page.index()] = (before + 1).min(self.windows);
            hot[PageId(frame).region().index()] += u16::from(before + 1 >= self.windows);
        }
        self.seen = seen;
        hot
    }

    fn is_hot(&self, page: PageId) -> bool {
        self.windows == 1 || self.seen.get(page.index()).is_some_and(|n| *n >= self.windows)
    }

    fn plan(&mut self, now_ns: f64) {
        self.due_ns = if self.waiting.is_empty() { self.window_end_ns.max(now_ns) } else { now_ns };
    }

    /// The host's view of an event inside: nothing of its mappings. `stream` numbers threads, `base`
    /// is the first page of its memory.
    pub(crate) fn event(
        &mut self,
        event: TraceEvent,
        process: ProcessId,
        base: u32,
    ) -> Option<TraceEvent> {
        let host = |frame: u32| PageId(base + frame);
        match event {
            TraceEvent::Unmap { runs, .. } | TraceEvent::Discard { runs, .. } => {
                runs.into_iter().for_each(|run| self.map.unmap(run));
                None
            }
            TraceEvent::Remap { moves, lost, .. } => {
                moves.into_iter().for_each(|(from, to)| self.map.rename(from, to));
                lost.into_iter().for_each(|run| self.map.unmap(run));
                None
            }
            TraceEvent::Thread { stream, tid, .. } => {
                Some(TraceEvent::Thread { stream, process, tid })
            }
            TraceEvent::StoreSamples { mut samples } => {
                samples.retain_mut(|(_, page)| {
                    let frame = self.map.mark(*page);
                    *page = frame.map_or(*page, host);
                    frame.is_some()
                });
                Some(TraceEvent::StoreSamples { samples })
            }
            TraceEvent::Touched { epoch, regions } => {
                let mut touched: BTreeMap<Region, [u64; 8]> = BTreeMap::new();
                for (region, bits) in regions {
                    let set = |page: &PageId| {
                        bits[page.offset() as usize / 64] >> (page.offset() % 64) & 1 != 0
                    };
                    for page in region.run().iter().filter(set) {
                        let Some(frame) = self.map.mark(page) else { continue };
                        let (page, offset) = (host(frame), host(frame).offset());
                        let bits = touched.entry(page.region()).or_default();
                        bits[offset as usize / 64] |= 1 << (offset % 64);
                    }
                }
                let regions = touched.into_iter().collect();
                Some(TraceEvent::Touched { epoch, regions })
            }
            TraceEvent::ThreadExit { .. }
            | TraceEvent::OpBegin { .. }
            | TraceEvent::OpEnd { .. } => Some(event),
            TraceEvent::Process { .. }
            | TraceEvent::ProcessExit { .. }
            | TraceEvent::RegionNamed { .. }
            | TraceEvent::Map { .. }
            | TraceEvent::FileOpen { .. }
            | TraceEvent::FileClose { .. }
            | TraceEvent::FileRead { .. }
            | TraceEvent::FileWrite { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Accessed pages by region, the plain way: frames looked up one by one.
    fn count(guest: &VirtualMachine, accessed: &BTreeSet<u32>) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut regions: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for &page in accessed {
            let frame = guest.map.frame(PageId(page)).unwrap();
            regions.entry(frame / 512).or_default().insert(page);
        }
        regions
    }

    #[test]
    fn counting_and_choosing_agree_with_the_plain_way() {
        let footprint = Footprint { peak_resident_pages: 20 * 512, ..Footprint::default() };
        let setup = GuestSetup::parse("gpac:cl=20:window=1us:memory=800%").unwrap();
        let (mut rng, mut chosen, mut all) = (Rng::new(7), 0, 0);
        let mut guest = VirtualMachine::new(&setup, &footprint, 1.0, &mut rng);
        let mut tally = Tally::default();
        let (mut made, mut spared) = (BTreeSet::new(), 0);
        assert!(guest.map.access(&mut (0..10_000).collect::<Vec<u32>>()));
        guest.map.clear_accessed();
        for window in 1..60u32 {
            let mut accessed = BTreeSet::new();
            let few = rng.below(900) as u32 + 1;
            for _ in 0..few {
                // Denser towards the beginning.
                let page = rng.below(rng.clone().below(10_000) + 1) as u32;
                accessed.insert(page);
                assert!(guest.map.access(&mut [page]));
            }
            let regions = count(&guest, &accessed);
            made.retain(|region| regions.contains_key(region));
            let taken = |(region, pages): &(&u32, &BTreeSet<u32>)| {
                pages.len() < 20 && !made.contains(*region)
            };
            let sparse: BTreeSet<u32> =
                regions.iter().filter(taken).flat_map(|(_, pages)| pages).copied().collect();
            spared += regions.keys().filter(|region| made.contains(*region)).count();
            let before = tally.consolidation.selected;
            assert!(guest.is_due(1000.0 * f64::from(window)));
            assert!(matches!(
                guest.act(1000.0 * f64::from(window), true, &mut tally),
                Done::Scanned(10_000)
            ));
            let waiting: BTreeSet<u32> = guest.waiting.iter().map(|page| page.0).collect();
            let expected = if sparse.len() < 20 { BTreeSet::new() } else { sparse };
            assert_eq!(waiting, expected, "window {window}");
            assert_eq!(tally.consolidation.selected - before, waiting.len() as u64);
            all += accessed.len();
            chosen += waiting.len();
            while !guest.waiting.is_empty() {
                let done = guest.act(1000.0 * f64::from(window), true, &mut tally);
                let Done::Consolidated(moved) = done else { panic!("no region: {done:?}") };
                made.insert(moved[0].to / 512);
                assert!(
                    moved.len() <= 512 && moved.iter().all(|m| m.to / 512 == moved[0].to / 512)
                );
            }
            assert_eq!(guest.map.accessed().count(), 0, "bits are clear");
        }
        assert!(chosen > 300 && chosen < all && spared > 10, "{chosen} of {all}, {spared}");
    }

    /// Ends a window in which these pages were accessed, and gathers; how many were selected.
    fn selected_in(
        guest: &mut VirtualMachine,
        now_ns: f64,
        hot: &[u32],
        tally: &mut Tally,
    ) -> usize {
        assert!(guest.map.access(&mut hot.to_vec()));
        guest.act(now_ns, false, tally);
        let selected = guest.waiting.len();
        while !guest.waiting.is_empty() {
            guest.act(now_ns, false, tally);
        }
        selected
    }

    #[test]
    fn a_gathered_region_is_left_alone_until_it_is_cold() {
        let footprint = Footprint { peak_resident_pages: 40 * 512, ..Footprint::default() };
        let setup = GuestSetup::parse("gpac:cl=20:window=1us:aged=0").unwrap();
        let mut guest = VirtualMachine::new(&setup, &footprint, 1.0, &mut Rng::new(7));
        let mut tally = Tally::default();
        assert!(guest.map.access(&mut (0..20_000).collect::<Vec<u32>>()));
        guest.map.clear_accessed();
        let hot: Vec<u32> = (0..100).map(|i| i * 200).collect();
        let mut now_ns = 0.0;
        let mut window = |guest: &mut VirtualMachine, hot: &[u32]| {
            now_ns += 1000.0;
            selected_in(guest, now_ns, hot, &mut tally)
        };
        assert_eq!(window(&mut guest, &hot), 100);
        assert_eq!(
            window(&mut guest, &hot[..19]),
            0,
            "few of them are hot, but they were gathered"
        );
        assert_eq!(window(&mut guest, &[]), 0, "none is");
        let mut more = hot[..19].to_vec();
        assert_eq!(window(&mut guest, &more), 0, "fewer than the limit stay");
        more.push(19_999);
        assert_eq!(window(&mut guest, &more), 20, "an ordinary region");
    }

    #[test]
    fn a_page_is_hot_after_so_many_windows_and_once_is_once() {
        let footprint = Footprint { peak_resident_pages: 40 * 512, ..Footprint::default() };
        let selected = |spec: &str, windows: &[std::ops::Range<u32>]| {
            let setup = GuestSetup::parse(spec).unwrap();
            let mut guest = VirtualMachine::new(&setup, &footprint, 1.0, &mut Rng::new(7));
            let mut tally = Tally::default();
            assert!(guest.map.access(&mut (0..20_000).collect::<Vec<u32>>()));
            guest.map.clear_accessed();
            let mut now_ns = 0.0;
            let of_window = |hot: &std::ops::Range<u32>| {
                now_ns += 1000.0;
                let pages: Vec<u32> = hot.clone().map(|i| i * 200).collect();
                selected_in(&mut guest, now_ns, &pages, &mut tally)
            };
            windows.iter().map(of_window).collect::<Vec<_>>()
        };
        let windows = [0..60, 30..90, 30..90, 0..0, 0..60, 0..60];
        let spec = "gpac:cl=20:window=1us:aged=0";
        assert_eq!(selected(spec, &windows[..2]), [60, 30], "half of them were gathered");
        let twice = format!("{spec}:windows=2");
        assert_eq!(
            selected(&twice, &windows),
            [0, 30, 30, 0, 0, 30],
            "the other half is where it was gathered"
        );
        assert_eq!(selected(&format!("{spec}:once=on"), &windows[..2]), [60, 0]);
    }

    #[test]
    fn work_puts_off_what_comes_next() {
        let footprint = Footprint { peak_resident_pages: 20 * 512, ..Footprint::default() };
        let setup = GuestSetup::parse("gpac:cl=20:window=1us:aged=0").unwrap();
        let mut guest = VirtualMachine::new(&setup, &footprint, 1.0, &mut Rng::new(7));
        let mut tally = Tally::default();
        assert!(!guest.is_due(999.0));
        assert!(guest.map.access(&mut (0..5000).collect::<Vec<u32>>()));
        guest.map.clear_accessed();
        assert!(guest.map.access(&mut (0..100).map(|i| i * 50).collect::<Vec<u32>>()));
        guest.act(1000.0, false, &mut tally);
        assert!(!guest.waiting.is_empty());
        guest.busy(5000.0);
        assert!(!guest.is_due(5999.0) && guest.is_due(6000.0), "the scan takes its time");
    }

    #[test]
    fn what_only_caches_saw_counts_as_accessed() {
        let footprint = Footprint { peak_resident_pages: 4 * 512, ..Footprint::default() };
        let setup = GuestSetup::parse("none:aged=0").unwrap();
        let mut guest = VirtualMachine::new(&setup, &footprint, 1.0, &mut Rng::new(1));
        assert!(guest.map.access(&mut [700, 3]));
        guest.map.clear_accessed();
        let mut bits = [0; 8];
        bits[(700 - 512) / 64] = 1 << ((700 - 512) % 64) | 2;
        let event = TraceEvent::Touched { epoch: 4, regions: vec![(Region(1), bits)] };
        let seen = guest.event(event, ProcessId(0), 1024);
        let mut expected = [0; 8];
        expected[0] = 1;
        let regions = vec![(Region(2), expected)];
        assert_eq!(seen, Some(TraceEvent::Touched { epoch: 4, regions }), "frame 0 of the guest");
        assert_eq!(guest.map.accessed().map(|(page, _)| page).collect::<Vec<_>>(), [PageId(700)]);
        let unmap = TraceEvent::Unmap {
            process: ProcessId(0),
            start: 0,
            len_bytes: 4096,
            runs: vec![PageRun::between(3, 4)],
        };
        assert_eq!(guest.event(unmap, ProcessId(0), 1024), None);
        assert_eq!((guest.map.frame(PageId(3)), guest.map.mapped()), (None, 1));
    }
}
