//! Processor time at a share of one core.

use frostline_core::types::Nanos;

/// Longest time for which unused allowance is saved up.
const SAVED: Nanos = Nanos(500_000_000);
/// Longest time for which allowance is owed.
const OWED: Nanos = Nanos(10_000_000_000);

/// Allows processor time at a share of one core. What has been used beyond the allowance is owed.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    share: f64,
    allowance_ns: f64,
    /// Part of the share that only work uses up.
    reserve: f64,
    reserve_ns: f64,
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
        Self {
            share,
            allowance_ns: 0.0,
            reserve: 0.0,
            reserve_ns: 0.0,
            at: None,
            turn_ns,
            turn_left_ns: turn_ns,
            cpu,
        }
    }

    /// The same that keeps a part of the share for work, whatever else is charged: who is busy with hearing
    /// goes on moving.
    pub fn with_reserve(self, part: f64) -> Self {
        Self { reserve: part, ..self }
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
        let (granted, most) = (passed as f64 * self.share, SAVED.0 as f64 * self.share);
        let least = -(OWED.0 as f64 * self.share);
        self.allowance_ns = (self.allowance_ns + granted).clamp(least, most);
        // Work that the allowance covers owes the reserve little: it is there when hearing takes more.
        let most = most * self.reserve;
        self.reserve_ns = (self.reserve_ns + granted * self.reserve).clamp(-most, most);
        self.turn_left_ns = self.turn_ns;
    }

    /// Whether work may begin.
    pub fn allows(&self) -> bool {
        self.has_some() && self.turn_left_ns > 0.0
    }

    fn has_some(&self) -> bool {
        self.allowance_ns > 0.0 || self.reserve_ns > 0.0
    }

    /// Whether nothing but the end of a turn keeps work from going on.
    pub fn ends_turn(&self) -> bool {
        self.has_some() && self.turn_left_ns <= 0.0
    }

    /// Charges what the thread has used for work since the last call, its processor time being `cpu` now.
    pub fn charge(&mut self, cpu: Nanos) {
        let used = cpu.saturating_sub(self.cpu).0 as f64;
        self.reserve_ns -= used;
        self.turn_left_ns -= used;
        self.charge_besides(cpu);
    }

    /// Charges what the thread has used for something else since the last call: neither the reserve nor the
    /// turn has less of it.
    pub fn charge_besides(&mut self, cpu: Nanos) {
        self.allowance_ns -= cpu.saturating_sub(self.cpu).0 as f64;
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

    /// Work in a second, 1 ms a time, where hearing takes `hearing` of each 10 ms.
    fn worked(pacer: &mut Pacer, hearing: Nanos, seconds: core::ops::Range<u64>) -> u64 {
        let (mut worked, length) = (0, seconds.end - seconds.start);
        for turn in 100 * seconds.start..100 * seconds.end {
            pacer.refill(Nanos(turn * 10_000_000));
            pacer.charge_besides(pacer.cpu.saturating_add(hearing));
            while pacer.allows() {
                worked += 1_000_000;
                pacer.charge(pacer.cpu.saturating_add(Nanos(1_000_000)));
            }
        }
        worked / length
    }

    #[test]
    fn work_goes_on_where_hearing_takes_more_than_the_share() {
        let plain = Pacer::new(0.2, Nanos(0)).in_turns(Nanos(10_000_000));
        let overload = Nanos(4_000_000);
        assert_eq!(worked(&mut plain.clone(), overload, 0..100), 0);
        let mut reserving = plain.with_reserve(0.25);
        let quarter = worked(&mut reserving, overload, 0..100);
        assert!((49_000_000..51_000_000).contains(&quarter), "a quarter of 0.2 s: {quarter}");
        reserving.refill(Nanos(111_000_000_000));
        assert!(reserving.allowance_ns > 0.0, "what is long ago is not owed");
    }

    #[test]
    fn work_of_a_quiet_time_does_not_use_the_reserve_up() {
        let mut pacer = Pacer::new(0.2, Nanos(0)).in_turns(Nanos(10_000_000)).with_reserve(0.25);
        let quiet = worked(&mut pacer, Nanos(0), 0..1000);
        assert!((199_000_000..=201_000_000).contains(&quiet), "the share and no more: {quiet}");
        let quarter = worked(&mut pacer, Nanos(4_000_000), 1000..1010);
        assert!((40_000_000..51_000_000).contains(&quarter), "{quarter}");
    }

    #[test]
    fn reserves_are_not_hoarded_either() {
        let mut pacer = Pacer::new(0.2, Nanos(0)).with_reserve(0.25);
        pacer.refill(Nanos(0));
        pacer.refill(Nanos(3_600_000_000_000));
        pacer.charge_besides(Nanos(1_000_000_000));
        pacer.charge(Nanos(1_025_000_000));
        assert!(!pacer.allows(), "a quarter of what half a second allots");
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
