//! Part of a trace that stands for all of it: what happens in regions of 2 MiB that are drawn by a hash.
//!
//! A smaller program of the same kind is left, after Waldspurger et al., "Efficient MRC construction with SHARDS" (FAST
//! 2015), who draw single blocks of a cache. Regions are drawn here, since folios, splits and scans are of regions.
//! Instructions before an access that is left out are left out with it: there are as many between two accesses as before.

use frostline_core::types::HUGE_PAGES;
use frostline_trace::batch::Want;
use frostline_trace::{Batch, Column, TraceError, TraceHeader, TraceSource};

/// Regions that are drawn: the hash of one is below so many of 2^64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    below: u64,
    seed: u64,
}

impl Part {
    /// About that share of the regions, by a hash with a seed; all from 1 on.
    pub fn new(share: f64, seed: u64) -> Self {
        Self { below: (share.clamp(0.0, 1.0) * u64::MAX as f64) as u64, seed }
    }

    /// Whether the region of a page is drawn.
    pub fn has(self, page: u32) -> bool {
        let mut z = u64::from(page / HUGE_PAGES) ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31) <= self.below
    }
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
        let part = Part::new(0.25, 3);
        let (all, ..) = read(Thinned::new(source(), Part::new(1.0, 3)));
        let (pages, deltas, end) = read(Thinned::new(source(), part));
        let expected: Vec<u32> = all.iter().copied().filter(|page| part.has(*page)).collect();
        assert_eq!(pages, expected);
        assert!(pages.len() > all.len() / 8 && pages.len() < all.len() / 2, "{}", pages.len());
        assert_eq!(deltas, end, "nothing else passes");
        assert!((0..512).all(|page| part.has(page) == part.has(0)), "a region");
        let drawn = (0..4096).filter(|region| part.has(region * 512)).count();
        assert!((900..1150).contains(&drawn), "{drawn} of 4096");
    }
}
