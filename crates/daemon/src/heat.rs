//! Heat of memory by address: touches of each region that were seen of late.

use crate::address_map::AddressMap;
use alloc::vec::Vec;
use frostline_core::types::*;

/// Part of a rate that the latest second has: it is a mean of some five seconds.
const LATEST: f32 = 0.2;

/// Part of an address space, from a place up to that of the next part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Whose it is.
    pub process: ProcessId,
    /// Its first page.
    pub start: Vpn,
    /// Touches of it that are seen in a second.
    pub touches: f32,
}

/// See the module; 8 bytes a region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heat(Vec<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Touches in this second.
    touches: u32,
    /// Touches in a second, in the mean.
    rate: f32,
}

impl Heat {
    /// Takes in a touch.
    pub(crate) fn touched(&mut self, page: PageId) {
        let region = page.region().index();
        if region >= self.0.len() {
            self.0.resize(region + 1, Seen::default());
        }
        let seen = &mut self.0[region];
        seen.touches = seen.touches.saturating_add(1);
    }

    /// Takes in that a second has passed.
    pub(crate) fn second(&mut self) {
        for seen in &mut self.0 {
            let touches = core::mem::take(&mut seen.touches) as f32;
            seen.rate += (touches - seen.rate) * LATEST;
        }
    }

    /// All regions that have ids, ascending by address and put together to at most so many parts.
    pub(crate) fn parts(&self, map: &AddressMap, most: usize) -> Vec<Part> {
        let each = (map.blocks() as usize).div_ceil(most.max(1)).max(1);
        let regions: Vec<Region> = map.regions().collect();
        let parts = regions.chunks(each).filter_map(|regions| {
            let (process, start) = map.place(regions.first()?.first())?;
            let rate = |region: &Region| self.0.get(region.index()).map_or(0.0, |seen| seen.rate);
            Some(Part { process, start, touches: regions.iter().map(rate).sum() })
        });
        parts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::span::{REGION_PAGES, Span};

    #[test]
    fn touches_are_told_by_address_and_forgotten() {
        let (mut map, mut heat) = (AddressMap::default(), Heat::default());
        let span = |region: u64, regions: u64| {
            Span::new(Vpn(region * REGION_PAGES), regions * REGION_PAGES)
        };
        // Ids are given in another order than that of addresses.
        for (process, span) in [(2, span(0, 4)), (1, span(100, 8)), (1, span(10, 4))] {
            assert!(map.map(ProcessId(process), span, |_, _| {}));
        }
        let hot = map.page(ProcessId(1), Vpn(101 * REGION_PAGES + 7)).expect("it has an id");
        let second = |heat: &mut Heat, touches: u32| {
            (0..touches).for_each(|_| heat.touched(hot));
            heat.second();
        };
        (0..40).for_each(|_| second(&mut heat, 1000));
        let each = heat.parts(&map, 100);
        assert_eq!(each.len(), 16);
        let places: Vec<(u32, u64)> =
            each.iter().map(|part| (part.process.0, part.start.0)).collect();
        assert!(places.is_sorted(), "{places:?}");
        let touched: Vec<&Part> = each.iter().filter(|part| part.touches > 0.0).collect();
        assert_eq!(touched.len(), 1);
        assert_eq!(touched[0].start.0, 101 * REGION_PAGES);
        assert!((touched[0].touches - 1000.0).abs() < 1.0, "{touched:?}");
        let few = heat.parts(&map, 4);
        assert_eq!(few.len(), 4);
        let sum = |parts: &[Part]| parts.iter().map(|part| part.touches).sum::<f32>();
        assert!((sum(&few) - sum(&each)).abs() < 0.1);
        (0..40).for_each(|_| second(&mut heat, 0));
        assert!(sum(&heat.parts(&map, 100)) < 1.0, "it has cooled down");
        assert!(heat.parts(&AddressMap::default(), 4).is_empty());
    }
}
