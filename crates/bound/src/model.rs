//! Machine, as far as the bound depends on it.

use frostline_trace::TraceError;

/// Savings and costs on which a bound is computed.
///
/// Savings are unqueued latencies of the slow tier minus those of the fast one, divided by the
/// machine's memory-level parallelism. Costs are those of the bytes of one page at the cheapest
/// rate at which the machine ever moves them. Everything else (faults, TLB, CPU time) is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundModel {
    /// Nanoseconds that a load or an instruction fetch saves where its page is fast.
    pub read_saving_ns: f64,
    /// Nanoseconds that a store saves where its page is fast.
    pub write_saving_ns: f64,
    /// Nanoseconds that a write-back saves; 0 on machines where nobody waits for them.
    pub write_back_saving_ns: f64,
    /// Nanoseconds that moving one page into fast memory costs; not below 0.
    pub promotion_cost_ns: f64,
    /// Nanoseconds that moving one page out of fast memory costs; not below 0.
    pub demotion_cost_ns: f64,
    /// Pages of 4 KiB that fit into fast memory.
    pub capacity_pages: u64,
}

impl BoundModel {
    /// The same machine with another amount of fast memory.
    pub const fn with_capacity(self, capacity_pages: u64) -> Self {
        Self { capacity_pages, ..self }
    }

    /// Checks that the numbers can be computed with.
    ///
    /// # Errors
    /// Where one is not finite, or a cost is below 0.
    pub fn validate(&self) -> Result<(), BoundError> {
        let savings = [
            ("read_saving_ns", self.read_saving_ns),
            ("write_saving_ns", self.write_saving_ns),
            ("write_back_saving_ns", self.write_back_saving_ns),
        ];
        let costs = [
            ("promotion_cost_ns", self.promotion_cost_ns),
            ("demotion_cost_ns", self.demotion_cost_ns),
        ];
        for (field, value) in savings {
            if !value.is_finite() {
                return Err(BoundError::Model { field, value, want: "a finite number" });
            }
        }
        for (field, value) in costs {
            if !value.is_finite() || value < 0.0 {
                return Err(BoundError::Model { field, value, want: "a finite number, 0 or more" });
            }
        }
        Ok(())
    }

    /// Savings by entry code, times the number of accesses that a record stands for. The fourth
    /// code marks the end of a page's life and saves nothing.
    pub(crate) fn savings(&self, thinning: u32) -> [f64; 4] {
        let each = f64::from(thinning);
        [
            self.read_saving_ns * each,
            self.write_saving_ns * each,
            self.write_back_saving_ns * each,
            0.0,
        ]
    }
}

/// Why a bound could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum BoundError {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A number of the model makes no sense.
    #[error("{field} is {value}; it has to be {want}")]
    Model {
        /// Field of [`BoundModel`].
        field: &'static str,
        /// What it was.
        value: f64,
        /// What it may be.
        want: &'static str,
    },
}
