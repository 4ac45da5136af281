//! `pet-oracle`: what demotion by allocation can save at best (PET, Doh et al., EuroSys '25, section 3.2, Fig. 3).
//!
//! There, programs were changed to demote an object when it begins not to be accessed, and to promote
//! it before it is again. Here, as each epoch begins, allocations that are not accessed in it and the
//! following ones, `horizon` together, leave fast memory, and others come back.
//!
//! Not a bound: it looks no further than its horizon, and allocations move whole.

use super::blocks::{Block, Blocks, Faults, State};
use super::queue::Queue;
use super::units::units_in;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::{Backing, Event};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::policy::contract::{MetricSink, PageSize, Policy, PolicyError};
use crate::policy::entry::{Entry, Group};
use crate::policy::facts::{Facts, Telemetry};
use crate::policy::offer::Offer;
use crate::policy::offline::oracle;
use crate::policy::oracle::{EpochReader, Oracle};
use crate::policy::settings::Settings;
use crate::policy::suited;
use crate::types::*;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// `pet-oracle`.
pub const ENTRY: Entry = Entry {
    name: "pet-oracle",
    group: Group::Offline,
    summary: "allocations are demoted while they are idle, and back before they are not",
    citation: "Doh et al., PET, EuroSys '25 (section 3.2)",
    pages: Some(PageSize::Base),
    params: &[
        Param::fixed("horizon", Kind::Count, "8", "epochs", "looked ahead"),
        Param::fixed("least", Kind::Bytes, "128KiB", "", "allocation that is managed"),
    ],
    preset: &[],
    suits: suited::anywhere,
    facts: |_| Facts {
        needs: Telemetry { offline: true, allocation_extents: true, ..Telemetry::default() },
        ..Facts::default()
    },
    build: |settings, context| Ok(Box::new(PetOracle::new(settings, context)?)),
};

/// The oracle; made by [`crate::policy::make`].
struct PetOracle {
    oracle: Arc<dyn Oracle>,
    epochs: Option<EpochReader>,
    horizon: u64,
    /// What is accessed in the coming epochs, by their numbers.
    coming: VecDeque<(u64, Vec<PageRun>)>,
    least: u32,
    blocks: Blocks,
    /// The epoch that has begun, until its moves are planned.
    begun: Option<u64>,
    wakes: bool,
    returning: Queue,
    leaving: Queue,
    demoted: u64,
    promoted: u64,
}

impl PetOracle {
    fn new(settings: &Settings, context: &Offer) -> Result<Self, PolicyError> {
        let least = Bytes(settings.count("least")).pages().0;
        Ok(Self {
            oracle: oracle(settings, context)?,
            epochs: None,
            coming: VecDeque::new(),
            horizon: settings.count("horizon").max(1),
            least: u32::try_from(least).unwrap_or(u32::MAX),
            blocks: Blocks::default(),
            begun: None,
            wakes: false,
            returning: Queue::new(TierId::FAST, Lane::PROMOTE),
            leaving: Queue::new(TierId::FAST.slower(), Lane::DEMOTE),
            demoted: 0,
            promoted: 0,
        })
    }

    /// First pages of blocks that are accessed in the epochs from this one on.
    fn accessed(&mut self, epoch: u64) -> BTreeSet<PageId> {
        let read = self.epochs.get_or_insert_with(|| self.oracle.epochs());
        while self.coming.front().is_some_and(|(number, _)| *number < epoch) {
            self.coming.pop_front();
        }
        let known = self.coming.back().map_or(epoch, |(number, _)| number + 1);
        for number in known..epoch.saturating_add(self.horizon) {
            let mut runs: Vec<PageRun> = Vec::new();
            let there = read(number, &mut |saving| match runs.last_mut() {
                Some(run) if run.end() == saving.page.0 => run.pages += 1,
                _ => runs.push(PageRun::single(saving.page)),
            });
            if !there {
                break;
            }
            self.coming.push_back((number, runs));
        }
        let mut accessed = BTreeSet::new();
        for run in self.coming.iter().flat_map(|(_, runs)| runs) {
            let mut next = run.start;
            while next.0 < run.end() {
                let block = self.blocks.of(next).map(|block| block.run);
                accessed.extend(block.map(|run| run.start));
                next = PageId(block.map_or(next.0 + 1, |run| run.end()));
            }
        }
        accessed
    }

    fn judge(&mut self, epoch: u64, view: &View<'_>) {
        let accessed = self.accessed(epoch);
        for block in self.blocks.iter_mut() {
            let idle =
                !accessed.contains(&block.run.start) && units_in(block.run, view).next().is_some();
            if idle && !block.is_demoted() {
                *block = Block { run: block.run, state: State::Demoted(Faults::default()) };
                self.leaving.push(block.run);
                self.demoted += 1;
            } else if !idle && block.is_demoted() {
                *block = Block::normal(block.run);
                self.promoted += 1;
            }
            // Among them may be what was on its way out when the block came back.
            if !idle && view.first_in(TierId::FAST.slower(), block.run).is_some() {
                self.returning.push(block.run);
            }
        }
    }
}

impl Policy for PetOracle {
    fn observe(&mut self, _: Nanos, events: &[Event], _: &View<'_>) {
        for event in events {
            match event {
                Event::Mapped { run, backing: Backing::Anonymous, .. }
                    if run.pages >= self.least =>
                {
                    self.blocks.allocate(*run, u32::MAX);
                }
                Event::Unmapped { run } => {
                    self.blocks.take(*run);
                }
                Event::Remapped { from, to } => self.blocks.remap(*from, *to),
                Event::Epoch { number } => {
                    self.begun = Some(*number);
                    self.wakes = true;
                }
                // There may be room for what waits.
                Event::MigrationDone { .. } => self.wakes = true,
                _ => {}
            }
        }
    }

    fn decide(&mut self, _: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        self.wakes = false;
        if let Some(epoch) = self.begun.take() {
            self.judge(epoch, view);
        }
        let blocks = &mut self.blocks;
        self.returning.run(&mut budget, view, plan, |page| {
            blocks.of(page).is_some_and(|block| !block.is_demoted())
        });
        self.leaving.run(&mut budget, view, plan, |page| {
            blocks.of(page).is_some_and(|block| block.is_demoted())
        });
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        self.wakes.then_some(Nanos::ZERO)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        sink("demoted_blocks_total", self.demoted as f64);
        sink("promoted_blocks_total", self.promoted as f64);
    }

    fn metadata_bytes(&self) -> Bytes {
        let runs: usize = self.coming.iter().map(|(_, runs)| runs.capacity()).sum();
        let coming = Bytes((runs * size_of::<PageRun>()) as u64);
        self.blocks.bytes() + self.returning.bytes() + self.leaving.bytes() + coming
    }
}
