//! Processor time of a daemon: the parts that go into its tasks.

use crate::pacer::Pacer;
use crate::refreshes::Refreshes;
use crate::rounds::Rounds;
use crate::settings::{AUDIT_PART, MOVE_PART, Settings, TURN};
use frostline_core::types::Nanos;

/// A footprint that exceeds its limit by this share is still settling.
const SETTLING: f64 = 1.02;
/// Longest time that the daemon has the larger share of a core. A footprint that is above its limit for
/// longer does not count as settling.
const SETTLES: Nanos = Nanos(60_000_000_000);

/// What becomes of the settling share in a rush, and the largest share that it becomes: a page costs us about what its
/// fault would cost the program, which is far ahead of who has less of a core.
const HURRIED: f64 = 8.0;
const MOST_HURRIED: f64 = 0.5;

/// Processor time that may be used, and when to use it.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// For everything but the audit.
    pub(crate) pacer: Pacer,
    /// For knowing where pages are.
    pub(crate) auditor: Pacer,
    /// Rounds of the audit.
    pub(crate) rounds: Rounds,
    /// Times to look for processes that have come or gone.
    pub(crate) refreshes: Refreshes,
    settling_since: Option<Nanos>,
    /// Part of our share of a core that is used.
    pub(crate) ease: f64,
    /// Much comes back at once, since a few seconds at most.
    pub(crate) rushes: bool,
}

impl Budget {
    /// For a thread that has used `cpu` so far.
    pub(crate) fn new(settings: &Settings, cpu: Nanos) -> Self {
        Self {
            pacer: Pacer::new(settings.settling_cpu_share, cpu)
                .in_turns(TURN)
                .with_reserve(MOVE_PART),
            auditor: Pacer::new(settings.cpu_share * AUDIT_PART, Nanos::ZERO),
            rounds: Rounds::default(),
            refreshes: Refreshes::new(settings.cpu_share),
            settling_since: None,
            ease: 1.0,
            rushes: false,
        }
    }

    /// Time has come to `now`; what has used the thread since the last step, up to `cpu`, is ours as well.
    pub(crate) fn begin(&mut self, now: Nanos, cpu: Nanos) {
        self.pacer.refill(now);
        self.auditor.refill(now);
        self.pacer.charge_besides(cpu);
    }

    /// Shares a core among tasks, fast memory holding `used` of at most `limit` pages.
    pub(crate) fn share(&mut self, now: Nanos, settings: &Settings, used: u64, limit: u64) {
        let settled = used as f64 <= limit as f64 * SETTLING;
        self.settling_since = if settled { None } else { self.settling_since.or(Some(now)) };
        let settling = !settled && self.over_limit(now) < SETTLES;
        let Settings { cpu_share, settling_cpu_share, .. } = *settings;
        let share = if settling { settling_cpu_share.max(cpu_share) } else { cpu_share };
        let hurried = (settling_cpu_share * HURRIED).min(MOST_HURRIED);
        let share = if self.rushes { hurried.max(share) } else { share };
        // The audit's part is everybody's while it rests.
        let audit = if self.rounds.allows(now) { cpu_share * AUDIT_PART } else { 0.0 };
        self.pacer.set_share((share - audit) * self.ease);
    }

    /// For how long fast memory has been exceeded by more than 2 %.
    pub(crate) fn over_limit(&self, now: Nanos) -> Nanos {
        self.settling_since.map_or(Nanos::ZERO, |since| now.saturating_sub(since))
    }
}
