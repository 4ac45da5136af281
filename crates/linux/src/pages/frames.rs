//! NUMA nodes of frames of physical memory.
//!
//! With frame numbers from the page table this answers ten times as fast as asking for every page.
//!
//! Source: `/proc/zoneinfo`, `zoneinfo_show_print` in the kernel's `mm/vmstat.c`.

use crate::{LinuxError, Root};
use std::ops::Range;

/// Frames of all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameNodes {
    /// Ascending and free of overlap, with the node of each.
    ranges: Vec<(Range<u64>, u32)>,
}

impl FrameNodes {
    /// Reads which frames which node has.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where nodes have frames in between each other's: ask for every
    /// page then.
    pub fn read(root: &Root) -> Result<Self, LinuxError> {
        let path = "/proc/zoneinfo";
        let mut ranges = parse(&root.read(path)?);
        ranges.sort_unstable_by_key(|(range, _)| (range.start, range.end));
        let apart =
            |pair: &[(Range<u64>, u32)]| pair[0].0.end <= pair[1].0.start || pair[0].1 == pair[1].1;
        if ranges.windows(2).all(apart) && !ranges.is_empty() {
            return Ok(Self { ranges });
        }
        Err(LinuxError::Unsupported {
            what: format!("{} does not tell the nodes of frames apart", root.path(path).display()),
            hint: "pages are looked up one by one instead".into(),
        })
    }

    /// Ranges of frames, ascending, with the node of each.
    pub fn ranges(&self) -> &[(Range<u64>, u32)] {
        &self.ranges
    }

    /// Node of a frame; `None` outside of all memory.
    pub fn node_of(&self, frame: u64) -> Option<u32> {
        let after = self.ranges.partition_point(|(range, _)| range.start <= frame);
        let (range, node) = self.ranges.get(after.checked_sub(1)?)?;
        range.contains(&frame).then_some(*node)
    }
}

/// Spans of zones: a header `Node 0, zone  Normal`, and below it among others `spanned  N` and
/// `start_pfn:  N`, of which the latter comes last. Zones without memory span nothing.
fn parse(text: &str) -> Vec<(Range<u64>, u32)> {
    let mut ranges = Vec::new();
    let (mut node, mut spanned) = (0, 0);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            let number = rest.split(',').next().and_then(|text| text.parse().ok());
            (node, spanned) = (number.unwrap_or(0), 0);
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let (name, number) = (words.next(), words.next().and_then(|text| text.parse::<u64>().ok()));
        match (name, number) {
            (Some("spanned"), Some(pages)) => spanned = pages,
            (Some("start_pfn:"), Some(start)) if spanned > 0 => {
                ranges.push((start..start.saturating_add(spanned), node));
            }
            _ => {}
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::moves::migrate::{NodeStatus, nodes_of};
    use crate::pages::pagemap::Pagemap;
    use crate::testing::Tree;
    use frostline_core::span::Span;
    use frostline_testing::{Requirement, skip};

    fn zone(node: u32, name: &str, start: u64, spanned: u64) -> String {
        format!(
            "Node {node}, zone {name}\n  pages free     3840\n        spanned  {spanned}\n        \
             present  1\n  pagesets\n    cpu: 0\n  node_unreclaimable:  0\n  start_pfn:  {start}\n"
        )
    }

    fn read(zones: &[String]) -> Result<FrameNodes, LinuxError> {
        let tree = Tree::new();
        tree.file("proc/zoneinfo", zones.concat());
        FrameNodes::read(tree.root())
    }

    #[test]
    fn frames_belong_to_the_node_whose_zone_spans_them() {
        let frames = read(&[
            zone(1, "Normal", 1000, 500),
            zone(0, "DMA", 1, 99),
            zone(0, "Normal", 100, 400),
            zone(0, "Movable", 0, 0),
        ])
        .expect("apart");
        let nodes = [0, 1, 99, 100, 499, 500, 999, 1000, 1499, 1500];
        let expected =
            [None, Some(0), Some(0), Some(0), Some(0), None, None, Some(1), Some(1), None];
        assert_eq!(nodes.map(|frame| frames.node_of(frame)), expected);
    }

    #[test]
    fn nodes_in_between_each_other_are_refused() {
        assert!(read(&[zone(0, "Normal", 0, 100), zone(1, "Normal", 50, 10)]).is_err());
        assert!(read(&[zone(0, "Normal", 0, 0)]).is_err());
        assert!(read(&[]).is_err());
    }

    #[test]
    fn the_kernel_agrees() {
        let root = Root::system();
        let target = Target::open(&root, std::process::id()).expect("runs");
        let mut pagemap = Pagemap::open(&target).expect("ours");
        let data = vec![1_u8; 100 * 4096];
        let start = data.as_ptr() as u64;
        let span = Span::of_addresses(start, start + data.len() as u64);
        let pages: Vec<_> = span.iter().collect();
        let (frames, asked) = match (FrameNodes::read(&root), nodes_of(&target, &pages)) {
            (Ok(frames), Ok(asked)) => (frames, asked),
            (frames, asked) => {
                let why = format!("{:?} {:?}", frames.err(), asked.err());
                return skip(Requirement::Frames, why);
            }
        };
        let mut entries = Vec::new();
        pagemap.read(span, &mut entries).expect("runs");
        if !frostline_testing::frames() {
            return;
        }
        assert!(entries[0].pfn().is_some(), "frames are told");
        for (entry, asked) in entries.iter().zip(asked) {
            let node = entry.pfn().and_then(|frame| frames.node_of(frame));
            assert_eq!(node.map(NodeStatus::Node), Some(asked));
        }
    }
}
