//! Time that targets spend, and how much of it on pages that come back.

use crate::watched::Watched;
use frostline_core::types::Nanos;
use frostline_daemon::Spent;
use frostline_linux::Root;
use frostline_linux::process::delays::{DelayAccounting, Delays};
use frostline_linux::process::{Stat, clock};
use std::collections::BTreeMap;

/// Part of the major faults that are timed where all refaults are; the others read files.
const TIMED: f64 = 0.75;
/// What a fault still counts for a second later.
const FADES: f64 = 0.95;
/// Time between two questions.
const SECOND: Nanos = Nanos(1_000_000_000);

/// See the module.
#[derive(Debug)]
pub(crate) struct Spending {
    /// Where the kernel tells.
    accounting: Option<DelayAccounting>,
    root: Root,
    /// Nobody has refaults timed any more, or had not in the last second.
    lapsed: bool,
    /// Recent major faults: those that were timed, and all.
    recent: (f64, f64),
    /// With all major faults so far.
    known: BTreeMap<u32, (Spent, u64)>,
    /// Time that each processor was busy.
    processors: BTreeMap<usize, Nanos>,
    sum: Spent,
}

impl Spending {
    /// Nobody is known yet.
    pub(crate) fn new(root: Root, accounting: Option<DelayAccounting>) -> Self {
        let sum = Spent { swap_ins: Some(0), ..Spent::default() };
        Self {
            accounting,
            root,
            lapsed: false,
            recent: (0.0, 0.0),
            known: BTreeMap::new(),
            processors: BTreeMap::new(),
            sum,
        }
    }

    /// Whether refaults are counted and not timed, or some of them.
    pub(crate) fn is_estimate(&self) -> bool {
        self.accounting.is_none() || self.lapsed || self.recent.0 < TIMED * self.recent.1
    }

    /// Whoever ran of the targets was interrupted so many times.
    pub(crate) fn interrupted(&mut self, times: u64) {
        self.sum.interruptions += times;
    }

    /// Sums over all targets since each was first asked for.
    pub(crate) fn spent(&mut self, watched: &BTreeMap<u32, Watched>) -> Spent {
        self.known.retain(|pid, _| watched.contains_key(pid));
        // Another program may have had them counted before us, and ended that.
        self.lapsed = self.accounting.as_ref().is_some_and(|all| !matches!(all.renew(), Ok(false)));
        let (mut major, before) = (0, self.sum);
        for (pid, watched) in watched {
            // Whoever has ended is told of otherwise.
            let Ok(stat) = watched.target.stat() else { continue };
            let delays = self.accounting.as_mut().and_then(|all| all.of(*pid).ok());
            let now = spent(&stat, delays);
            let known = (now, stat.major_faults);
            if let Some((spent, faults)) = self.known.insert(*pid, known) {
                self.sum = added(self.sum, now, spent);
                major += stat.major_faults.saturating_sub(faults);
            }
        }
        let timed = self.sum.timed(before).unwrap_or(major);
        let (timed_before, before) = self.recent;
        self.recent = (timed_before * FADES + timed as f64, before * FADES + major as f64);
        self.look_at_processors();
        self.sum
    }

    fn look_at_processors(&mut self) {
        let now = clock::processors(&self.root);
        let before = std::mem::replace(&mut self.processors, now);
        let passed = self.processors.iter().filter_map(|(number, busy)| {
            Some((*number, busy.saturating_sub(*before.get(number)?)))
        });
        let may_run_on = clock::may_run_on();
        let (mut all, mut least) = (Nanos::ZERO, None::<Nanos>);
        for (number, busy) in passed {
            all = all.saturating_add(busy);
            if may_run_on(&number) {
                least = Some(least.map_or(busy, |least| least.min(busy)));
            }
        }
        self.sum.machine = self.sum.machine.saturating_add(all);
        // Where nobody tells, all are.
        self.sum.crowded = self.sum.crowded.saturating_add(least.unwrap_or(SECOND));
    }
}

fn spent(stat: &Stat, delays: Option<Delays>) -> Spent {
    let kernel = Nanos((stat.cpu_ticks - stat.user_ticks) * clock::tick().0);
    match delays {
        Some(Delays { cpu, core_wait, swap_in, swap_ins }) => {
            let swap_ins = Some(swap_ins);
            Spent { busy: cpu, core_wait, swap_in, swap_ins, kernel, ..Spent::default() }
        }
        None => Spent { busy: stat.cpu(), swap_ins: Some(0), kernel, ..Spent::default() },
    }
}

/// What has come since `before`. A program that another one has taken the place of begins anew.
fn added(sum: Spent, now: Spent, before: Spent) -> Spent {
    let add =
        |of: fn(&Spent) -> Nanos| of(&sum).saturating_add(of(&now).saturating_sub(of(&before)));
    Spent {
        busy: add(|spent| spent.busy),
        core_wait: add(|spent| spent.core_wait),
        swap_in: add(|spent| spent.swap_in),
        swap_ins: now.timed(before).map(|timed| sum.swap_ins.unwrap_or(0) + timed),
        kernel: add(|spent| spent.kernel),
        ..sum
    }
}
