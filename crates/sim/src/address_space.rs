//! Owners and backing of page ids.

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
    owners: Vec<ProcessId>,
    processes: Vec<Process>,
}

#[derive(Debug, Default)]
struct Process {
    /// Anonymous mappings by first byte: the end. For regions that get their ids later.
    mappings: BTreeMap<u64, u64>,
    maps_seen: bool,
}

impl AddressSpace {
    /// Takes an event in; those that do not concern address space change nothing.
    pub(crate) fn apply(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::RegionNamed { region, process, huge_vpn } => {
                self.grow(*region);
                self.owners[region.index()] = *process;
                self.fill_from_mappings(*region, *process, *huge_vpn);
            }
            TraceEvent::Map { process, start, len_bytes, kind, runs, .. } => {
                let anonymous = matches!(kind, MapKind::Anonymous | MapKind::Heap);
                self.process(*process).maps_seen = true;
                self.set_bytes(*process, *start, *len_bytes, anonymous);
                runs.iter().for_each(|&run| self.set_run(run, anonymous));
            }
            TraceEvent::Unmap { process, start, len_bytes, runs } => {
                self.set_bytes(*process, *start, *len_bytes, false);
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
                let anonymous = self.is_anonymous(*process, *old_start);
                self.set_bytes(*process, *old_start, *old_len_bytes, false);
                self.set_bytes(*process, *new_start, *new_len_bytes, anonymous);
                for &(from, to) in moves {
                    self.set_run(from, false);
                    self.set_run(PageRun { start: to, pages: from.pages }, anonymous);
                }
                lost.iter().for_each(|&run| self.set_run(run, false));
                gained.iter().for_each(|&run| self.set_run(run, anonymous));
            }
            TraceEvent::ProcessExit { process, .. } => self.process(*process).mappings.clear(),
            _ => {}
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
        self.owners.get(region.index()).copied().unwrap_or_default()
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
            self.owners.resize(region.index() + 1, ProcessId(0));
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

    fn set_bytes(&mut self, process: ProcessId, start: u64, len_bytes: u64, on: bool) {
        let end = start.saturating_add(len_bytes);
        if end <= start {
            return;
        }
        let mappings = &mut self.process(process).mappings;
        let overlapping: Vec<(u64, u64)> = mappings
            .range(..end)
            .rev()
            .take_while(|(_, e)| **e > start)
            .map(|(s, e)| (*s, *e))
            .collect();
        for (s, e) in overlapping {
            mappings.remove(&s);
            if s < start {
                mappings.insert(s, start);
            }
            if e > end {
                mappings.insert(end, e);
            }
        }
        if on {
            mappings.insert(start, end);
        }
    }

    fn is_anonymous(&mut self, process: ProcessId, byte: u64) -> bool {
        let mappings = &self.process(process).mappings;
        mappings.range(..=byte).next_back().is_some_and(|(_, end)| *end > byte)
    }

    fn fill_from_mappings(&mut self, region: Region, process: ProcessId, huge_vpn: u64) {
        const REGION_BYTES: u64 = HUGE_PAGES as u64 * PAGE_BYTES;
        let start = huge_vpn.saturating_mul(REGION_BYTES);
        let end = start.saturating_add(REGION_BYTES);
        let parts: Vec<(u64, u64)> = self
            .process(process)
            .mappings
            .range(..end)
            .rev()
            .take_while(|(_, e)| **e > start)
            .map(|(s, e)| ((*s).max(start), (*e).min(end)))
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
