//! Owners, addresses and backing of page ids.

use frostline_core::event::Backing;
use frostline_core::span::Span;
use frostline_core::types::*;
use frostline_trace::TraceEvent;
use frostline_trace::event::MapKind;
use std::collections::BTreeMap;

const ALL: [u64; 8] = [u64::MAX; 8];
const NONE: [u64; 8] = [0; 8];

/// Follows allocation events, to say where a huge folio may be mapped.
///
/// Linux merges neighbouring anonymous mappings, so a 2 MiB region qualifies where all of its 512
/// pages are anonymous, by however many calls. A process whose trace holds no allocation at all
/// (imported text) counts as anonymous throughout.
#[derive(Debug, Default)]
pub(crate) struct AddressSpace {
    anonymous: Vec<[u64; 8]>,
    /// Whose each region is, and the number of 2 MiB that it is there.
    addresses: Vec<Option<Address>>,
    regions: BTreeMap<Address, Region>,
    processes: Vec<Process>,
}

type Address = (ProcessId, u64);

#[derive(Debug, Default)]
struct Process {
    /// Mappings by first byte: the end, and their kind.
    mappings: BTreeMap<u64, (u64, MapKind)>,
    maps_seen: bool,
    is_running: bool,
}

/// What backs a mapping of a trace.
pub(crate) fn backing(kind: MapKind) -> Backing {
    match kind {
        MapKind::Anonymous | MapKind::SharedAnonymous => Backing::Anonymous,
        MapKind::Heap => Backing::Heap,
        MapKind::Stack => Backing::Stack,
        MapKind::FilePrivate { file, .. } | MapKind::FileShared { file, .. } => {
            Backing::File(file.0)
        }
    }
}

/// Whether folios may be mapped there.
fn takes_folios(kind: MapKind) -> bool {
    matches!(kind, MapKind::Anonymous | MapKind::Heap)
}

impl AddressSpace {
    /// Takes an event in; those that do not concern address space change nothing.
    pub(crate) fn apply(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::Process { process, .. } => self.process(*process).is_running = true,
            TraceEvent::RegionNamed { region, process, huge_vpn } => {
                self.name(*region, (*process, *huge_vpn));
                self.fill_from_mappings(*region, *process, *huge_vpn);
            }
            TraceEvent::Map { process, start, len_bytes, kind, runs, .. } => {
                self.process(*process).maps_seen = true;
                self.set_bytes(*process, *start, *len_bytes, Some(*kind));
                runs.iter().for_each(|&run| self.set_run(run, takes_folios(*kind)));
            }
            TraceEvent::Unmap { process, start, len_bytes, runs } => {
                self.set_bytes(*process, *start, *len_bytes, None);
                runs.iter().for_each(|&run| self.set_run(run, false));
            }
            TraceEvent::Remap {
                process,
                old_start,
                old_len_bytes,
                new_start,
                new_len_bytes,
                moves,
                gained,
                lost,
            } => {
                let kind = self.kind_at(*process, *old_start);
                let anonymous = kind.is_some_and(takes_folios);
                self.set_bytes(*process, *old_start, *old_len_bytes, None);
                self.set_bytes(*process, *new_start, *new_len_bytes, kind);
                for &(from, to) in moves {
                    self.set_run(from, false);
                    self.set_run(PageRun { start: to, pages: from.pages }, anonymous);
                }
                lost.iter().for_each(|&run| self.set_run(run, false));
                gained.iter().for_each(|&run| self.set_run(run, anonymous));
            }
            TraceEvent::ProcessExit { process, .. } => {
                let process = self.process(*process);
                process.mappings.clear();
                process.is_running = false;
            }
            _ => {}
        }
    }

    /// Memory was allocated in a region. Its address is known from now on, and that it is mapped,
    /// where the trace does not say: it has the number of the region then.
    pub(crate) fn note_use(&mut self, page: PageId) {
        let region = page.region();
        if self.addresses.get(region.index()).is_none_or(Option::is_none) {
            self.name(region, (ProcessId(0), u64::from(region.0)));
        }
        let (process, vpn) = self.address(page);
        self.process(process).is_running = true;
        if self.kind_at(process, vpn.0.saturating_mul(PAGE_BYTES)).is_none() {
            let bytes = Span::region_of(vpn);
            self.set_bytes(process, bytes.address(), bytes.bytes().0, Some(MapKind::Anonymous));
        }
    }

    /// Whether all 512 pages of the region are anonymous memory.
    pub(crate) fn allows_huge(&self, region: Region) -> bool {
        match self.anonymous.get(region.index()) {
            Some(&ALL) => true,
            Some(&NONE) | None => {
                let owner = self.owner(region);
                !self.processes.get(owner.0 as usize).is_some_and(|p| p.maps_seen)
            }
            Some(_) => false,
        }
    }

    /// The process to which a region belongs; process 0 where the trace does not say.
    pub(crate) fn owner(&self, region: Region) -> ProcessId {
        self.addresses.get(region.index()).copied().flatten().unwrap_or_default().0
    }

    /// Whose a page is, and where; in process 0, with its number, where the trace does not say.
    pub(crate) fn address(&self, page: PageId) -> (ProcessId, Vpn) {
        let region = page.region();
        let unnamed = (ProcessId(0), u64::from(region.0));
        let address = self.addresses.get(region.index()).copied().flatten();
        let (process, huge_vpn) = address.unwrap_or(unnamed);
        let first = huge_vpn.saturating_mul(u64::from(HUGE_PAGES));
        (process, Vpn(first.saturating_add(u64::from(page.offset()))))
    }

    /// Id of a page of a process, where it has one.
    pub(crate) fn page(&self, process: ProcessId, page: Vpn) -> Option<PageId> {
        const PAGES: u64 = HUGE_PAGES as u64;
        let region = self.regions.get(&(process, page.0 / PAGES))?;
        Some(PageId(region.first().0 + (page.0 % PAGES) as u32))
    }

    /// Regions of a process that have ids and touch a span, with the pages of the span that are in
    /// them, ascending.
    pub(crate) fn pages(
        &self,
        process: ProcessId,
        span: Span,
    ) -> impl Iterator<Item = (Vpn, PageRun)> + '_ {
        const PAGES: u64 = HUGE_PAGES as u64;
        let first = (process, span.start.0 / PAGES);
        let end = (process, span.end().0.div_ceil(PAGES));
        self.regions.range(first..end).map(move |((_, huge_vpn), region)| {
            let whole = Span::new(Vpn(huge_vpn.saturating_mul(PAGES)), PAGES);
            let part = whole.intersect(span);
            let start = PageId(region.first().0 + (part.start.0 - whole.start.0) as u32);
            (part.start, PageRun { start, pages: part.pages as u32 })
        })
    }

    /// Private memory that a process has mapped, whole pages, ascending, and what backs it: what can
    /// be moved without anybody else being concerned.
    pub(crate) fn private(
        &self,
        process: ProcessId,
    ) -> impl Iterator<Item = (Span, Backing)> + Clone + '_ {
        let mappings = self.processes.get(process.0 as usize).map(|process| &process.mappings);
        let mappings = mappings.into_iter().flatten();
        let private = |kind: &MapKind| takes_folios(*kind) || *kind == MapKind::Stack;
        mappings
            .filter(move |(_, (_, kind))| private(kind))
            .map(|(start, (end, kind))| (Span::of_addresses(*start, *end), backing(*kind)))
            .filter(|(span, _)| !span.is_empty())
    }

    /// Processes that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = ProcessId> + '_ {
        let processes = self.processes.iter().enumerate();
        processes.filter(|(_, process)| process.is_running).map(|(i, _)| ProcessId(i as u32))
    }

    fn name(&mut self, region: Region, address: Address) {
        self.grow(region);
        self.addresses[region.index()] = Some(address);
        self.regions.insert(address, region);
    }

    fn process(&mut self, process: ProcessId) -> &mut Process {
        let index = process.0 as usize;
        if index >= self.processes.len() {
            self.processes.resize_with(index + 1, Process::default);
        }
        &mut self.processes[index]
    }

    fn grow(&mut self, region: Region) {
        if region.index() >= self.anonymous.len() {
            self.anonymous.resize(region.index() + 1, NONE);
            self.addresses.resize(region.index() + 1, None);
        }
    }

    fn set_run(&mut self, run: PageRun, on: bool) {
        if run.pages == 0 {
            return;
        }
        let last = PageId(run.end() - 1).region();
        self.grow(last);
        for region in run.start.region().0..=last.0 {
            let region = Region(region);
            let part = run.intersect(region.run());
            set_bits(&mut self.anonymous[region.index()], part.start.offset(), part.pages, on);
        }
    }

    fn set_bytes(&mut self, process: ProcessId, start: u64, len_bytes: u64, kind: Option<MapKind>) {
        let end = start.saturating_add(len_bytes);
        if end <= start {
            return;
        }
        let mappings = &mut self.process(process).mappings;
        let overlapping: Vec<(u64, u64, MapKind)> = overlaps(mappings, start, end).collect();
        for (s, e, kind) in overlapping {
            mappings.remove(&s);
            if s < start {
                mappings.insert(s, (start, kind));
            }
            if e > end {
                mappings.insert(end, (e, kind));
            }
        }
        if let Some(kind) = kind {
            mappings.insert(start, (end, kind));
        }
    }

    fn kind_at(&mut self, process: ProcessId, byte: u64) -> Option<MapKind> {
        let mappings = &self.process(process).mappings;
        let (_, (end, kind)) = mappings.range(..=byte).next_back()?;
        (*end > byte).then_some(*kind)
    }

    fn fill_from_mappings(&mut self, region: Region, process: ProcessId, huge_vpn: u64) {
        const REGION_BYTES: u64 = HUGE_PAGES as u64 * PAGE_BYTES;
        let start = huge_vpn.saturating_mul(REGION_BYTES);
        let end = start.saturating_add(REGION_BYTES);
        let parts: Vec<(u64, u64)> = overlaps(&self.process(process).mappings, start, end)
            .filter(|(_, _, kind)| takes_folios(*kind))
            .map(|(s, e, _)| (s.max(start), e.min(end)))
            .collect();
        for (from, to) in parts {
            let first = (from - start) / PAGE_BYTES;
            let last = (to - start).div_ceil(PAGE_BYTES);
            set_bits(
                &mut self.anonymous[region.index()],
                first as u32,
                (last - first) as u32,
                true,
            );
        }
    }
}

/// Mappings that share bytes with `[start, end)`, descending.
fn overlaps(
    mappings: &BTreeMap<u64, (u64, MapKind)>,
    start: u64,
    end: u64,
) -> impl Iterator<Item = (u64, u64, MapKind)> + '_ {
    let before = mappings.range(..end).rev();
    before.map(|(s, (e, kind))| (*s, *e, *kind)).take_while(move |(_, e, _)| *e > start)
}

fn set_bits(words: &mut [u64; 8], first: u32, count: u32, on: bool) {
    if count == HUGE_PAGES {
        *words = if on { ALL } else { NONE };
        return;
    }
    for bit in first..first + count {
        let (word, mask) = (bit as usize / 64, 1u64 << (bit % 64));
        if on {
            words[word] |= mask;
        } else {
            words[word] &= !mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB2: u64 = 2 << 20;

    fn map(start: u64, len_bytes: u64, kind: MapKind, runs: Vec<PageRun>) -> TraceEvent {
        TraceEvent::Map { process: ProcessId(0), start, len_bytes, kind, accessible: true, runs }
    }

    fn named(region: u32, huge_vpn: u64) -> TraceEvent {
        TraceEvent::RegionNamed { region: Region(region), process: ProcessId(0), huge_vpn }
    }

    #[test]
    fn neighbouring_anonymous_mappings_are_merged() {
        let mut space = AddressSpace::default();
        space.apply(&named(0, 0));
        space.apply(&map(0, MIB2 / 2, MapKind::Heap, vec![PageRun::between(0, 256)]));
        assert!(!space.allows_huge(Region(0)));
        space.apply(&map(MIB2 / 2, MIB2 / 2, MapKind::Heap, vec![PageRun::between(256, 512)]));
        assert!(space.allows_huge(Region(0)));
        space.apply(&TraceEvent::Unmap {
            process: ProcessId(0),
            start: 4096,
            len_bytes: 4096,
            runs: vec![PageRun::between(1, 2)],
        });
        assert!(!space.allows_huge(Region(0)));
    }

    #[test]
    fn a_reservation_without_ids_counts_when_its_regions_get_theirs() {
        let mut space = AddressSpace::default();
        space.apply(&map(4096, 3 * MIB2, MapKind::Anonymous, vec![]));
        space.apply(&named(0, 0));
        space.apply(&named(1, 1));
        assert!(!space.allows_huge(Region(0)), "its first page is not mapped");
        assert!(space.allows_huge(Region(1)));
    }

    #[test]
    fn file_mappings_have_no_huge_folios() {
        let mut space = AddressSpace::default();
        let kind =
            MapKind::FilePrivate { file: frostline_trace::event::FileId(0), offset_bytes: 0 };
        space.apply(&named(0, 0));
        space.apply(&map(0, MIB2, kind, vec![PageRun::between(0, 512)]));
        assert!(!space.allows_huge(Region(0)));
    }

    #[test]
    fn a_trace_without_allocations_is_anonymous() {
        assert!(AddressSpace::default().allows_huge(Region(7)));
    }
}
