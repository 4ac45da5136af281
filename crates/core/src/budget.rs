//! Migration rate budget.

use crate::types::*;

/// Token bucket in bytes. Tokens are taken when a move is approved, whatever becomes of it.
#[derive(Clone, Copy, Debug)]
pub struct RateBudget {
    bytes_per_second: u64,
    burst: u64,
    tokens: u64,
    /// Fractions of a byte, in 1e-9, so that no time is lost to rounding.
    fraction: u64,
    refilled: Nanos,
}

/// What may still be moved now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that would be approved; [`Bytes::MAX`] without a limit.
    pub remaining: Bytes,
}

impl RateBudget {
    /// A budget of `bytes_per_second` that saves up at most `burst`; starts full. `None` is no
    /// limit.
    pub fn new(bytes_per_second: Option<Bytes>, burst: Bytes) -> Self {
        let rate = bytes_per_second.map_or(u64::MAX, |b| b.0);
        Self {
            bytes_per_second: rate,
            burst: burst.0,
            tokens: burst.0,
            fraction: 0,
            refilled: Nanos::ZERO,
        }
    }

    /// Adds the tokens of the time since the last call. Time that goes backwards adds none.
    pub fn refill(&mut self, now: Nanos) {
        if self.bytes_per_second == u64::MAX || now <= self.refilled {
            return;
        }
        let earned = u128::from((now - self.refilled).0) * u128::from(self.bytes_per_second)
            + u128::from(self.fraction);
        self.refilled = now;
        let whole = earned / 1_000_000_000;
        self.fraction = (earned % 1_000_000_000) as u64;
        self.tokens =
            u128::from(self.tokens).saturating_add(whole).min(u128::from(self.burst)) as u64;
    }

    /// What is left.
    pub fn remaining(&self) -> Budget {
        let unlimited = self.bytes_per_second == u64::MAX;
        Budget { remaining: if unlimited { Bytes::MAX } else { Bytes(self.tokens) } }
    }

    /// Takes tokens; false, and nothing taken, where there are too few.
    pub fn take(&mut self, bytes: Bytes) -> bool {
        if self.bytes_per_second == u64::MAX {
            return true;
        }
        let enough = bytes.0 <= self.tokens;
        if enough {
            self.tokens -= bytes.0;
        }
        enough
    }
}
