//! Where tiers are, and how pages get there.

use frostline_core::event::MoveOutcome;
use frostline_core::types::*;
use frostline_linux::advise::{bring_in_verified, page_out_verified};
use frostline_linux::folio::{CollapseOutcome, Folios, SplitOutcome};
use frostline_linux::migrate::{NodeStatus, move_to_node, nodes_of};
use frostline_linux::pagemap::{Categories, Pagemap};
use frostline_linux::process::Target;
use frostline_linux::span::{Span, push_run};
use frostline_linux::topology::Topology;
use frostline_linux::{LinuxError, Root, swap};

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

/// The places of all tiers, the fastest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(pub Vec<Place>);

impl Places {
    fn tier_of(&self, is: impl Fn(Place) -> bool) -> Option<TierId> {
        self.0.iter().position(|place| is(*place)).map(|tier| TierId(tier as u8))
    }

    /// Whether nodes have to be asked for.
    fn has_nodes(&self) -> bool {
        self.0.iter().any(|place| matches!(place, Place::Node(_)))
    }

    /// Whether a touch of a page in this tier does without a fault.
    pub fn is_direct(&self, tier: TierId) -> bool {
        self.0.get(tier.index()).is_some_and(|place| *place != Place::Swap)
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
        let swap = self.tier_of(|place| place == Place::Swap);
        let memory = self.tier_of(|place| place == Place::Memory);
        for (span, categories) in places {
            let huge = categories.has(Categories::HUGE);
            if categories.has(Categories::SWAPPED) {
                if let Some(tier) = swap {
                    push_run(runs, span, Found { tier, huge: false });
                }
            } else if categories.has(Categories::ZERO) || !categories.has(Categories::PRESENT) {
            } else if self.has_nodes() {
                self.find_nodes(target, span, huge, runs)?;
            } else if let Some(tier) = memory {
                push_run(runs, span, Found { tier, huge });
            }
        }
        Ok(())
    }

    fn find_nodes(
        &self,
        target: &Target,
        span: Span,
        huge: bool,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<(), LinuxError> {
        let units: Vec<Span> = if huge {
            crate::address_map::by_region(span).collect()
        } else {
            span.iter().map(Span::single).collect()
        };
        let heads: Vec<Vpn> = units.iter().map(|unit| unit.start).collect();
        for (unit, status) in units.into_iter().zip(nodes_of(target, &heads)?) {
            let NodeStatus::Node(node) = status else { continue };
            let tier = self.tier_of(|place| place == Place::Node(node)).unwrap_or(TierId::FAST);
            push_run(runs, unit, Found { tier, huge });
        }
        Ok(())
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
        match self.0[to.index()] {
            Place::Swap => page_out_verified(target, pagemap, &spans()),
            Place::Memory => bring_in_verified(target, pagemap, &spans()),
            Place::Node(node) => {
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

/// Memory that a slow tier has left.
///
/// # Errors
/// Where the kernel does not tell.
pub fn free(root: &Root, place: Place) -> Result<Bytes, LinuxError> {
    match place {
        Place::Swap => {
            let devices = swap::devices(root)?;
            Ok(Bytes(devices.iter().map(|d| d.size.saturating_sub(d.used).0).sum()))
        }
        Place::Node(node) => {
            let topology = Topology::read(root)?;
            Ok(topology.node(node).map_or(Bytes::ZERO, |node| Bytes(node.free_bytes)))
        }
        Place::Memory => Ok(Bytes::MAX),
    }
}
