//! Choice of hot pages that are worth gathering (GPAC, section 4.2).

use frostline_core::consolidation::ConsolidationLimit;
use frostline_core::types::{HUGE_PAGES, Vpn};
use std::collections::BTreeMap;

/// A hot page, and the number of the 2 MiB region that it lies in: of memory, or where frames are
/// not told, of address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hot {
    /// The page.
    pub page: Vpn,
    /// Its region.
    pub region: u64,
}

/// Hot pages of each region that has any.
pub fn by_region(hot: &[Hot]) -> BTreeMap<u64, u32> {
    let mut counts = BTreeMap::new();
    hot.iter().for_each(|hot| *counts.entry(hot.region).or_insert(0) += 1);
    counts
}

/// The pages to be gathered, by address, and the limit that was taken. None, where that would save no
/// region. `room` pages can be had without another region; of region `open` they come from.
pub fn choose(
    hot: &[Hot],
    limit: ConsolidationLimit,
    open: Option<u64>,
    room: usize,
) -> (Vec<Vpn>, u32) {
    let mut counts = by_region(hot);
    open.map(|region| counts.remove(&region));
    let limit = limit.of(counts.values().copied());
    counts.retain(|_, count| *count < limit);
    let mut pages: Vec<Vpn> =
        hot.iter().filter(|hot| counts.contains_key(&hot.region)).map(|hot| hot.page).collect();
    pages.sort_unstable();
    let needed = pages.len().saturating_sub(room).div_ceil(HUGE_PAGES as usize);
    if needed >= counts.len() {
        pages.clear();
    }
    (pages, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(counts: &[u32]) -> Vec<Hot> {
        let region = |(region, count): (usize, &u32)| {
            let region = region as u64;
            (0..*count).map(move |page| Hot { page: Vpn(region * 512 + u64::from(page)), region })
        };
        counts.iter().enumerate().flat_map(region).collect()
    }

    #[test]
    fn sparse_regions_are_emptied_and_dense_ones_stay() {
        let all = hot(&[1, 500, 3, 290, 0, 289]);
        let (pages, limit) = choose(&all, ConsolidationLimit::Pages(290), None, 0);
        assert_eq!((pages.len(), limit), (293, 290));
        assert!(pages.iter().all(|page| ![1, 3].contains(&(page.0 / 512))));
        assert!(pages.is_sorted());
    }

    #[test]
    fn nothing_is_moved_that_saves_no_region() {
        let (pages, _) = choose(&hot(&[100]), ConsolidationLimit::Pages(512), None, 0);
        assert!(pages.is_empty(), "another region for one");
        let (pages, _) = choose(&hot(&[100]), ConsolidationLimit::Pages(512), None, 100);
        assert_eq!(pages.len(), 100, "there is a region that has room");
        let (pages, _) = choose(&hot(&[300, 300]), ConsolidationLimit::Pages(512), None, 0);
        assert!(pages.is_empty(), "two regions for two");
        // What lies in the region that is being filled stays there.
        let (pages, _) = choose(&hot(&[40, 3, 3]), ConsolidationLimit::Pages(512), Some(0), 400);
        assert_eq!(pages.len(), 6);
    }
}
