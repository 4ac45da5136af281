//! Processor time at a share of one core.

use frostline_core::types::Nanos;

/// Longest time for which unused allowance is saved up.
const SAVED: Nanos = Nanos(500_000_000);

/// Allows processor time at a share of one core. What has been used beyond the allowance is owed.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    share: f64,
    allowance_ns: f64,
    at: Option<Nanos>,
    /// Most that is used from one refill to the next.
    turn_ns: f64,
    /// What is left of it.
    turn_left_ns: f64,
    /// Processor time that has been charged, or belongs to somebody else.
    cpu: Nanos,
}

impl Pacer {
    /// `share` of one core, above 0, for a thread that has used `cpu` so far.
    pub fn new(share: f64, cpu: Nanos) -> Self {
        let turn_ns = f64::INFINITY;
        Self { share, allowance_ns: 0.0, at: None, turn_ns, turn_left_ns: turn_ns, cpu }
    }

    /// The same that allows no more than a turn's processor time from one refill to the next, however much
    /// has been saved up.
    pub fn in_turns(self, turn: Nanos) -> Self {
        let turn_ns = turn.0 as f64;
        Self { turn_ns, turn_left_ns: turn_ns, ..self }
    }

    /// Another share from now on.
    pub fn set_share(&mut self, share: f64) {
        self.share = share;
    }

    /// Time has come to `now`.
    pub fn refill(&mut self, now: Nanos) {
        let passed = self.at.map_or(0, |at| now.saturating_sub(at).0);
        self.at = Some(now);
        let most = SAVED.0 as f64 * self.share;
        self.allowance_ns = (self.allowance_ns + passed as f64 * self.share).min(most);
        self.turn_left_ns = self.turn_ns;
    }

    /// Whether work may begin.
    pub fn allows(&self) -> bool {
        self.allowance_ns > 0.0 && self.turn_left_ns > 0.0
    }

    /// Whether nothing but the end of a turn keeps work from going on.
    pub fn ends_turn(&self) -> bool {
        self.allowance_ns > 0.0 && self.turn_left_ns <= 0.0
    }

    /// Charges what the thread has used since the last call, its processor time being `cpu` now.
    pub fn charge(&mut self, cpu: Nanos) {
        let used = cpu.saturating_sub(self.cpu).0 as f64;
        self.allowance_ns -= used;
        self.turn_left_ns -= used;
        self.cpu = cpu;
    }

    /// What the thread has used since the last call is charged to somebody else.
    pub fn skip(&mut self, cpu: Nanos) {
        self.cpu = cpu;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_kept_over_time() {
        let mut pacer = Pacer::new(0.03, Nanos(0));
        pacer.refill(Nanos(0));
        assert!(!pacer.allows());
        let (mut used, step) = (0, Nanos(400_000));
        for ms in 1..=10_000u64 {
            pacer.refill(Nanos(ms * 1_000_000));
            while pacer.allows() {
                used += step.0;
                pacer.charge(Nanos(used));
            }
        }
        let share = used as f64 / 10e9;
        assert!((0.0299..=0.0302).contains(&share), "{share}");
    }

    #[test]
    fn idle_time_is_not_hoarded() {
        let mut pacer = Pacer::new(0.1, Nanos(0));
        pacer.refill(Nanos(0));
        pacer.refill(Nanos(3_600_000_000_000));
        pacer.charge(Nanos(60_000_000));
        assert!(!pacer.allows(), "half a second's worth at most");
    }

    #[test]
    fn what_is_saved_up_is_used_in_turns() {
        let mut pacer = Pacer::new(0.5, Nanos(0)).in_turns(Nanos(10_000_000));
        pacer.refill(Nanos(0));
        pacer.refill(Nanos(1_000_000_000));
        let (mut used, mut turns) = (0, 0);
        while pacer.allows() {
            used += 4_000_000;
            pacer.charge(Nanos(used));
            if pacer.ends_turn() {
                turns += 1;
                pacer.refill(Nanos(1_000_000_000));
            }
        }
        assert_eq!((used, turns), (252_000_000, 20), "no more is used than without turns");
        assert!(!pacer.ends_turn(), "nothing is left to be used");
    }
}
