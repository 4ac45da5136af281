//! Kernel with processes, address space, pages and tiers. It keeps the truth.

use frostline_core::event::Backing;
use frostline_core::span::{ExtentChange, REGION_PAGES, Span};
use frostline_core::types::*;
use std::collections::BTreeMap;

/// Page that is in a tier: the tier, and [`HUGE`]. 0 is no page.
pub type Page = u8;
/// Part of a folio of 2 MiB.
pub const HUGE: Page = 1 << 4;

/// A page in a tier.
pub const fn page_in(tier: TierId) -> Page {
    tier.0 + 1
}

/// Tier of a page.
pub fn tier_of(page: Page) -> Option<TierId> {
    (page & !HUGE).checked_sub(1).map(TierId)
}

/// Address space of a process.
#[derive(Clone, Debug)]
pub struct Area {
    /// Backing of all its pages.
    pub backing: Backing,
    /// One entry for each page of it.
    pub pages: Vec<Page>,
}

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Number of the page table: another one for each program that is executed.
    pub table: u64,
    /// Address space by its first page.
    pub areas: BTreeMap<u64, Area>,
}

impl Process {
    /// Mappings, ascending.
    pub fn mappings(&self) -> impl Iterator<Item = (Span, Backing)> {
        let span = |(start, area): (&u64, &Area)| {
            (Span::new(Vpn(*start), area.pages.len() as u64), area.backing)
        };
        self.areas.iter().map(span)
    }

    /// The page at an address; 0 for none.
    pub fn page(&self, vpn: Vpn) -> Page {
        let area = self.areas.range(..=vpn.0).next_back();
        area.and_then(|(start, area)| area.pages.get((vpn.0 - start) as usize))
            .copied()
            .unwrap_or(0)
    }

    fn page_mut(&mut self, vpn: Vpn) -> Option<&mut Page> {
        let (start, area) = self.areas.range_mut(..=vpn.0).next_back()?;
        area.pages.get_mut((vpn.0 - start) as usize)
    }

    /// Whether nothing is mapped in a span.
    pub fn is_free(&self, span: Span) -> bool {
        self.mappings().all(|(other, _)| other.intersect(span).is_empty())
    }
}

/// A tier.
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    /// Pages that fit.
    pub capacity: u64,
    /// Pages of all processes.
    pub used: u64,
    /// Pages of others.
    pub others: u64,
}

impl Tier {
    /// Pages that still fit.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used + self.others)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Tiers, the fastest first.
    pub tiers: Vec<Tier>,
    /// The tier of swap space.
    pub swap: Option<TierId>,
    /// Pages that may be in swap.
    pub swap_limit: u64,
    /// Processes that run.
    pub processes: BTreeMap<u32, Process>,
    tables: u64,
}

impl Kernel {
    /// Without a process.
    pub fn new(capacities: &[u64], swap: Option<TierId>) -> Self {
        let tier = |capacity: &u64| Tier { capacity: *capacity, used: 0, others: 0 };
        Self {
            tiers: capacities.iter().map(tier).collect(),
            swap,
            swap_limit: u64::MAX,
            processes: BTreeMap::new(),
            tables: 0,
        }
    }

    fn next_table(&mut self) -> u64 {
        self.tables += 1;
        self.tables
    }

    /// Starts a process that has nothing yet.
    pub fn start(&mut self, pid: u32) {
        let table = self.next_table();
        self.processes.insert(pid, Process { table, areas: BTreeMap::new() });
    }

    /// Pages that a tier takes.
    pub fn room(&self, tier: TierId) -> u64 {
        let free = self.tiers[tier.index()].free();
        match self.swap == Some(tier) {
            true => free.min(self.swap_limit.saturating_sub(self.tiers[tier.index()].used)),
            false => free,
        }
    }

    /// Sets one page, which is mapped, and counts it.
    fn set(&mut self, pid: u32, vpn: Vpn, page: Page) {
        let Some(slot) = self.processes.get_mut(&pid).and_then(|process| process.page_mut(vpn))
        else {
            return;
        };
        let before = std::mem::replace(slot, page);
        if let Some(tier) = tier_of(before) {
            self.tiers[tier.index()].used -= 1;
        }
        if let Some(tier) = tier_of(page) {
            self.tiers[tier.index()].used += 1;
        }
    }

    /// Splits the folio of a page, if it is part of one.
    pub fn split(&mut self, pid: u32, vpn: Vpn) -> bool {
        let Some(process) = self.processes.get_mut(&pid) else { return false };
        if process.page(vpn) & HUGE == 0 {
            return false;
        }
        for vpn in Span::region_of(vpn).iter() {
            if let Some(page) = process.page_mut(vpn) {
                *page &= !HUGE;
            }
        }
        true
    }

    /// Builds a folio in the region of a page, in the tier that most of it is in, if all of it is in
    /// memory.
    pub fn collapse(&mut self, pid: u32, vpn: Vpn) -> bool {
        let region = Span::region_of(vpn);
        let Some(process) = self.processes.get(&pid) else { return false };
        let mut tiers = [0; MAX_TIERS];
        for vpn in region.iter() {
            match tier_of(process.page(vpn)) {
                Some(tier) if Some(tier) != self.swap && process.page(vpn) & HUGE == 0 => {
                    tiers[tier.index()] += 1;
                }
                _ => return false,
            }
        }
        let tier = (0..MAX_TIERS).max_by_key(|tier| tiers[*tier]).unwrap_or(0);
        if self.tiers[tier].free() < REGION_PAGES {
            return false;
        }
        for vpn in region.iter() {
            self.set(pid, vpn, page_in(TierId(tier as u8)) | HUGE);
        }
        true
    }

    /// Moves a page, and the folio that it is part of, unless there is no room.
    pub fn move_to(&mut self, pid: u32, vpn: Vpn, to: TierId) -> bool {
        let Some(process) = self.processes.get(&pid) else { return false };
        let page = process.page(vpn);
        let Some(from) = tier_of(page) else { return false };
        if from == to {
            return true;
        }
        // Swap space holds base pages.
        if page & HUGE != 0 && self.swap == Some(to) {
            self.split(pid, vpn);
        }
        let huge = self.processes[&pid].page(vpn) & HUGE;
        let span = if huge != 0 { Span::region_of(vpn) } else { Span::single(vpn) };
        if self.room(to) < span.pages {
            return false;
        }
        span.iter().for_each(|vpn| self.set(pid, vpn, page_in(to) | huge));
        true
    }

    /// The program touches a page. Gives the tier in which it was; `None` where it is not mapped or
    /// there is no memory.
    pub fn touch(&mut self, pid: u32, vpn: Vpn) -> Option<TierId> {
        let process = self.processes.get_mut(&pid)?;
        let page = *process.page_mut(vpn)?;
        let direct = |tier: &TierId| Some(*tier) != self.swap;
        let tier = tier_of(page);
        if tier.is_none_or(|tier| !direct(&tier)) {
            let tiers = (0..self.tiers.len()).map(|tier| TierId(tier as u8)).filter(direct);
            let to = tiers.into_iter().find(|tier| self.tiers[tier.index()].free() > 0)?;
            self.set(pid, vpn, page_in(to));
        }
        tier.or(Some(TierId::FAST))
    }

    /// Gives pages back.
    pub fn dont_need(&mut self, pid: u32, span: Span) {
        for vpn in span.iter() {
            self.split(pid, vpn);
            self.set(pid, vpn, 0);
        }
    }

    /// Maps address space that is free.
    pub fn map(&mut self, pid: u32, span: Span, backing: Backing) -> Option<ExtentChange> {
        let process = self.processes.get_mut(&pid)?;
        if !process.is_free(span) {
            return None;
        }
        let pages = vec![0; span.pages as usize];
        process.areas.insert(span.start.0, Area { backing, pages });
        Some(ExtentChange::Mapped { span, backing })
    }

    /// Takes address space out; what was there.
    fn take(&mut self, pid: u32, span: Span) -> Vec<(u64, Area)> {
        // Folios that reach beyond are split.
        let (first, last) = (span.start, Vpn(span.end().0.saturating_sub(1)));
        for vpn in [first, last] {
            self.split(pid, vpn);
        }
        let Some(process) = self.processes.get_mut(&pid) else { return Vec::new() };
        let touched: Vec<u64> = process
            .areas
            .iter()
            .filter(|(start, area)| {
                let other = Span::new(Vpn(**start), area.pages.len() as u64);
                !other.intersect(span).is_empty()
            })
            .map(|(start, _)| *start)
            .collect();
        let mut taken = Vec::new();
        for start in touched {
            let Some(mut area) = process.areas.remove(&start) else { continue };
            let end = start + area.pages.len() as u64;
            let from = span.start.0.max(start);
            let to = span.end().0.min(end);
            let above = area.pages.split_off((to - start) as usize);
            let inside = area.pages.split_off((from - start) as usize);
            let backing = area.backing;
            if !area.pages.is_empty() {
                process.areas.insert(start, area);
            }
            if !above.is_empty() {
                process.areas.insert(to, Area { backing, pages: above });
            }
            taken.push((from, Area { backing, pages: inside }));
        }
        taken
    }

    /// Unmaps address space.
    pub fn unmap(&mut self, pid: u32, span: Span) -> ExtentChange {
        for (_, area) in self.take(pid, span) {
            for tier in area.pages.into_iter().filter_map(tier_of) {
                self.tiers[tier.index()].used -= 1;
            }
        }
        ExtentChange::Unmapped { span }
    }

    /// Moves address space to where nothing is mapped.
    pub fn remap(&mut self, pid: u32, from: Span, to: Vpn) -> Option<ExtentChange> {
        let process = self.processes.get(&pid)?;
        if !process.is_free(Span::new(to, from.pages)) {
            return None;
        }
        // Folios keep their place in a region, or are split.
        if (to.0 as i64 - from.start.0 as i64) % REGION_PAGES as i64 != 0 {
            for vpn in from.iter() {
                self.split(pid, vpn);
            }
        }
        let taken = self.take(pid, from);
        let process = self.processes.get_mut(&pid)?;
        for (start, area) in taken {
            process.areas.insert(to.0 + (start - from.start.0), area);
        }
        Some(ExtentChange::Remapped { from, to })
    }

    /// Ends a process.
    pub fn exit(&mut self, pid: u32) {
        let Some(process) = self.processes.remove(&pid) else { return };
        for tier in process.areas.values().flat_map(|area| &area.pages).filter_map(|p| tier_of(*p))
        {
            self.tiers[tier.index()].used -= 1;
        }
    }

    /// Has a process execute another program.
    pub fn exec(&mut self, pid: u32) {
        self.exit(pid);
        self.start(pid);
    }

    /// Copies a process, as far as there is memory.
    pub fn fork(&mut self, parent: u32, child: u32) -> bool {
        let Some(process) = self.processes.get(&parent) else { return false };
        let mut copy = process.clone();
        let mut used = vec![0; self.tiers.len()];
        for page in copy.areas.values_mut().flat_map(|area| &mut area.pages) {
            *page &= !HUGE;
            if let Some(tier) = tier_of(*page) {
                used[tier.index()] += 1;
            }
        }
        let fits = self.tiers.iter().zip(&used).all(|(tier, used)| tier.free() >= *used);
        if !fits || self.processes.contains_key(&child) {
            return false;
        }
        self.tiers.iter_mut().zip(used).for_each(|(tier, used)| tier.used += used);
        copy.table = self.next_table();
        self.processes.insert(child, copy);
        true
    }
}
