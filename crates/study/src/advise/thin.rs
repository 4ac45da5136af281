//! Part of a trace that stands for all of it: what happens in some of its regions of 2 MiB.
//!
//! A smaller program of the same kind is left, after Waldspurger et al., "Efficient MRC construction with SHARDS" (FAST
//! 2015), who draw single blocks of a cache. Regions are drawn here, since folios, splits and scans are of regions, and hot
//! ones as often as cold ones: one of each group of neighbours in the order of their accesses.
//! Instructions before an access that is left out are left out with it: there are as many between two accesses as before.

use frostline_core::rng::Rng;
use frostline_core::types::HUGE_PAGES;
use frostline_sim::Machine;
use frostline_trace::batch::Want;
use frostline_trace::{Batch, Column, TraceError, TraceHeader, TraceSource};
use std::sync::Arc;

/// Accesses by region of 2 MiB.
#[derive(Clone, Debug, Default)]
pub struct Regions(Vec<u64>);

impl Regions {
    /// Regions that are accessed.
    pub fn accessed(&self) -> usize {
        self.0.iter().filter(|accesses| **accesses > 0).count()
    }

    fn count(&mut self, pages: &[u32]) {
        for page in pages {
            let region = (page / HUGE_PAGES) as usize;
            if region >= self.0.len() {
                self.0.resize(region + 1, 0);
            }
            self.0[region] += 1;
        }
    }
}

/// A source whose accesses are counted by region as it is read.
pub struct Counted<'a> {
    inner: Box<dyn TraceSource + 'a>,
    regions: &'a mut Regions,
}

impl<'a> Counted<'a> {
    /// Counts into `regions`.
    pub fn new(inner: Box<dyn TraceSource + 'a>, regions: &'a mut Regions) -> Self {
        Self { inner, regions }
    }
}

impl TraceSource for Counted<'_> {
    fn header(&self) -> &TraceHeader {
        self.inner.header()
    }

    fn want(&mut self, want: Want) {
        self.inner.want(want);
    }

    fn warning(&self) -> Option<String> {
        self.inner.warning()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let more = self.inner.next_batch(batch)?;
        self.regions.count(&batch.pages);
        Ok(more)
    }
}

/// Regions that are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Part(Arc<[bool]>);

impl Part {
    /// So many of those that are accessed, or all where there are fewer; which ones follows from the seed.
    pub fn draw(regions: &Regions, wanted: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..regions.0.len()).collect();
        order.retain(|region| regions.0[*region] > 0);
        order.sort_by_key(|region| std::cmp::Reverse(regions.0[*region]));
        let (wanted, mut rng) = (wanted.min(order.len()), Rng::new(seed));
        let mut drawn = vec![false; regions.0.len()];
        for group in 0..wanted {
            let [from, to] = [group, group + 1].map(|end| end * order.len() / wanted);
            drawn[order[from + rng.below((to - from) as u64) as usize]] = true;
        }
        Self(drawn.into())
    }

    /// Whether the region of a page is drawn.
    pub fn has(&self, page: u32) -> bool {
        self.0.get((page / HUGE_PAGES) as usize).is_some_and(|drawn| *drawn)
    }
}

/// A machine that holds translations for a part of the memory, as a whole one does for all of it.
pub fn with_part_of_translations(machine: &Machine, part: f64) -> Machine {
    let mut machine = machine.clone();
    let tlb = &mut machine.tlb;
    let less = |entries: u32| ((f64::from(entries) * part).round() as u32).max(1);
    tlb.l1_ways = tlb.l1_ways.min(less(tlb.l1_huge_entries));
    tlb.l2_ways = tlb.l2_ways.min(less(tlb.l2_entries));
    let of_ways = |entries: u32, ways: u32| (less(entries) / ways).max(1) * ways;
    tlb.l1_base_entries = of_ways(tlb.l1_base_entries, tlb.l1_ways);
    tlb.l1_huge_entries = of_ways(tlb.l1_huge_entries, tlb.l1_ways);
    tlb.l2_entries = of_ways(tlb.l2_entries, tlb.l2_ways);
    machine
}

/// A source without the accesses to regions that are not drawn.
pub struct Thinned<'a> {
    inner: Box<dyn TraceSource + 'a>,
    part: Part,
    whole: Batch,
    clock: u64,
}

impl<'a> Thinned<'a> {
    /// What is drawn of a source.
    pub fn new(mut inner: Box<dyn TraceSource + 'a>, part: Part) -> Self {
        inner.want(Want { clock_deltas: true, lines: true });
        Self { inner, part, whole: Batch::new(), clock: 0 }
    }
}

impl TraceSource for Thinned<'_> {
    fn header(&self) -> &TraceHeader {
        self.inner.header()
    }

    fn want(&mut self, want: Want) {
        self.inner.want(Want { clock_deltas: true, ..want });
    }

    fn warning(&self) -> Option<String> {
        self.inner.warning()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        let more = self.inner.next_batch(&mut self.whole)?;
        let whole = &mut self.whole;
        batch.clock_start = self.clock;
        batch.events.append(&mut whole.events);
        batch.events.iter_mut().for_each(|event| event.clock = self.clock);
        let kept: Vec<usize> =
            (0..whole.len()).filter(|i| self.part.has(whole.pages[*i])).collect();
        batch.pages.extend(kept.iter().map(|i| whole.pages[*i]));
        let columns = [
            (&mut batch.kinds, &whole.kinds),
            (&mut batch.streams, &whole.streams),
            (&mut batch.lines, &whole.lines),
            (&mut batch.clock_deltas, &whole.clock_deltas),
        ];
        for (to, from) in columns {
            copy(to, from, &kept);
        }
        self.clock += kept.iter().map(|i| u64::from(whole.clock_deltas.get(*i))).sum::<u64>();
        batch.clock_end = self.clock;
        Ok(more)
    }
}

fn copy(to: &mut Column, from: &Column, kept: &[usize]) {
    match from.constant() {
        Some(value) => to.set_constant(value),
        None => to.values_mut().extend(kept.iter().map(|i| from.values()[*i])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut source: impl TraceSource) -> (Vec<u32>, u64, u64) {
        let (mut pages, mut deltas, mut end) = (Vec::new(), 0, 0);
        let mut batch = Batch::new();
        while source.next_batch(&mut batch).expect("a good trace") {
            pages.extend(&batch.pages);
            deltas += (0..batch.len()).map(|i| u64::from(batch.clock_deltas.get(i))).sum::<u64>();
            assert!(batch.clock_end >= batch.clock_start && batch.clock_start >= end);
            end = batch.clock_end;
        }
        (pages, deltas, end)
    }

    #[test]
    fn whole_regions_are_left_with_the_time_before_each_of_their_accesses() {
        let source = || {
            let spec = "synth:zipf:pages=64K:accesses=200K:gap=40";
            frostline_workloads::from_spec(spec).expect("a trace")
        };
        let mut regions = Regions::default();
        let (all, ..) = read(Counted::new(source(), &mut regions));
        assert!((100..=128).contains(&regions.accessed()));
        let part = Part::draw(&regions, 32, 3);
        let (pages, deltas, end) = read(Thinned::new(source(), part.clone()));
        let expected: Vec<u32> = all.iter().copied().filter(|page| part.has(*page)).collect();
        assert_eq!(pages, expected);
        assert!(pages.len() > all.len() / 6 && pages.len() < all.len() / 3, "{}", pages.len());
        assert_eq!(deltas, end, "nothing else passes");
        let drawn = (0..128).filter(|region| part.has(region * HUGE_PAGES)).count();
        assert_eq!((drawn, part.has(1 << 30)), (32, false));
        assert!((0..HUGE_PAGES).all(|page| part.has(page) == part.has(0)), "a region");
        assert_eq!(
            Part::draw(&regions, 1000, 3),
            Part::draw(&regions, regions.accessed(), 4),
            "all"
        );
    }

    #[test]
    fn parts_of_translations_are_at_least_one() {
        let whole = Machine::parse("dram-cxl").expect("it is listed");
        assert_eq!(with_part_of_translations(&whole, 1.0), whole);
        for part in [0.5, 0.1, 1e-9] {
            let tlb = with_part_of_translations(&whole, part).tlb;
            assert!(tlb.l2_entries >= tlb.l2_ways && tlb.l2_ways > 0, "{part}");
            assert!(
                tlb.l2_entries.is_multiple_of(tlb.l2_ways)
                    && tlb.l2_entries <= whole.tlb.l2_entries
            );
        }
    }
}
