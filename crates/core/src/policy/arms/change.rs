//! Change point of a series: the test of Page and Hinkley (Page, Biometrika 1954), for a fall.
//!
//! Sums by how much values are below their mean so far, less what is tolerated. A sum that has grown by
//! more than a limit since it was least is a change. The test then begins again.

/// The test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fall {
    /// Deviation that is none.
    tolerated: f64,
    /// Sum of deviations that is a change.
    limit: f64,
    values: u64,
    mean: f64,
    sum: f64,
    least: f64,
}

impl Fall {
    pub(super) fn new(tolerated: f64, limit: f64) -> Self {
        Self { tolerated, limit, values: 0, mean: 0.0, sum: 0.0, least: 0.0 }
    }

    /// Takes a value in; whether the series has changed.
    pub(super) fn add(&mut self, value: f64) -> bool {
        self.values += 1;
        self.mean += (value - self.mean) / self.values as f64;
        self.sum += self.mean - value - self.tolerated;
        self.least = self.least.min(self.sum);
        let changed = self.sum - self.least > self.limit;
        if changed {
            *self = Self::new(self.tolerated, self.limit);
        }
        changed
    }
}
