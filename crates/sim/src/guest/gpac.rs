//! Which pages GPAC gathers: those of regions of guest memory with few hot ones.
//!
//! GPAC: Memory Tiering with Guest Physical Address Space Consolidation, section 4.3.1.

use super::setup::Limit;
use frostline_core::types::*;

/// Two regions or more become one only where fewer than half of their pages are hot.
const AUTO_MOST: u16 = HUGE_PAGES as u16 / 2;

/// The limit in effect, by how many pages of each region are hot.
///
/// `Auto` takes the regions with no more than the mean of those that have any. Of all limits, the
/// mean is where the share of hot regions taken exceeds the share of hot pages copied by most: the
/// next region would cost more than it brings. At most 256: from there on, two regions no longer
/// fit into one.
pub(crate) fn limit(limit: Limit, hot: &[u16]) -> u16 {
    match limit {
        Limit::Pages(pages) => pages,
        Limit::Auto => {
            let (mut regions, mut pages) = (0u32, 0u32);
            for &hot in hot.iter().filter(|hot| **hot > 0) {
                regions += 1;
                pages += u32::from(hot);
            }
            let mean = pages.checked_div(regions).unwrap_or(0);
            AUTO_MOST.min(mean as u16 + 1)
        }
    }
}

/// Pages to gather: the hot ones of regions with fewer than `limit` of them, in the order given.
///
/// `hot` are pages with their frames, `by_region` their number in each region of frames, 0 where none
/// shall be taken.
pub(crate) fn scattered(
    hot: impl Iterator<Item = (PageId, u32)>,
    by_region: &[u16],
    limit: u16,
) -> Vec<PageId> {
    let few = |frame: u32| (1..limit).contains(&by_region[PageId(frame).region().index()]);
    hot.filter(|(_, frame)| few(*frame)).map(|(page, _)| page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::rng::Rng;

    #[test]
    fn only_regions_below_the_limit_are_taken() {
        // Three hot pages in region 0, two in region 1, 40 in region 2.
        let frames = [0, 5, 9, 512, 1000].into_iter().chain(1024..1064);
        let hot: Vec<(PageId, u32)> = frames.map(|frame| (PageId(frame + 7), frame)).collect();
        let by_region = [3, 2, 40];
        let taken = |limit| scattered(hot.iter().copied(), &by_region, limit).len();
        assert_eq!([2, 3, 4, 40, 41, 512].map(taken), [0, 2, 5, 5, 45, 45]);
        assert_eq!(scattered(hot.iter().copied(), &by_region, 3), [PageId(519), PageId(1007)]);
    }

    #[test]
    fn the_automatic_limit_takes_sparse_regions_and_leaves_dense_ones() {
        let of = |hot: &[u16]| limit(Limit::Auto, hot);
        assert_eq!(of(&[0, 1, 1, 1]), 2, "one hot page each: all of them");
        assert_eq!(of(&[10, 10, 10, 500]), 133);
        assert_eq!(of(&[512; 4]), 256, "nothing to gain");
        assert_eq!(of(&[]), 1);
        assert_eq!(limit(Limit::Pages(50), &[512; 4]), 50);
    }

    #[test]
    fn no_other_limit_sets_regions_free_at_a_better_price() {
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let hot: Vec<u16> =
                (0..200).map(|_| rng.below(rng.clone().below(250) + 1) as u16).collect();
            let hot: Vec<u16> = hot.into_iter().filter(|n| *n > 0).collect();
            let (regions, pages) =
                (hot.len() as f64, hot.iter().map(|n| f64::from(*n)).sum::<f64>());
            let gain = |limit: u16| {
                let few = hot.iter().filter(|n| **n < limit);
                few.map(|n| 1.0 / regions - f64::from(*n) / pages).sum::<f64>()
            };
            let best = (1..=512).map(gain).fold(f64::MIN, f64::max);
            assert!(gain(limit(Limit::Auto, &hot)) > best - 1e-9);
        }
    }
}
