//! Defaults that a policy takes for what its world offers.

use super::offer::Offer;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What a world lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Counters of accesses by tier.
    Counters,
    /// Faults of touched pages.
    Faults,
    /// Reports of files that are closed.
    ClosedFiles,
    /// A choice of the size of pages.
    PageSize,
}

/// A default that replaces that of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suited {
    /// The parameter.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What the policy does without by it, and what it does instead, after its name: `never pauses`.
    pub without: Option<(Lack, &'static str)>,
}

impl Suited {
    /// A default that follows from rates and kinds of telemetry.
    pub fn to(key: &'static str, value: impl ToString) -> Self {
        Self { key, value: value.to_string(), without: None }
    }

    /// A default by which the policy does without something.
    pub fn without(lack: Lack, key: &'static str, value: &str, instead: &'static str) -> Self {
        Self { key, value: value.to_string(), without: Some((lack, instead)) }
    }
}

/// Defaults of a policy in a world, of parameters that it has.
pub(super) type Suits = fn(&Offer) -> Vec<Suited>;

/// Those of the table suit everywhere.
pub(super) fn anywhere(_: &Offer) -> Vec<Suited> {
    Vec::new()
}

/// A sampler's period, where programs are brief: one sample in so many accesses is the same for all
/// policies, so that a page that is hot is seen more than once.
pub(super) fn period_of_brief_programs(offer: &Offer) -> Vec<Suited> {
    let wanted = offer.brief.then(|| Suited::to("period", 50));
    wanted.into_iter().collect()
}
