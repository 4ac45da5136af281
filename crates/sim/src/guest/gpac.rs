//! Choice of the pages that GPAC gathers: those of regions of guest memory with few hot ones.
//!
//! GPAC: Memory Tiering with Guest Physical Address Space Consolidation, section 4.3.1.

use frostline_core::types::*;

/// Pages to gather: the hot ones of regions with fewer than `limit` of them, in the order given.
///
/// `hot` are pages with their frames, `by_region` their number in each region of frames, 0 where none
/// shall be taken.
pub(crate) fn scattered(
    hot: impl Iterator<Item = (PageId, u32)>,
    by_region: &[u16],
    limit: u32,
) -> Vec<PageId> {
    let few = |frame: u32| (1..limit).contains(&by_region[PageId(frame).region().index()].into());
    hot.filter(|(_, frame)| few(*frame)).map(|(page, _)| page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
