//! Least recently used: a sampled page comes to fast memory, one not sampled for long makes room.
//!
//! Belady, IBM Systems Journal 1966. Not good for scans: a page sampled once displaces one in use.

use super::contract::{PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::suited;
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::Event;
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// `lru`.
pub const ENTRY: Entry = Entry {
    name: "lru",
    group: Group::Baselines,
    summary: "sampled pages displace those that were not sampled for longest",
    citation: "Belady, IBM Systems Journal 1966",
    pages: Some(PageSize::Base),
    params: &[
        Param::fixed("period", Kind::Count, "200", "LLC load misses", "per sample"),
        Param::scaled("wakeup", Kind::Duration, "10ms", "", "interval of moves"),
    ],
    preset: &[],
    suits: suited::period_of_brief_programs,
    facts: |settings| Facts {
        needs: Telemetry { load_sample_period: settings.period("period"), ..Telemetry::default() },
        ..Facts::default()
    },
    build: |settings, _| {
        Ok(Box::new(Lru { wakeup: settings.duration("wakeup"), ..Lru::default() }))
    },
};

#[derive(Default)]
struct Lru {
    wakeup: Nanos,
    due: Nanos,
    samples: u64,
    last: Vec<u64>,    // Number of each page's last sample.
    slow: Vec<PageId>, // Sampled in slower tiers since the last moves.
}

impl Policy for Lru {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        self.last.resize(view.pages() as usize, 0);
        for event in events {
            let Event::Sample(sample) = event else { continue };
            let Some(tier) = view.state(sample.page).tier() else { continue };
            self.samples += 1;
            self.last[sample.page.index()] = self.samples;
            self.slow.extend((tier != TierId::FAST).then_some(sample.page));
        }
    }
    fn decide(&mut self, now: Nanos, view: &View<'_>, _: Budget, plan: &mut Plan) {
        self.due = now.saturating_add(self.wakeup.max(Nanos(1)));
        let all = PageRun::between(0, view.pages());
        let mut fast: Vec<PageId> = view.pages_in(TierId::FAST, all).collect();
        fast.sort_unstable_by_key(|page| core::cmp::Reverse((self.last[page.index()], page.0)));
        let room = view.free(TierId::FAST).0 as usize;
        for (at, page) in self.slow.drain(..).map(|page| view.unit(page)).enumerate() {
            match if at < room { None } else { fast.pop() } {
                Some(oldest) => plan.exchange(page, view.unit(oldest), Lane::PROMOTE),
                None => plan.migrate(page, TierId::FAST, Lane::PROMOTE),
            }
        }
    }
    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.due)
    }
    fn metadata_bytes(&self) -> Bytes {
        Bytes(((self.last.capacity() + self.slow.capacity()) * 8) as u64)
    }
}
