//! Goal in place of a size: the smallest fast memory with which the targets lose no more time than they may.
//!
//! The controller lowers the limit while less is lost than allowed, raises it by what came back when more is, and
//! leaves it alone in between. It says how much may be fast. What is fast is the policy's.

use crate::ages::Cold;
use crate::limit::Limit;
use crate::loss::{Lost, Meter, REFAULT, Stretch};
use alloc::collections::VecDeque;
use frostline_core::types::*;

/// Part of the footprint by which the limit is lowered in a second, at most.
const LOWERED: f64 = 0.01;
/// The same where it is known beforehand what that costs.
const FORESEEN: f64 = 0.05;
/// Part of what is out by which more goes out in a second, at most, once a limit has been too small; of the footprint, where
/// little is out.
const CREEPS: f64 = 0.02;
const CREEPS_LEAST: f64 = 0.001;
/// What leaves fast memory in a second may cost so many times the goal if all of it came back at once.
const VENTURED: f64 = 2.0;
/// From this part of the goal on the limit is no longer lowered.
const ENOUGH: f64 = 0.75;
/// Seconds of the goal that may be saved up and spent at once.
const SAVED: f64 = 60.0;
/// Seconds over which the loss is compared with the goal, where nothing has changed meanwhile.
const SECONDS: usize = 10;
/// Seconds after a change in which only a much larger loss counts: what was begun before shows up then.
const FRESH: usize = 3;
/// How much larger that is.
const MUCH: f64 = 2.0;
/// Part of the footprint by which the limit is raised, where little or nothing comes back, and at least.
const RAISED: f64 = 0.05;
const RAISED_LEAST: f64 = 0.005;
/// Seconds for which the limit waits until it is known what could be out.
const PATIENCE: u32 = 30;
/// Pause after the limit was raised; doubled where lowering it to about the same was in vain again.
const PAUSE: Nanos = Nanos(20_000_000_000);
const MOST_PAUSE: Nanos = Nanos(640_000_000_000);
/// Limits are about the same where no more is out by one than so many times what is by the other.
const SAME: f64 = 1.1;
/// Fast memory within so much of its limit has reached it. Where what comes back takes all of our share of a core, it is
/// not reached, and the limit is no longer lowered.
const REACHED: f64 = 1.005;
/// Loss within a second from which on the program has changed: nothing is waited for then.
const RUSH: f64 = 0.05;
/// The same in goals, where that is more.
const RUSH_GOALS: f64 = 3.0;
/// Time lost within a second that is no rush, whatever else the targets do (ns): they may have been idle before.
const RUSH_LEAST: f64 = 10e6;
/// Useful time of a busy second counts for that part as much in the next one: programs pause.
const BUSY: f64 = 0.98;
/// A limit from that part of the footprint on is none.
const BOUND: f64 = 0.995;
/// What is looked back on for a rush.
const RUSH_SPAN: Nanos = Nanos(1_000_000_000);
/// Part of the footprint that is always fast.
const LEAST: f64 = 1.0 / 64.0;

/// What the targets may lose, and between what sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Largest slowdown, above 0: 0.02 for 2 %.
    pub most_loss: f64,
    /// Fast memory is no less than that.
    pub floor: Option<Limit>,
    /// Fast memory is no more than that, whatever is lost.
    pub ceiling: Option<Limit>,
}

/// Memory of the targets, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// In all tiers.
    pub footprint: f64,
    /// In fast memory.
    pub used: f64,
}

/// Time in which the limit is not lowered.
#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Nanos,
    length: Nanos,
}

impl Pause {
    fn new(now: Nanos, length: Nanos) -> Self {
        Self { until: now.saturating_add(length), length }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Controller {
    goal: Goal,
    /// Bytes that may be fast; none before anything was seen.
    limit: Option<f64>,
    /// Footprint when it was last looked at.
    footprint: f64,
    /// Time that may still be lost (ns).
    credit: f64,
    /// Useful time in a second, lately (ns).
    useful: f64,
    /// The same of a busy second.
    busy: f64,
    /// Time that a refault takes (ns).
    refault: f64,
    /// Pages that came back, and when: of the last second.
    returned: VecDeque<(Nanos, u64)>,
    /// Pages that came back in each of the last seconds.
    returns: VecDeque<u64>,
    /// Seconds for which it has not been known what could be out, though it may be soon.
    unknown: u32,
    /// Seconds since the limit was raised.
    since: usize,
    pause: Pause,
    /// What was out when the limit was too small last time.
    refused: Option<f64>,
    /// Steps in a row in which much came back.
    rushes: u32,
}

impl Controller {
    /// All memory is fast at first.
    pub fn new(goal: Goal) -> Self {
        Self {
            goal,
            limit: None,
            footprint: 0.0,
            credit: 0.0,
            useful: 0.0,
            busy: 0.0,
            refault: REFAULT,
            returned: VecDeque::new(),
            returns: VecDeque::new(),
            unknown: 0,
            since: 0,
            pause: Pause { until: Nanos::ZERO, length: PAUSE },
            refused: None,
            rushes: 0,
        }
    }

    /// The goal.
    pub fn goal(&self) -> Goal {
        self.goal
    }

    /// Another goal from now on.
    pub fn set_goal(&mut self, goal: Goal) {
        self.goal = goal;
    }

    /// Steps in a row in which much came back; one without any return ends the row.
    pub(crate) fn rushes(&self) -> u32 {
        self.rushes
    }

    /// Looks at the second that `meter` has taken in last, in which `returned` pages came back; the limit. `cold` is what
    /// could be out, as far as that is known; `None` where it will never be.
    pub fn second(
        &mut self,
        now: Nanos,
        meter: &Meter,
        returned: u64,
        memory: Memory,
        cold: Option<&[Cold]>,
    ) -> Bytes {
        let Stretch { useful, lost } = meter.last(1);
        self.follow(memory);
        self.useful = meter.last(SECONDS).useful / meter.seconds().clamp(1, SECONDS) as f64;
        self.busy = useful.max(BUSY * self.busy);
        if returned > 0 && lost.swap_ins > 0.0 {
            self.refault += (lost.swap_ins / returned as f64 - self.refault) / 8.0;
        }
        if self.returns.len() == SECONDS {
            self.returns.pop_front();
        }
        self.returns.push_back(returned);
        self.since += 1;
        let most = self.left(meter);
        let saved = SAVED * most * self.useful;
        self.credit = (self.credit + most * useful - lost.to_memory()).clamp(-saved, saved);
        let seconds = self.since.min(SECONDS);
        let share = meter.last(seconds).share(Lost::to_memory);
        let allowed = if seconds < FRESH { MUCH * most } else { most };
        self.unknown = if cold.is_some_and(<[Cold]>::is_empty) { self.unknown + 1 } else { 0 };
        let waits = (1..=PATIENCE).contains(&self.unknown);
        if share > allowed {
            self.raise(now, 1.0 - most / share, seconds, memory);
        } else if !waits && now >= self.pause.until && share < ENOUGH * most && self.credit >= 0.0 {
            self.lower(most, share, memory, cold.unwrap_or_default());
        }
        self.bounded(memory)
    }

    /// Looks at `pages` that came back up to `now`, some tens of milliseconds after the last time; the limit where
    /// that is another one now: memory has grown, or the program uses much of what it did not use before.
    pub fn step(&mut self, now: Nanos, pages: u64, memory: Memory) -> Option<Bytes> {
        if pages > 0 {
            self.returned.push_back((now, pages));
        }
        while self.returned.front().is_some_and(|(at, _)| now.saturating_sub(*at) > RUSH_SPAN) {
            self.returned.pop_front();
        }
        let came: u64 = self.returned.iter().map(|(_, pages)| pages).sum();
        let lost = came as f64 * self.refault;
        let most = RUSH.max(RUSH_GOALS * self.goal.most_loss) * self.busy;
        let before = self.limit?;
        self.follow(memory);
        let rushes = self.is_bound() && lost > most.max(RUSH_LEAST);
        if pages == 0 || self.busy == 0.0 || !rushes {
            self.rushes = if pages == 0 { 0 } else { self.rushes };
            return (self.limit != Some(before)).then(|| self.bounded(memory));
        }
        self.rushes += 1;
        let wanted = PageCount(came).bytes().0 as f64 * f64::from(1_u32 << self.rushes.min(8));
        let from = self.limit.unwrap_or(memory.footprint).max(memory.used);
        self.limit = Some((from + wanted).min(memory.footprint));
        (self.since, self.refused) = (0, None);
        self.pause = Pause::new(now, PAUSE);
        Some(self.bounded(memory))
    }

    /// Whether not all may be fast: what comes back otherwise was paged out for another reason.
    pub(crate) fn is_bound(&self) -> bool {
        self.limit.is_some_and(|limit| limit < BOUND * self.footprint)
    }

    /// What is new is fast, until it is known to be cold.
    fn follow(&mut self, memory: Memory) {
        let grown = (memory.footprint - self.footprint).max(0.0);
        let limit = self.limit.map_or(memory.footprint, |limit| limit + grown);
        self.limit = Some(limit.min(memory.footprint));
        self.footprint = memory.footprint;
    }

    /// What memory may cost: the goal without what we cost ourselves, and half of it whatever that is.
    fn left(&self, meter: &Meter) -> f64 {
        let goal = self.goal.most_loss;
        (goal - meter.last(SECONDS).share(|lost| lost.ours)).max(goal / 2.0)
    }

    /// Bytes that are out where so many may be fast.
    fn out_at(&self, limit: f64) -> f64 {
        (self.footprint - limit).max(0.0)
    }

    fn raise(&mut self, now: Nanos, excess: f64, seconds: usize, memory: Memory) {
        let Some(limit) = self.limit.filter(|_| self.is_bound()) else { return };
        let out = self.out_at(limit);
        let again = self.refused.is_some_and(|refused| out < refused * SAME);
        let longer = Nanos(self.pause.length.0 * 2).min(MOST_PAUSE);
        self.pause = Pause::new(now, if again { longer } else { PAUSE });
        self.refused = Some(out);
        let pages: u64 = self.returns.iter().rev().take(seconds).sum();
        // Who loads from where pages are has none come back; others may come back again and again.
        let came = (pages as f64 * PAGE_BYTES as f64).max(RAISED * memory.footprint);
        let wanted = came.min(out);
        self.limit = Some(limit + (wanted * excess).max(RAISED_LEAST * memory.footprint));
        self.since = 0;
    }

    fn lower(&mut self, allowed: f64, share: f64, memory: Memory, cold: &[Cold]) {
        let Some(limit) = self.limit else { return };
        // What was asked for before has not been done yet.
        if memory.used > limit * REACHED {
            return;
        }
        let pages = VENTURED * allowed * self.useful / self.refault;
        let out = self.out_at(limit);
        let step = match self.refused {
            // What else leaves is back within seconds.
            _ if !cold.is_empty() => 0.0,
            Some(_) => (CREEPS * out).max(CREEPS_LEAST * memory.footprint),
            None => LOWERED * memory.footprint,
        };
        let blind = (pages * PAGE_BYTES as f64).min(step).min(LOWERED * memory.footprint);
        let foreseen = self.foreseen(ENOUGH * allowed, cold) - out;
        let most = blind.max(foreseen.min(FORESEEN * memory.footprint));
        self.limit = Some(limit - most * (1.0 - share / (ENOUGH * allowed)));
    }

    /// Bytes that could be out without losing more than that: of the first age of which all are too many, a part, as
    /// if each of its pages were as likely to come back.
    fn foreseen(&self, allowed: f64, cold: &[Cold]) -> f64 {
        let allowed = allowed * 1e9 / self.refault;
        let bytes = |cold: Cold| cold.pages.bytes().0 as f64;
        let mut fits = Cold::default();
        for &next in cold {
            if next.most_returns > allowed {
                let room = allowed - fits.most_returns;
                let part = room / (next.most_returns - fits.most_returns);
                return bytes(fits) + part * (bytes(next) - bytes(fits));
            }
            fits = next;
        }
        bytes(fits)
    }

    fn bounded(&mut self, memory: Memory) -> Bytes {
        let bytes = |limit: Limit| limit.bytes(Bytes(memory.footprint as u64)).0 as f64;
        let floor = self.goal.floor.map_or(LEAST * memory.footprint, bytes);
        let ceiling = self.goal.ceiling.map_or(memory.footprint, bytes).max(floor);
        let limit = self.limit.unwrap_or(memory.footprint).clamp(floor, ceiling);
        self.limit = Some(limit);
        Bytes(limit as u64)
    }
}
