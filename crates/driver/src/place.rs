//! Where tiers are, and how pages get there.

use frostline_core::event::MoveOutcome;
use frostline_core::types::*;
use frostline_linux::advise::{bring_in_verified, page_out_verified};
use frostline_linux::folio::{CollapseOutcome, Folios, SplitOutcome};
use frostline_linux::frames::FrameNodes;
use frostline_linux::migrate::{NodeStatus, move_to_node, nodes_of};
use frostline_linux::pagemap::{Categories, PageEntry, Pagemap};
use frostline_linux::process::Target;
use frostline_linux::span::{Span, push_run};
use frostline_linux::swap::{self, SwapDevice};
use frostline_linux::topology::Topology;
use frostline_linux::{LinuxError, Root};
use std::path::PathBuf;

/// What holds a tier's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of any node, where all memory is of one tier.
    Memory,
    /// Memory of this node.
    Node(u32),
    /// Swap space.
    Swap,
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its tier.
    pub tier: TierId,
    /// Mapped as part of a 2 MiB folio.
    pub huge: bool,
}

/// Pages of one process that are moved in one go: consecutive base pages, or one whole folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The pages.
    pub span: Span,
    /// One folio of 2 MiB.
    pub huge: bool,
}

/// The places of all tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The fastest first; swap only as the last.
    pub tiers: Vec<Place>,
    /// The only swap device that pages shall go to; `None` for whichever the kernel takes.
    pub device: Option<PathBuf>,
    /// Room of a swap device that a dry run does without.
    pub planned: Option<Bytes>,
    /// Nodes of frames; without them the kernel is asked for every page.
    pub frames: Option<FrameNodes>,
}

impl Places {
    fn tier_of(&self, is: impl Fn(Place) -> bool) -> Option<TierId> {
        self.tiers.iter().position(|place| is(*place)).map(|tier| TierId(tier as u8))
    }

    /// The tier of swap space.
    pub fn swap(&self) -> Option<TierId> {
        self.tier_of(|place| place == Place::Swap)
    }

    /// The slowest tier.
    pub fn slowest(&self) -> TierId {
        TierId(self.tiers.len().saturating_sub(1) as u8)
    }

    /// Whether nodes have to be asked for.
    pub fn has_nodes(&self) -> bool {
        self.tiers.iter().any(|place| matches!(place, Place::Node(_)))
    }

    /// Whether a touch of a page in this tier does without a fault.
    pub fn is_direct(&self, tier: TierId) -> bool {
        self.tiers.get(tier.index()).is_some_and(|place| *place != Place::Swap)
    }

    /// Where the pages of `span` are: runs in ascending order, pages in no tier left out. The zero
    /// page is in no tier.
    ///
    /// # Errors
    /// Where the process has ended, or may not be looked into.
    pub fn find(
        &self,
        target: &Target,
        pagemap: &mut Pagemap,
        span: Span,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<(), LinuxError> {
        let mut places = Vec::new();
        pagemap.places(span, &mut places)?;
        let swap = self.swap();
        let memory = self.tier_of(|place| place == Place::Memory);
        for (span, categories) in places {
            let huge = categories.has(Categories::HUGE);
            if categories.has(Categories::SWAPPED) {
                if let Some(tier) = swap {
                    push_run(runs, span, Found { tier, huge: false });
                }
            } else if categories.has(Categories::ZERO) || !categories.has(Categories::PRESENT) {
            } else if self.has_nodes() {
                self.find_nodes(target, pagemap, span, huge, runs)?;
            } else if let Some(tier) = memory {
                push_run(runs, span, Found { tier, huge });
            }
        }
        Ok(())
    }

    fn find_nodes(
        &self,
        target: &Target,
        pagemap: &mut Pagemap,
        span: Span,
        huge: bool,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<(), LinuxError> {
        let before = runs.len();
        if self.find_frames(pagemap, span, huge, runs)? {
            return Ok(());
        }
        // At least one page is not known by its frame.
        runs.truncate(before);
        let units: Vec<Span> = if huge {
            crate::address_map::by_region(span).collect()
        } else {
            span.iter().map(Span::single).collect()
        };
        let heads: Vec<Vpn> = units.iter().map(|unit| unit.start).collect();
        for (unit, status) in units.into_iter().zip(nodes_of(target, &heads)?) {
            let NodeStatus::Node(node) = status else { continue };
            push_run(runs, unit, Found { tier: self.tier_of_node(node), huge });
        }
        Ok(())
    }

    /// Finds pages by their frames, which takes a tenth of the time; whether all were found.
    fn find_frames(
        &self,
        pagemap: &mut Pagemap,
        span: Span,
        huge: bool,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<bool, LinuxError> {
        let Some(frames) = &self.frames else { return Ok(false) };
        let mut all = true;
        let mut push = |unit: Span, entry: PageEntry| match entry
            .pfn()
            .and_then(|frame| frames.node_of(frame))
        {
            Some(node) => push_run(runs, unit, Found { tier: self.tier_of_node(node), huge }),
            None => all = false,
        };
        if huge {
            for unit in crate::address_map::by_region(span) {
                push(unit, pagemap.page(unit.start)?);
            }
        } else {
            pagemap.for_each(span, |page, entry| push(Span::single(page), entry))?;
        }
        Ok(all)
    }

    fn tier_of_node(&self, node: u32) -> TierId {
        self.tier_of(|place| place == Place::Node(node)).unwrap_or(TierId::FAST)
    }

    /// Moves pages of one process to a tier and tells, page by page, where that ended: every page
    /// exactly once, in the order of `units`. What is reported as moved was found there.
    ///
    /// # Errors
    /// Where the process has ended; where rights are missing.
    pub fn move_to(
        &self,
        target: &Target,
        pagemap: &mut Pagemap,
        units: &[Unit],
        to: TierId,
    ) -> Result<Vec<(Span, MoveOutcome)>, LinuxError> {
        let spans = || -> Vec<Span> { units.iter().map(|unit| unit.span).collect() };
        match self.tiers[to.index()] {
            Place::Swap => self.page_out(target, pagemap, units),
            Place::Memory => bring_in_verified(target, pagemap, &spans()),
            Place::Node(node) => {
                if self.swap().is_some() {
                    // The kernel moves what is in memory only.
                    bring_in_verified(target, pagemap, &spans())?;
                }
                // The kernel moves a whole folio for one of its addresses.
                let folios: Vec<Span> = units
                    .iter()
                    .flat_map(|unit| {
                        let pages = if unit.huge { unit.span.pages } else { 1 };
                        unit.span.pieces(pages)
                    })
                    .collect();
                let heads: Vec<Vpn> = folios.iter().map(|folio| folio.start).collect();
                let outcomes = move_to_node(target, &heads, node)?;
                Ok(folios.into_iter().zip(outcomes).collect())
            }
        }
    }

    /// Pages out what there is room for. The kernel puts what does not fit on a device onto the
    /// next: where pages shall go to one only, no more are offered than it has room for.
    fn page_out(
        &self,
        target: &Target,
        pagemap: &mut Pagemap,
        units: &[Unit],
    ) -> Result<Vec<(Span, MoveOutcome)>, LinuxError> {
        let all: Vec<Span> = units.iter().map(|unit| unit.span).collect();
        if self.device.is_none() {
            return page_out_verified(target, pagemap, &all);
        }
        let devices = swap::devices(target.root())?;
        let room = self.room(&devices).pages().0;
        if devices.len() > 1 {
            // A folio is paged out in one piece, to the first device that has such a piece left.
            let folios = units.iter().filter(|unit| unit.huge).map(|unit| unit.span.start);
            let folios: Vec<Vpn> = folios.collect();
            if let (false, Ok(mut splitter)) =
                (folios.is_empty(), Folios::new(target, pagemap, None))
            {
                splitter.split(&folios)?;
            }
        }
        let (fitting, rest) = cut(&all, room);
        let mut outcomes =
            if fitting.is_empty() { vec![] } else { page_out_verified(target, pagemap, &fitting)? };
        outcomes.extend(rest.into_iter().map(|span| (span, MoveOutcome::NoSpace)));
        Ok(outcomes)
    }

    /// What is free on the swap devices that pages shall go to.
    fn room(&self, devices: &[SwapDevice]) -> Bytes {
        let ours =
            |device: &&SwapDevice| self.device.as_ref().is_none_or(|own| *own == device.path);
        let free = devices.iter().filter(ours).map(|d| d.size.saturating_sub(d.used).0);
        Bytes(free.sum())
    }

    /// Memory that a tier has left.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn free(&self, root: &Root, tier: TierId) -> Result<Bytes, LinuxError> {
        match self.tiers[tier.index()] {
            Place::Swap => match self.planned {
                Some(room) => Ok(room),
                None => Ok(self.room(&swap::devices(root)?)),
            },
            Place::Node(node) => {
                let topology = Topology::read(root)?;
                Ok(topology.node(node).map_or(Bytes::ZERO, |node| Bytes(node.free_bytes)))
            }
            Place::Memory => Ok(Bytes::MAX),
        }
    }
}

/// The first `pages` pages of `spans`, and the rest.
fn cut(spans: &[Span], pages: u64) -> (Vec<Span>, Vec<Span>) {
    let mut left = pages;
    let (mut head, mut rest) = (Vec::new(), Vec::new());
    for span in spans {
        let part = Span::new(span.start, span.pages.min(left));
        left -= part.pages;
        let after = Span::between(part.end(), span.end());
        head.extend(Some(part).filter(|part| !part.is_empty()));
        rest.extend(Some(after).filter(|after| !after.is_empty()));
    }
    (head, rest)
}

/// Splits the folio of a region, or makes one of its pages; whether that was found done
/// afterwards.
///
/// # Errors
/// Where the process has ended; where this kernel does not tell huge folios from others.
pub fn reshape(
    target: &Target,
    pagemap: &mut Pagemap,
    page: Vpn,
    split: bool,
) -> Result<bool, LinuxError> {
    let mut folios = Folios::new(target, pagemap, None)?;
    Ok(if split {
        folios.split(&[page])?.first() == Some(&SplitOutcome::Split)
    } else {
        folios.collapse(&[page])?.first() == Some(&CollapseOutcome::Collapsed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_where_room_ends() {
        let spans = [Span::new(Vpn(10), 4), Span::new(Vpn(20), 4)];
        let (head, rest) = cut(&spans, 6);
        assert_eq!(head, [Span::new(Vpn(10), 4), Span::new(Vpn(20), 2)]);
        assert_eq!(rest, [Span::new(Vpn(22), 2)]);
        assert_eq!(cut(&spans, 0), (vec![], spans.to_vec()));
        assert_eq!(cut(&spans, 8), (spans.to_vec(), vec![]));
        assert_eq!(cut(&spans, 4), (vec![spans[0]], vec![spans[1]]));
    }

    #[test]
    fn only_the_device_that_pages_shall_go_to_counts() {
        let device = |path: &str, size, used| SwapDevice {
            path: path.into(),
            is_device: true,
            size: Bytes(size),
            used: Bytes(used),
            priority: 0,
        };
        let devices = [device("/dev/zram0", 100, 90), device("/swap", 1000, 0)];
        let tiers = vec![Place::Memory, Place::Swap];
        let mut places = Places { tiers, device: None, planned: None, frames: None };
        assert_eq!(places.room(&devices), Bytes(1010));
        places.device = Some("/dev/zram0".into());
        assert_eq!(places.room(&devices), Bytes(10));
        assert_eq!(places.room(&devices[1..]), Bytes::ZERO, "it is gone");
    }
}
