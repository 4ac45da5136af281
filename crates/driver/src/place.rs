//! Places of tiers, and moves between them.

use frostline_core::event::MoveOutcome;
use frostline_core::span::{Span, push_run};
use frostline_core::types::*;
use frostline_daemon::{Found, Unit};
use frostline_linux::moves::advise::{bring_in_verified, page_out_together};
use frostline_linux::moves::migrate::{NodeStatus, move_to_node, nodes_of};
use frostline_linux::pages::folio::{CollapseOutcome, Folios, SplitOutcome};
use frostline_linux::pages::frames::FrameNodes;
use frostline_linux::pages::pagemap::{Categories, PageEntry, Pagemap};
use frostline_linux::process::Target;
use frostline_linux::swap::{self, SwapDevice};
use frostline_linux::topology::Topology;
use frostline_linux::{LinuxError, Root};
use std::path::{Path, PathBuf};

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

/// What became of pages that were to move, and of how many runs each interrupted whoever ran.
pub type Carried = (Vec<(Span, MoveOutcome)>, u64);

/// The places of all tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The fastest first; swap only as the last.
    pub tiers: Vec<Place>,
    /// The only swap device that pages shall go to; `None` for whichever the kernel takes.
    pub device: Option<PathBuf>,
    /// Room in swap that is only counted on, and never used: that of a device that a dry run does without, or none at
    /// all where nothing shall be moved.
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

    /// Whether what leaves memory is compressed and goes nowhere else.
    pub fn compresses(&self) -> bool {
        let name = self.device.as_deref().and_then(Path::file_name);
        let zram = name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"zram"));
        zram && self.tiers == [Place::Memory, Place::Swap]
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

    /// Where the pages at the beginning of `span` are, until `most` pages are found: runs in ascending
    /// order, pages in no tier left out. The zero page is in no tier. Gives what was looked at, as
    /// [`Pagemap::places_within`].
    ///
    /// # Errors
    /// Where the process has ended, or may not be looked into.
    pub fn find(
        &self,
        target: &Target,
        pagemap: &mut Pagemap,
        span: Span,
        most: u64,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<Span, LinuxError> {
        let mut places = Vec::new();
        let looked = pagemap.places_within(span, most, &mut places)?;
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
        Ok(looked)
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
            frostline_daemon::by_region(span).collect()
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
            for unit in frostline_daemon::by_region(span) {
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

    /// Moves pages of one process to a tier, which holds `taken` of all targets, and tells, page by
    /// page, where that ended: every page exactly once, in the order of `units`. What is reported as
    /// moved was found there.
    ///
    /// # Errors
    /// Where the process has ended; where rights are missing.
    pub fn move_to(
        &self,
        target: &Target,
        pagemap: &mut Pagemap,
        units: &[Unit],
        to: TierId,
        taken: PageCount,
    ) -> Result<Carried, LinuxError> {
        let spans = || -> Vec<Span> { units.iter().map(|unit| unit.span).collect() };
        match self.tiers[to.index()] {
            Place::Swap => self.page_out(target, pagemap, units, taken),
            Place::Memory => Ok((bring_in_verified(target, pagemap, &spans())?, 0)),
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
                Ok((folios.into_iter().zip(outcomes).collect(), 0))
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
        taken: PageCount,
    ) -> Result<Carried, LinuxError> {
        let all: Vec<Span> = units.iter().map(|unit| unit.span).collect();
        if self.planned.is_some() {
            return Ok((all.into_iter().map(|span| (span, MoveOutcome::NoSpace)).collect(), 0));
        }
        if self.device.is_none() {
            return page_out_together(target, pagemap, &all);
        }
        let devices = swap::devices(target.root())?;
        let room = self.room(&devices, taken).pages().0;
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
        let mut done = Carried::default();
        if !fitting.is_empty() {
            done = page_out_together(target, pagemap, &fitting)?;
        }
        done.0.extend(rest.into_iter().map(|span| (span, MoveOutcome::NoSpace)));
        Ok(done)
    }

    /// Room for more than the `taken` pages that are in swap, where pages shall go.
    ///
    /// Nobody can tell the kernel which device a page goes to: those of the highest priority are
    /// filled first. Where pages shall go to one device only, its size bounds what is out of ours;
    /// what others have on it, and ours on compressed memory that somebody set up later, evens out.
    /// As long as any other device comes first, nothing goes out at all.
    fn room(&self, devices: &[SwapDevice], taken: PageCount) -> Bytes {
        let free = |device: &SwapDevice| device.size.saturating_sub(device.used);
        let Some(own) = &self.device else {
            return Bytes(devices.iter().map(|d| free(d).0).fold(0, u64::saturating_add));
        };
        let Some(own) = devices.iter().find(|device| device.path == *own) else {
            return Bytes::ZERO;
        };
        let not_later = |device: &&SwapDevice| device.priority >= own.priority;
        let first = || devices.iter().filter(not_later);
        if first().any(|device| !is_compressed(device) && free(device) > Bytes::ZERO) {
            return Bytes::ZERO;
        }
        let all = Bytes(first().map(|device| free(device).0).fold(0, u64::saturating_add));
        own.size.saturating_sub(taken.bytes()).min(all)
    }

    /// Memory that a tier has left, which holds `taken` of all targets.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn free(&self, root: &Root, tier: TierId, taken: PageCount) -> Result<Bytes, LinuxError> {
        match self.tiers[tier.index()] {
            Place::Swap => match self.planned {
                Some(room) => Ok(room),
                None => Ok(self.room(&swap::devices(root)?, taken)),
            },
            Place::Node(node) => {
                let topology = Topology::read(root)?;
                Ok(topology.node(node).map_or(Bytes::ZERO, |node| Bytes(node.free_bytes)))
            }
            Place::Memory => Ok(Bytes::MAX),
        }
    }
}

/// Whether a swap device keeps pages in memory, smaller.
fn is_compressed(device: &SwapDevice) -> bool {
    device.path.to_str().is_some_and(|path| path.starts_with("/dev/zram"))
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

    const MIB: u64 = 1 << 20;

    fn device(path: &str, size: u64, used: u64, priority: i32) -> SwapDevice {
        let (size, used) = (Bytes(size * MIB), Bytes(used * MIB));
        SwapDevice { path: path.into(), is_device: true, size, used, priority }
    }

    /// MiB of room beside other swap, for who has so many MiB out.
    fn room(own: Option<&str>, devices: &[SwapDevice], taken: u64) -> u64 {
        let tiers = vec![Place::Memory, Place::Swap];
        let device = own.map(Into::into);
        let places = Places { tiers, device, planned: None, frames: None };
        places.room(devices, Bytes(taken * MIB).pages()).0 / MIB
    }

    #[test]
    fn only_the_device_that_pages_shall_go_to_counts() {
        let devices = [device("/dev/zram0", 100, 90, 100), device("/swap", 1000, 0, -2)];
        assert_eq!(room(None, &devices, 90), 1010);
        assert_eq!(room(Some("/dev/zram0"), &devices, 90), 10);
        assert_eq!(room(Some("/dev/zram0"), &devices[1..], 90), 0, "it is gone");
    }

    #[test]
    fn beside_another_compressed_device_no_more_goes_out_than_fits_on_ours() {
        // Of a frostline that was started later, and gets all pages.
        let mut devices = [device("/dev/zram0", 100, 0, 100), device("/dev/zram1", 1000, 400, 101)];
        assert_eq!(room(Some("/dev/zram0"), &devices, 0), 100);
        assert_eq!(room(Some("/dev/zram0"), &devices, 90), 10);
        assert_eq!(room(Some("/dev/zram0"), &devices, 100), 0);
        // What its program has on ours takes nothing from us as long as it has room itself.
        devices[0].used = Bytes(100 * MIB);
        assert_eq!(room(Some("/dev/zram0"), &devices, 20), 80);
        devices[1].used = Bytes(990 * MIB);
        assert_eq!(room(Some("/dev/zram0"), &devices, 20), 10);
        // The other way round, it does: nobody can tell its pages to go elsewhere.
        assert_eq!(room(Some("/dev/zram1"), &devices, 0), 10);
    }

    #[test]
    fn nothing_goes_out_while_a_disk_is_filled_before_our_device() {
        for priority in [100, 101] {
            let mut devices =
                [device("/dev/zram0", 100, 0, 100), device("/dev/sda2", 1000, 0, priority)];
            assert_eq!(room(Some("/dev/zram0"), &devices, 0), 0);
            assert_eq!(room(None, &devices, 0), 1100);
            devices[1].used = devices[1].size;
            assert_eq!(room(Some("/dev/zram0"), &devices, 0), 100, "it is full");
        }
    }
}
