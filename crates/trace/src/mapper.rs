//! Dense page ids for virtual addresses.

use frostline_core::types::{PageId, PageRun, ProcessId, Region};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Gives 2 MiB blocks of every process's address space their [`Region`] numbers, in order of
/// appearance, so that neighbours in one allocation stay neighbours.
#[derive(Debug, Default)]
pub struct PageMapper {
    regions: HashMap<(ProcessId, u64), Region>,
    fresh: Vec<(Region, ProcessId, u64)>,
    next: u32,
    recent: Option<(ProcessId, u64, Region)>,
}

const HUGE_VPN_SHIFT: u32 = 9;
const PAGE_SHIFT: u32 = 12;
/// Largest stretch that gets its ids at once: 1 GiB, in 2 MiB regions.
const GROUP_REGIONS: u64 = 512;
/// Regions that can be named: ids have 32 bits, and the last region's would end beyond them.
const MOST_REGIONS: u32 = (1 << 23) - 1;
/// Regions that are named before they are touched. What is only mapped leaves ids to what is used.
const MOST_AHEAD: u32 = MOST_REGIONS / 2;

impl PageMapper {
    /// A mapper that has given out nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Announces an allocation, so that its pages get consecutive ids. Returns the runs assigned:
    /// all of it up to 1 GiB; nothing of a larger one, nor of any once half of all ids are given out: their
    /// regions get ids when they are first touched (address space that is only reserved costs nothing).
    pub fn map(&mut self, process: ProcessId, start: u64, len_bytes: u64) -> Vec<PageRun> {
        let Some(last) = last_byte(start, len_bytes) else { return Vec::new() };
        let (first, last) =
            (start >> PAGE_SHIFT >> HUGE_VPN_SHIFT, last >> PAGE_SHIFT >> HUGE_VPN_SHIFT);
        if last - first <= GROUP_REGIONS && self.next < MOST_AHEAD {
            for huge_vpn in first..=last {
                let _ = self.region(process, huge_vpn);
            }
        }
        self.runs(process, start, len_bytes)
    }

    /// The page's id; assigns one at its region's first touch. `None` where all ids are given out: of
    /// 16 TiB, in regions of 2 MiB.
    #[inline]
    pub fn page(&mut self, process: ProcessId, vpn: u64) -> Option<PageId> {
        let huge_vpn = vpn >> HUGE_VPN_SHIFT;
        let region = match self.recent {
            Some((p, h, region)) if p == process && h == huge_vpn => region,
            _ => {
                let region = self.region(process, huge_vpn)?;
                self.recent = Some((process, huge_vpn, region));
                region
            }
        };
        Some(PageId(region.first().0 + (vpn & 511) as u32))
    }

    /// The page's id, if it has one.
    pub fn lookup(&self, process: ProcessId, vpn: u64) -> Option<PageId> {
        let region = self.regions.get(&(process, vpn >> HUGE_VPN_SHIFT))?;
        Some(PageId(region.first().0 + (vpn & 511) as u32))
    }

    /// The ids that pages of `[start, start + len_bytes)` have by now, as few runs as possible, in
    /// address order. Pages partly covered count.
    pub fn runs(&self, process: ProcessId, start: u64, len_bytes: u64) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        for (_, run) in self.known(process, start, len_bytes) {
            match runs.last_mut() {
                Some(previous) if previous.end() == run.start.0 => previous.pages += run.pages,
                _ => runs.push(run),
            }
        }
        runs
    }

    /// As [`Self::runs`], but a run for each region, with the virtual number of its first page. Takes time by how
    /// many there are, not by how much address space is asked about.
    pub fn known(&self, process: ProcessId, start: u64, len_bytes: u64) -> Vec<(u64, PageRun)> {
        let Some(last) = last_byte(start, len_bytes) else { return Vec::new() };
        let (first_vpn, last_vpn) = (start >> PAGE_SHIFT, last >> PAGE_SHIFT);
        let (first, last) = (first_vpn >> HUGE_VPN_SHIFT, last_vpn >> HUGE_VPN_SHIFT);
        let mut inside: Vec<(u64, Region)> = if last - first < self.regions.len() as u64 {
            let region = |huge_vpn| Some((huge_vpn, *self.regions.get(&(process, huge_vpn))?));
            (first..=last).filter_map(region).collect()
        } else {
            let regions = self.regions.iter();
            let wanted = regions.filter(|((p, h), _)| *p == process && (first..=last).contains(h));
            wanted.map(|((_, h), region)| (*h, *region)).collect()
        };
        inside.sort_unstable();
        let run = |(huge_vpn, region): (u64, Region)| {
            let base = huge_vpn << HUGE_VPN_SHIFT;
            let (from, to) = (first_vpn.max(base), last_vpn.min(base + 511));
            let start = PageId(region.first().0 + (from - base) as u32);
            (from, PageRun { start, pages: (to - from) as u32 + 1 })
        };
        inside.into_iter().map(run).collect()
    }

    /// Regions named since the last call, for `RegionNamed` events ahead of their first record.
    pub fn take_fresh(&mut self) -> std::vec::Drain<'_, (Region, ProcessId, u64)> {
        self.fresh.drain(..)
    }

    /// Whether [`Self::take_fresh`] would give anything.
    #[inline]
    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// All ids given out are below this.
    pub fn pages(&self) -> u32 {
        Region(self.next).first().0
    }

    fn region(&mut self, process: ProcessId, huge_vpn: u64) -> Option<Region> {
        let entry = match self.regions.entry((process, huge_vpn)) {
            Entry::Occupied(entry) => return Some(*entry.get()),
            Entry::Vacant(entry) => entry,
        };
        if self.next == MOST_REGIONS {
            return None;
        }
        let region = Region(self.next);
        self.next += 1;
        self.fresh.push((region, process, huge_vpn));
        Some(*entry.insert(region))
    }
}

fn last_byte(start: u64, len_bytes: u64) -> Option<u64> {
    len_bytes.checked_sub(1).map(|more| start.saturating_add(more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;

    #[test]
    fn when_all_ids_are_given_out_new_regions_have_none_and_old_ones_keep_theirs() {
        let (mut mapper, process) = (PageMapper::new(), ProcessId(1));
        let first = mapper.page(process, 7);
        mapper.next = MOST_AHEAD;
        assert_eq!(mapper.map(process, 1 << 40, 1 << 30), [], "not before they are touched");
        assert!(mapper.page(process, 1 << 28).is_some());
        mapper.next = MOST_REGIONS - 1;
        let last = mapper.page(process, 1 << 30);
        assert_eq!(last, Some(PageId(u32::MAX - 1023)));
        assert_eq!(mapper.page(process, 1 << 31), None);
        assert_eq!((mapper.page(process, 7), mapper.page(process, 1 << 30)), (first, last));
        assert_eq!(mapper.take_fresh().count(), 3);
    }

    #[test]
    fn known_pages_are_those_that_looking_each_up_finds() {
        let mut rng = Rng::new(4);
        let (mut mapper, process) = (PageMapper::new(), ProcessId(1));
        for _ in 0..300 {
            mapper.page(process, rng.below(40 << 9));
            mapper.page(ProcessId(2), rng.below(40 << 9));
        }
        for _ in 0..200 {
            let (start, len) = (rng.below(45 << 9), 1 + rng.below(2000));
            let found = mapper.known(process, start * 4096, len * 4096);
            let found: Vec<(u64, PageId)> = found
                .iter()
                .flat_map(|(vpn, run)| {
                    (0..run.pages).map(move |i| (vpn + u64::from(i), PageId(run.start.0 + i)))
                })
                .collect();
            let looked_up: Vec<(u64, PageId)> = (start..start + len)
                .filter_map(|vpn| Some((vpn, mapper.lookup(process, vpn)?)))
                .collect();
            assert_eq!(found, looked_up, "{start} {len}");
        }
    }
}
