//! Numbers per second from numbers since the start.

use crate::Status;
use serde::Serialize;

/// What a driver does per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Pages that come back because of a touch.
    pub refaults: f64,
    /// Bytes moved towards slower tiers.
    pub down_bytes: f64,
    /// Bytes moved towards faster tiers, those that come back because of a touch not counted.
    pub up_bytes: f64,
    /// Our processor time, of one core.
    pub cpu_share: f64,
    /// Share of the sampled accesses that went to fast memory; `None` without samples other than
    /// refaults.
    pub hits: Option<f64>,
}

impl Rates {
    /// Of a driver that had these rates a moment ago, where it was there.
    pub fn next(before: Option<&(Status, Self)>, now: &Status) -> Self {
        match before {
            // Written once a second, and read in between.
            Some((old, rates)) if old.seconds == now.seconds => *rates,
            Some((old, _)) => Self::between(old, now),
            None => Self::since_start(now),
        }
    }

    /// Between two moments of one driver. One that has begun anew in between counts from its
    /// start.
    pub fn between(old: &Status, new: &Status) -> Self {
        let begun_anew = new.seconds < old.seconds;
        let nothing = Status::default();
        let old = if begun_anew { &nothing } else { old };
        let seconds = (new.seconds - old.seconds).max(1e-3);
        let rate = |old: u64, new: u64| new.saturating_sub(old) as f64 / seconds;
        let cpu = if begun_anew { 0.0 } else { new.cpu_seconds - old.cpu_seconds };
        Self {
            refaults: rate(old.accounts.refaults, new.accounts.refaults),
            down_bytes: rate(old.accounts.demoted_bytes(), new.accounts.demoted_bytes()),
            up_bytes: rate(
                old.accounts.promotions.verified_bytes,
                new.accounts.promotions.verified_bytes,
            ),
            cpu_share: (cpu / seconds).max(0.0),
            hits: (new.accounts.sampled > old.accounts.sampled).then(|| {
                let fast = new.accounts.sampled_fast.saturating_sub(old.accounts.sampled_fast);
                fast as f64 / (new.accounts.sampled - old.accounts.sampled) as f64
            }),
        }
    }

    /// On average since the driver began.
    pub fn since_start(status: &Status) -> Self {
        Self::between(&Status::default(), status)
    }
}
