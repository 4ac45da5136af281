//! Validator of journals: the engine trusts its world, and a file is no world.

use super::{Entry, Setup};
use frostline_core::engine::MOST_TIER_PAGES;
use frostline_core::event::{Event, Fault};
use frostline_core::limit::BYTES_PER_PAGE;
use frostline_core::types::*;
use frostline_core::{Limit, LimitError};

/// Page ids that each byte of a journal accounts for: 16 MiB of memory.
const PAGES_PER_BYTE: u64 = 1 << 12;
/// Latest time, in nanoseconds: 146 years.
const LATEST: Nanos = Nanos(1 << 62);
/// Most accesses or samples that an event may count.
const MOST_COUNTED: u64 = 1 << 40;
/// Regions that page ids reach.
const REGIONS: u64 = (1 << 32) / HUGE_PAGES as u64;

/// Follows a journal and says what of it cannot be.
#[derive(Debug)]
pub(super) struct Validator {
    limit: Limit,
    tiers: usize,
    /// Length of the journal as far as it is known, which accounts for page ids.
    len_bytes: u64,
}

/// What cannot be, and what helps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) hint: String,
}

impl Wrong {
    fn damaged(what: impl Into<String>) -> Self {
        let hint = "the journal is damaged; write one with `frostline run --journal FILE`";
        Self { what: what.into(), hint: hint.into() }
    }
}

impl From<LimitError> for Wrong {
    fn from(error: LimitError) -> Self {
        let text = error.to_string();
        match text.split_once("\nhint: ") {
            Some((what, hint)) => Self { what: what.into(), hint: hint.into() },
            None => Self::damaged(text),
        }
    }
}

impl Validator {
    pub(super) fn new(limit: Limit, len_bytes: u64) -> Self {
        Self { limit, tiers: MAX_TIERS, len_bytes }
    }

    /// The same with another limit.
    pub(super) fn within(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// Checks the next entry of a journal, which ends at this byte.
    pub(super) fn check(&mut self, entry: &Entry, end: u64) -> Result<(), Wrong> {
        self.len_bytes = self.len_bytes.max(end);
        match entry {
            Entry::Setup(setup) => self.setup(setup),
            Entry::Events(now, events) => {
                time(*now)?;
                events.iter().try_for_each(|event| self.event(event))
            }
            Entry::Timeout(now) => time(*now),
            Entry::Fault(now, fault) => {
                time(*now)?;
                self.fault(fault)
            }
            Entry::Actions(_) => Ok(()),
        }
    }

    fn setup(&mut self, setup: &Setup) -> Result<(), Wrong> {
        setup.config.check().map_err(|error| Wrong::damaged(error.to_string()))?;
        setup
            .offer
            .check()
            .map_err(|error| Wrong::damaged(error.to_string().replace("\nhint: ", "; ")))?;
        self.tiers = setup.config.tiers.len();
        Ok(())
    }

    fn event(&self, event: &Event) -> Result<(), Wrong> {
        match *event {
            Event::Sample(sample) => {
                self.tier(sample.tier)?;
                self.reach(u64::from(sample.page.0) + 1)
            }
            Event::Fault(fault) => self.fault(&fault),
            Event::AccessBits(bits) => self.run(bits.run),
            Event::Mapped { run, .. }
            | Event::Unmapped { run }
            | Event::Freed { run }
            | Event::Disarmed { run }
            | Event::MigrationDone { run, .. } => self.run(run),
            Event::Populated { run, tier, .. } | Event::Moved { run, to: tier, .. } => {
                self.tier(tier)?;
                self.run(run)
            }
            Event::Remapped { from, to } => {
                self.run(from)?;
                self.run(PageRun { start: to, pages: from.pages })
            }
            Event::SplitDone { region, .. } | Event::CollapseDone { region, tier: None } => {
                self.region(region)
            }
            Event::CollapseDone { region, tier: Some(tier) } => {
                self.tier(tier)?;
                self.region(region)
            }
            Event::TierUsage { tier, capacity } => {
                self.tier(tier)?;
                match capacity <= MOST_TIER_PAGES {
                    true => Ok(()),
                    false => Err(Wrong::damaged(format!("a tier of {} pages", capacity.0))),
                }
            }
            Event::Pressure { tier } => self.tier(tier),
            Event::SamplesLost { count } => counted(count),
            Event::Counters { fast, slow } => counted(fast).and(counted(slow)),
            Event::ReadLatency { tier, reads, waited } => {
                self.tier(tier)?;
                counted(reads).and(time(waited))
            }
            Event::CpuUsage { wall, sampler } => time(wall).and(time(sampler)),
            Event::Running { cores } => counted(cores.into()),
            Event::Epoch { number } => counted(number),
            Event::Forked { .. } | Event::Exited { .. } | Event::FileClosed { .. } => Ok(()),
        }
    }

    fn fault(&self, fault: &Fault) -> Result<(), Wrong> {
        self.tier(fault.tier)?;
        self.reach(u64::from(fault.page.0) + 1)
    }

    fn tier(&self, tier: TierId) -> Result<(), Wrong> {
        match tier.index() < self.tiers {
            true => Ok(()),
            false => Err(Wrong::damaged(format!("tier {} of {}", tier.0, self.tiers))),
        }
    }

    fn region(&self, region: Region) -> Result<(), Wrong> {
        match u64::from(region.0) < REGIONS {
            true => self.reach((u64::from(region.0) + 1) * u64::from(HUGE_PAGES)),
            false => Err(Wrong::damaged(format!("region {} of {REGIONS}", region.0))),
        }
    }

    fn run(&self, run: PageRun) -> Result<(), Wrong> {
        let end = u64::from(run.start.0) + u64::from(run.pages);
        if end > u64::from(u32::MAX) {
            let (start, pages) = (run.start.0, run.pages);
            return Err(Wrong::damaged(format!(
                "{pages} pages from page {start} on, where ids end at {}",
                u32::MAX
            )));
        }
        self.reach(end)
    }

    /// Page ids below `end` are spoken of.
    fn reach(&self, end: u64) -> Result<(), Wrong> {
        let held = self.len_bytes.saturating_mul(PAGES_PER_BYTE * BYTES_PER_PAGE);
        let wanted = Bytes(end * BYTES_PER_PAGE);
        let what = || format!("page {} in a journal of {} bytes", end - 1, self.len_bytes);
        Ok(self.limit.check(wanted, Bytes(held), what)?)
    }
}

fn time(now: Nanos) -> Result<(), Wrong> {
    match now <= LATEST {
        true => Ok(()),
        false => Err(Wrong::damaged(format!("a time of {} s", now.0 / 1_000_000_000))),
    }
}

fn counted(count: u64) -> Result<(), Wrong> {
    match count <= MOST_COUNTED {
        true => Ok(()),
        false => Err(Wrong::damaged(format!("a count of {count}"))),
    }
}
