//! Which hot pages are worth gathering (GPAC, section 4.2).

use frostline_core::types::{HUGE_PAGES, Vpn};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Regions with fewer hot pages than that are emptied of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsolidationLimit {
    /// What the distribution of hot pages suggests: see [`suggested`].
    #[default]
    Auto,
    /// So many, 1 to 512.
    Pages(u32),
}

impl ConsolidationLimit {
    /// Reads `auto` or a number.
    ///
    /// # Errors
    /// A text for the user, with a hint.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(pages @ 1..=HUGE_PAGES) => Ok(Self::Pages(pages)),
            _ => Err(format!(
                "'{text}' is no number of hot pages in a region\nhint: give 1 to {HUGE_PAGES}, or auto"
            )),
        }
    }
}

impl fmt::Display for ConsolidationLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Pages(pages) => write!(f, "{pages}"),
        }
    }
}

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

/// Share of what can be saved at all that the suggested limit saves.
const ENOUGH: f64 = 0.9;

/// Hot regions that are left where those with fewer than `limit` hot pages are emptied into full ones.
fn left(counts: &[u32], limit: u32) -> u64 {
    let (gathered, stay): (Vec<u32>, Vec<u32>) = counts.iter().partition(|count| **count < limit);
    let pages: u64 = gathered.into_iter().map(u64::from).sum();
    stay.len() as u64 + pages.div_ceil(HUGE_PAGES.into())
}

/// The least limit that saves 90 % of the hot regions that any limit would save: beyond it, many
/// pages are moved for few regions.
pub fn suggested(counts: &[u32]) -> u32 {
    let all = counts.len() as u64;
    let saved: Vec<u64> =
        (1..=HUGE_PAGES).map(|limit| all.saturating_sub(left(counts, limit))).collect();
    let most = saved.iter().copied().max().unwrap_or(0);
    let enough = saved.iter().position(|saved| *saved as f64 >= most as f64 * ENOUGH);
    enough.unwrap_or(0) as u32 + 1
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
    let limit = match limit {
        ConsolidationLimit::Pages(pages) => pages,
        ConsolidationLimit::Auto => suggested(&counts.values().copied().collect::<Vec<u32>>()),
    };
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

    #[test]
    fn the_limit_follows_the_distribution() {
        assert_eq!(suggested(&[1; 512]), 2, "one page in each: all of them");
        assert_eq!(suggested(&[512; 100]), 1, "all are full: none");
        assert_eq!(suggested(&[]), 1);
        // 100 regions of 5 pages make one; those of 400 would save a fifth of them with much effort.
        let mut counts = vec![5; 100];
        counts.extend([400; 10]);
        assert_eq!(suggested(&counts), 6);
        counts.extend([60; 100]);
        assert_eq!(suggested(&counts), 61);
    }

    #[test]
    fn limits_are_read_and_written() {
        for (text, limit) in
            [("auto", ConsolidationLimit::Auto), ("290", ConsolidationLimit::Pages(290))]
        {
            assert_eq!(ConsolidationLimit::parse(text), Ok(limit));
            assert_eq!(limit.to_string(), text);
        }
        for text in ["", "0", "513", "-1", "all"] {
            assert!(ConsolidationLimit::parse(text).unwrap_err().contains("hint: "), "{text}");
        }
    }
}
