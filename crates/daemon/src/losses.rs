//! Losses of the targets: measured second by second, and kept to the goal where there is one.

use crate::ages::Cold;
use crate::goal::{Controller, Goal, Memory};
use crate::ledger::Ledger;
use crate::limit::Limit;
use crate::loss::{Lost, Meter, REFAULT_BESIDES, Spent, Stretch};
use crate::settings::Settings;
use crate::system::System;
use crate::touches::Touched;
use alloc::vec::Vec;
use frostline_core::types::*;

/// Time of a fault that needs no I/O (ns): of a hint fault, measured on Linux 6.18.
const FAULT: f64 = 1100.0;
/// Time of the first touch of a page after its access bit was cleared, beside that of another touch (ns): a walk of the
/// page table, which sets it. Measured in a virtual machine.
pub const BIT: f64 = 200.0;
/// Time of a touch of a page that was taken out of its place (ns): a thread of the program puts it back.
const ARMED_TOUCH: f64 = 20_000.0;
/// Time that a running thread loses where a run of its pages is paged out, where that cannot be measured: interrupts, and
/// translations that it has to look up again (ns). 10 and 24 us in virtual machines, for single pages.
pub const INTERRUPTION: f64 = 20_000.0;
/// Targets that use less of a core count as using that much: a loss of hardly any time is none.
const LEAST_USED: f64 = 0.02;
/// Part of the goal that our own time may come to.
const OURS: f64 = 0.5;
/// Seconds over which that is looked at, and what is made of our share of a core in each.
const EASED: usize = 5;
const SLOWER: f64 = 0.8;
const FASTER: f64 = 1.05;
const LEAST_EASE: f64 = 0.1;
/// Part of the goal that may be lost to pages that are paged out only to see who comes back.
const PROBES: f64 = 0.25;
const LEAST_PROBES: f64 = 0.02;
/// Part of the time on processors that is useful at least.
const LEAST_USEFUL: f64 = 0.05;

/// See the module.
pub(crate) struct Losses {
    pub(crate) meter: Meter,
    pub(crate) controller: Option<Controller>,
    /// What could be in swap, as far as that is known.
    pub(crate) cold: Vec<Cold>,
    before: Option<Before>,
    /// Pages that had come back late when the last step was made.
    refaults: u64,
    /// Loads for each that is sampled.
    period: f64,
    /// Part of the targets' useful time that goes into access bits, lately: what moves less does not save that.
    watching: f64,
    /// Part of our share of a core that we use.
    pub(crate) ease: f64,
    /// Part of the usual number of pages that are paged out to see who comes back.
    pub(crate) probes: f64,
}

/// Sums as of the last second.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    now: Nanos,
    spent: Spent,
    own: Nanos,
    refaults: u64,
    faults: u64,
    bits: u64,
    armed_touched: u64,
    slow_samples: u64,
    slow_touches: Touched,
}

impl Losses {
    /// Nothing was measured yet; loads are sampled once in so many.
    pub(crate) fn new(goal: Option<Goal>, period: u32) -> Self {
        Self {
            meter: Meter::default(),
            controller: goal.map(Controller::new),
            cold: Vec::new(),
            before: None,
            refaults: 0,
            period: period.into(),
            watching: 0.0,
            ease: 1.0,
            probes: 1.0,
        }
    }

    /// Loads are sampled once in so many from now on.
    pub(crate) fn set_period(&mut self, period: u32) {
        self.period = period.into();
    }

    /// Steps in a row in which much came back.
    pub(crate) fn rushes(&self) -> u32 {
        self.controller.as_ref().map_or(0, Controller::rushes)
    }

    /// Looks at what came back since the last step; the limit of fast memory where it is another one now.
    pub(crate) fn step(&mut self, now: Nanos, ledger: &Ledger) -> Option<Limit> {
        let refaults = ledger.late_refaults;
        let came = refaults - core::mem::replace(&mut self.refaults, refaults);
        let limit = self.controller.as_mut()?.step(now, came, memory(ledger))?;
        Some(Limit::Size(limit))
    }

    /// Measures the second that has passed; the limit of fast memory, where there is a goal.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn second<S: System>(
        &mut self,
        now: Nanos,
        settings: &Settings,
        ledger: &mut Ledger,
        system: &mut S,
    ) -> Result<Option<Limit>, S::Error> {
        let Some(spent) = system.spent()? else { return Ok(None) };
        let accounts = &ledger.accounts;
        let next = Before {
            now,
            spent,
            own: system.cpu(),
            refaults: accounts.refaults,
            faults: accounts.hint_faults,
            bits: ledger.bits,
            armed_touched: accounts.armed_touched,
            slow_samples: accounts.sampled - accounts.sampled_fast,
            slow_touches: ledger.slow_touches.sums,
        };
        let Some(before) = self.before.replace(next) else { return Ok(None) };
        let slow_loads = settings.node_loads.map_or(0.0, |loads| match loads.sampled {
            true => {
                let sampled = (next.slow_samples - before.slow_samples) as f64;
                sampled * self.period * (loads.slow_ns - loads.fast_ns)
            }
            false => {
                let busy = next.spent.busy.saturating_sub(before.spent.busy).0 as f64;
                let times = (now.saturating_sub(before.now), busy);
                let fast = ledger.engine.view().used(TierId::FAST);
                next.slow_touches.lost(before.slow_touches, loads, times, fast)
            }
        });
        let second = stretch(before, next, (slow_loads, settings.interruption));
        self.meter.add(second);
        // Where pages can be used in slow memory, that they are touched costs little.
        let only_swap = settings.swap.is_some() || settings.tiers.len() == 1;
        let swept = system.sampling().swept.filter(|_| only_swap);
        self.cold = match ledger.ages.as_mut().zip(swept) {
            Some((ages, swept)) => {
                ages.second(now, second.useful, swept);
                ages.cold(now)
            }
            None => Vec::new(),
        };
        let Some(controller) = &mut self.controller else { return Ok(None) };
        let bits = (next.bits - before.bits) as f64 * BIT / second.useful.max(1.0);
        self.watching += (bits - self.watching) / EASED as f64;
        let ours = self.meter.last(EASED).share(|lost| lost.ours) - self.watching;
        let most = controller.goal().most_loss;
        self.ease = adapted(self.ease, ours > OURS * most, LEAST_EASE);
        // Where all may be fast, nothing else is out.
        if !controller.is_bound() {
            let lost = self.meter.last(EASED).share(|lost| lost.swap_ins);
            self.probes = adapted(self.probes, lost > PROBES * most, LEAST_PROBES);
        }
        let returned = next.refaults - before.refaults;
        let limit = controller.second(
            now,
            &self.meter,
            returned,
            memory(ledger),
            swept.map(|_| &*self.cold),
        );
        Ok(Some(Limit::Size(limit)))
    }
}

/// The part of what is usual that follows on `part`: less where that cost too much.
fn adapted(part: f64, is_too_much: bool, least: f64) -> f64 {
    if is_too_much { (part * SLOWER).max(least) } else { (part * FASTER).min(1.0) }
}

fn memory(ledger: &Ledger) -> Memory {
    let view = ledger.engine.view();
    let bytes = |pages: PageCount| pages.bytes().0 as f64;
    Memory { footprint: bytes(view.resident()), used: bytes(view.used(TierId::FAST)) }
}

/// What has happened in between, with what slow loads have taken in all, and an interruption takes.
fn stretch(before: Before, next: Before, (slow_loads, interruption): (f64, f64)) -> Stretch {
    let passed =
        |of: fn(&Spent) -> Nanos| of(&next.spent).saturating_sub(of(&before.spent)).0 as f64;
    let own = next.own.saturating_sub(before.own).0 as f64;
    let busy = passed(|spent| spent.busy);
    let others = (passed(|spent| spent.machine) - busy).max(own).max(1.0);
    let elapsed = next.now.saturating_sub(before.now).0.max(1) as f64;
    let crowded = (passed(|spent| spent.crowded) / elapsed).min(1.0);
    // When we run does not depend on when a target wants to.
    let wants = ((busy + passed(|spent| spent.core_wait)) / elapsed).min(1.0);
    let mut lost = Lost {
        swap_ins: passed(|spent| spent.swap_in),
        slow_loads,
        faults: (next.faults - before.faults) as f64 * FAULT
            + (next.armed_touched - before.armed_touched) as f64 * ARMED_TOUCH,
        // Who waits for a core waits for those who have one, for each by its part; for us only while there was no other
        // core for us, and the target wanted one. Access bits are cleared whatever the size of fast memory.
        ours: (passed(|spent| spent.core_wait) * own / others).min(own * crowded * wants)
            + (next.bits - before.bits) as f64 * BIT,
    };
    // A model has all of it in its times. The kernel times no refaults of threads that began before it was told to.
    if let Some(timed) = next.spent.timed(before.spent) {
        let untimed = (next.refaults - before.refaults).saturating_sub(timed);
        lost.swap_ins += timed as f64 * REFAULT_BESIDES + untimed as f64 * next.spent.refault();
        // Only who runs is interrupted.
        let interruptions =
            next.spent.interruptions.saturating_sub(before.spent.interruptions) as f64;
        lost.ours += interruptions * interruption * (busy / elapsed);
    }
    let within = lost.swap_ins.min(passed(|spent| spent.kernel)) + lost.faults + lost.slow_loads;
    let least = (LEAST_USED * elapsed).max(LEAST_USEFUL * busy);
    Stretch { useful: (busy - within).max(least), lost }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a second has lost in which so many refaults were timed, 4 us each, of 1000; half of a core was used.
    fn lost(timed: Option<u64>, interruptions: u64) -> Lost {
        let spent = Spent {
            busy: Nanos(500_000_000),
            swap_in: Nanos(timed.unwrap_or(1000) * 4000),
            swap_ins: timed,
            kernel: Nanos(100_000_000),
            interruptions,
            ..Spent::default()
        };
        let before = Before {
            spent: Spent { swap_ins: timed.map(|_| 0), ..Spent::default() },
            ..Before::default()
        };
        let now = Nanos(1_000_000_000);
        let next = Before { now, spent, refaults: 1000, ..Before::default() };
        stretch(before, next, (0.0, 10_000.0)).lost
    }

    #[test]
    fn refaults_that_nobody_timed_are_presumed_to_take_as_long_as_others() {
        let is = |lost: Lost, ms: f64| assert!((lost.swap_ins / 1e6 - ms).abs() < 1e-6, "{lost:?}");
        is(lost(None, 0), 4.0);
        is(lost(Some(0), 0), 6.0);
        is(lost(Some(1000), 0), 5.6);
        is(lost(Some(500), 0), 0.5 * 5.6 + 0.5 * 6.0);
    }

    #[test]
    fn who_waits_for_a_core_waits_for_us_where_there_is_no_other() {
        let ours = |crowded: u64| {
            let spent = Spent {
                busy: Nanos(500_000_000),
                core_wait: Nanos(400_000_000),
                machine: Nanos(1_100_000_000),
                crowded: Nanos(crowded),
                ..Spent::default()
            };
            let now = Nanos(1_000_000_000);
            let next = Before { now, spent, own: Nanos(20_000_000), ..Before::default() };
            stretch(Before::default(), next, (0.0, 0.0)).lost.ours / 1e6
        };
        assert!((ours(1_000_000_000) - 400.0 * 20.0 / 600.0).abs() < 1e-6);
        assert!(
            (ours(100_000_000) - 2.0 * 0.9).abs() < 1e-6,
            "one core had room nine tenths of the time, and the target wanted none in a tenth"
        );
        assert_eq!(ours(0), 0.0);
    }

    #[test]
    fn page_outs_interrupt_who_runs() {
        assert!((lost(Some(0), 300).ours / 1e6 - 1.5).abs() < 1e-6, "{:?}", lost(Some(0), 300));
        assert_eq!(lost(None, 300).ours, 0.0);
    }
}
