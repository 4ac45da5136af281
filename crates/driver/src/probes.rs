//! Probes of a running program: some of its pages, drawn at random, are paged out, and how long each
//! stays untouched is noted. Nothing else of it is moved.
//!
//! A page that comes back is paged out again, as soon as that costs the program no more than is accepted: those that
//! were not out yet in this half of the time first, so that both tell of every page, then the coldest. Its refaults in
//! the time that it is out, or just back, are those that it would have in a slow tier without access.

use crate::DriverError;
use crate::drawn::There;
use crate::left_alone::LeftAlone;
use frostline_core::event::MoveOutcome;
use frostline_core::span::Span;
use frostline_core::types::{Bytes, Nanos, PAGE_BYTES, Vpn};
use frostline_daemon::REFAULT;
use frostline_linux::changes::Changes;
use frostline_linux::moves::advise::{bring_in_verified, page_out_verified};
use frostline_linux::pages::pagemap::Pagemap;
use frostline_linux::process::clock;
use frostline_linux::process::delays::{DelayAccounting, Delays};
use frostline_linux::{LinuxError, Root, Target, swap};

/// Between two looks at the pages.
pub const TICK: Nanos = Nanos(200_000_000);
/// Time of the program that a probe takes: a refault from zram, and the lock while it is paged out.
const PROBE: Nanos = Nanos(12_000);
/// Refaults from which on their measured mean is one.
const TOLD: u64 = 20;
/// Pages that are drawn: so many, and one for so many probes that may be made.
const PAGES: std::ops::RangeInclusive<u64> = 256..=4096;
const PROBES_A_PAGE: u64 = 4;
/// A page that so often did not go, one time after the other, does not go.
const REFUSALS: u8 = 3;
/// Largest part of the memory that may be in huge folios.
const MOST_HUGE: f64 = 0.2;

/// What is asked of the probes.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// How long they last.
    pub time: Nanos,
    /// Largest part of the program's processor time that they may take.
    pub share: f64,
    /// Which pages are drawn.
    pub seed: u64,
}

/// A page in half of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Half {
    /// How often it came back.
    pub returns: u32,
    /// How long it was out, or just back.
    pub time: Nanos,
}

/// What probes have found.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Pages that were drawn, each in the first and the second half of the time. One that cannot be paged out
    /// comes back at once.
    pub pages: Vec<[Half; 2]>,
    /// Anonymous memory of the program, in memory and in swap.
    pub memory: Bytes,
    /// That in huge folios, which was left alone.
    pub huge: Bytes,
    /// Processor time that it took while it was probed.
    pub cpu: Nanos,
    /// How long it was probed.
    pub time: Nanos,
    /// Pages that were paged out.
    pub probes: u64,
    /// What a refault took (mean).
    pub refault: Nanos,
    /// Whether the kernel did not tell, so that this is presumed.
    pub is_presumed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// In memory, and may be paged out from then on.
    In(Nanos),
    Out(Nanos),
    /// Unmapped, or never to be paged out.
    Over,
}

#[derive(Clone, Debug)]
struct Page {
    at: Vpn,
    state: State,
    /// It was in swap before.
    was_out: bool,
    refusals: u8,
    halves: [Half; 2],
}

impl Page {
    /// Returns in a second, for the order in which pages go.
    fn rate(&self) -> f64 {
        let time: f64 = self.halves.iter().map(|half| half.time.as_secs_f64()).sum();
        f64::from(self.halves.iter().map(|half| half.returns).sum::<u32>()) / time.max(1e-9)
    }
}

/// Probes under way.
#[derive(Debug)]
pub struct Probes {
    target: Target,
    pagemap: Pagemap,
    pages: Vec<Page>,
    asked: Asked,
    /// Probes that may be made in a second.
    a_second: f64,
    began: Nanos,
    /// Since when more probes may be made, and how many by now.
    looked: Nanos,
    may: f64,
    probes: u64,
    memory: Bytes,
    huge: Bytes,
    cpu_before: Nanos,
    accounting: Option<(DelayAccounting, Delays)>,
}

impl Probes {
    /// Draws the pages of a process. Nothing is paged out yet.
    ///
    /// # Errors
    /// Where it does not run or is left alone, where there is no swap, where too much of it is in huge folios, or
    /// rights are missing.
    pub fn begin(root: &Root, pid: u32, asked: Asked) -> Result<Self, DriverError> {
        if let Some(why) = LeftAlone::when_named(root, pid)? {
            return Err(DriverError::LeftAlone { pid, why });
        }
        if swap::is_full(root)? {
            let what = "there is no swap with room, which probes need".to_owned();
            return Err(LinuxError::Unsupported { what, hint: "set up zram".to_owned() }.into());
        }
        let target = Target::open(root, pid)?;
        let mut pagemap = Pagemap::open(&target)?;
        let there = There::of(&target, &mut pagemap)?;
        let all = there.pages() + there.huge;
        if there.huge as f64 > MOST_HUGE * all as f64 {
            let what = format!(
                "{} of {all} pages are in huge folios, which probes would split",
                there.huge
            );
            let hint = "record the program: frostline advise -- PROGRAM".to_owned();
            return Err(LinuxError::Unsupported { what, hint }.into());
        }
        // Half a second is enough to see how busy it is.
        let before = target.stat()?.cpu();
        std::thread::sleep(std::time::Duration::from_millis(500));
        let busy = target.stat()?.cpu().saturating_sub(before).as_secs_f64() / 0.5;
        let a_second = asked.share * busy.max(0.02) / PROBE.as_secs_f64();
        let probes = a_second * asked.time.as_secs_f64();
        let wanted = (probes as u64 / PROBES_A_PAGE).clamp(*PAGES.start(), *PAGES.end());
        let now = clock::monotonic();
        let accounts = Changes::of_this_process(root).and_then(|changes| {
            let mut accounts = DelayAccounting::begin(&changes)?;
            let before = accounts.of(pid)?;
            Ok((accounts, before))
        });
        Ok(Self {
            pages: there
                .draw(wanted, asked.seed)
                .map(|(at, was_out)| Page {
                    at,
                    state: if was_out { State::Out(now) } else { State::In(now) },
                    was_out,
                    refusals: 0,
                    halves: Default::default(),
                })
                .collect(),
            memory: Bytes(all * PAGE_BYTES),
            huge: Bytes(there.huge * PAGE_BYTES),
            cpu_before: target.stat()?.cpu(),
            accounting: accounts.ok(),
            target,
            pagemap,
            asked,
            a_second,
            began: now,
            looked: now,
            may: 0.0,
            probes: 0,
        })
    }

    /// Pages that were drawn.
    pub fn drawn(&self) -> usize {
        self.pages.len()
    }

    /// Looks which pages came back, and pages out what is due. Wants to be called every [`TICK`]; false once the time
    /// is over.
    ///
    /// # Errors
    /// Where the process has ended.
    pub fn step(&mut self) -> Result<bool, DriverError> {
        let now = clock::monotonic();
        for index in 0..self.pages.len() {
            let State::Out(since) = self.pages[index].state else { continue };
            let entry = self.pagemap.page(self.pages[index].at)?;
            if entry.swapped() || entry.in_transit() {
                continue;
            }
            self.note(index, since, now.saturating_add(TICK));
            let half = self.half(now);
            let page = &mut self.pages[index];
            page.was_out = false;
            page.state = State::Over;
            if entry.present() {
                page.halves[half].returns += 1;
                page.state = State::In(now.saturating_add(TICK));
            }
        }
        let passed = now.saturating_sub(self.looked).as_secs_f64();
        self.looked = now;
        // What is saved up in a pause is not spent at once.
        self.may = (self.may + passed * self.a_second).min(self.a_second.max(1.0));
        self.page_out(now)?;
        Ok(now.saturating_sub(self.began) < self.asked.time)
    }

    /// Pages go back to where they were; what was found.
    ///
    /// # Errors
    /// Where the process has ended.
    pub fn end(mut self) -> Result<Probed, DriverError> {
        let now = clock::monotonic();
        let mut ours = Vec::new();
        for index in 0..self.pages.len() {
            if let State::Out(since) = self.pages[index].state {
                self.note(index, since, now);
                if !self.pages[index].was_out {
                    ours.push(Span::single(self.pages[index].at));
                }
            }
        }
        let pid = self.target.pid();
        let told = self.accounting.as_mut().and_then(|(accounts, before)| {
            let now = accounts.of(pid).ok()?;
            let times = now.swap_ins.checked_sub(before.swap_ins).filter(|n| *n >= TOLD)?;
            Some(Nanos(now.swap_in.saturating_sub(before.swap_in).0 / times))
        });
        let spent = self.target.stat()?.cpu().saturating_sub(self.cpu_before);
        bring_in_verified(&self.target, &mut self.pagemap, &ours)?;
        let pages = self.pages.into_iter().map(|page| page.halves);
        Ok(Probed {
            pages: pages
                .filter(|halves| halves.iter().any(|half| half.time > Nanos::ZERO))
                .collect(),
            memory: self.memory,
            huge: self.huge,
            cpu: spent,
            time: now.saturating_sub(self.began),
            probes: self.probes,
            refault: told.unwrap_or(Nanos(REFAULT as u64)),
            is_presumed: told.is_none(),
        })
    }

    fn half(&self, now: Nanos) -> usize {
        usize::from(now >= self.middle())
    }

    fn middle(&self) -> Nanos {
        Nanos(self.began.0 + self.asked.time.0 / 2)
    }

    /// Adds the time that a page was out, or just back, to the halves that it lies in.
    fn note(&mut self, index: usize, since: Nanos, until: Nanos) {
        let middle = self.middle();
        let [first, second] = &mut self.pages[index].halves;
        first.time += middle.min(until).saturating_sub(since);
        second.time += until.saturating_sub(middle.max(since));
    }

    fn page_out(&mut self, now: Nanos) -> Result<(), DriverError> {
        let due = |page: &Page| matches!(page.state, State::In(from) if from <= now);
        let mut due: Vec<usize> = (0..self.pages.len()).filter(|i| due(&self.pages[*i])).collect();
        let half = self.half(now);
        let was_out = |page: &Page| page.halves[half].time > Nanos::ZERO;
        due.sort_by(|a, b| {
            let [a, b] = [a, b].map(|index| &self.pages[*index]);
            was_out(a).cmp(&was_out(b)).then(a.rate().total_cmp(&b.rate()))
        });
        due.truncate(self.may as usize);
        due.sort_by_key(|index| self.pages[*index].at);
        let spans: Vec<Span> =
            due.iter().map(|index| Span::single(self.pages[*index].at)).collect();
        self.may -= due.len() as f64;
        self.probes += due.len() as u64;
        let outcomes = page_out_verified(&self.target, &mut self.pagemap, &spans)?;
        let outcomes =
            outcomes.iter().flat_map(|(span, outcome)| (0..span.pages).map(move |_| *outcome));
        for (index, outcome) in due.into_iter().zip(outcomes) {
            let page = &mut self.pages[index];
            match outcome {
                MoveOutcome::Moved => (page.state, page.refusals) = (State::Out(now), 0),
                MoveOutcome::Gone => page.state = State::Over,
                _ => {
                    page.refusals += 1;
                    page.halves[half].returns += 1;
                    page.halves[half].time += TICK;
                    let again = State::In(now.saturating_add(TICK));
                    page.state = if page.refusals < REFUSALS { again } else { State::Over };
                }
            }
        }
        Ok(())
    }
}
