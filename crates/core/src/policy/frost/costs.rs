//! Costs of work: as the world says, or what is usual.

use crate::policy::offer::Offer;
use crate::types::HUGE_PAGES;

const SAMPLE_NS: f64 = 500.0;
const FOLIO_MOVE_NS: f64 = 270_000.0;
const SPLIT_NS: f64 = 285_000.0;
const COLLAPSE_NS: f64 = 1_400_000.0;

/// What work takes of a processor (ns).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Where nobody says, nothing: what a call costs is the margin's.
    pub base_move_ns: f64,
    pub folio_move_ns: f64,
    pub split_ns: f64,
    pub collapse_ns: f64,
    pub sample_ns: f64,
}

impl Costs {
    /// A folio whose move nobody knows costs as much as its pages; making one, at least as much as moving one.
    pub(super) fn of(offer: &Offer) -> Self {
        let costs = &offer.costs;
        let pages = costs.base_move_ns.map(|page| page * f64::from(HUGE_PAGES));
        let folio_move_ns = costs.folio_move_ns.or(pages).unwrap_or(FOLIO_MOVE_NS);
        let sample_ns = offer.telemetry.loads.and_then(|loads| loads.cost_ns);
        Self {
            base_move_ns: costs.base_move_ns.unwrap_or(0.0),
            folio_move_ns,
            split_ns: costs.split_ns.unwrap_or(SPLIT_NS),
            collapse_ns: costs.collapse_ns.unwrap_or(folio_move_ns.max(COLLAPSE_NS)),
            sample_ns: sample_ns.unwrap_or(SAMPLE_NS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WorkCosts;

    #[test]
    fn what_is_not_offered_follows_from_what_is() {
        let of = |costs| Costs::of(&Offer { costs, ..Offer::default() });
        let none = of(WorkCosts::default());
        assert_eq!((none.base_move_ns, none.folio_move_ns), (0.0, FOLIO_MOVE_NS));
        assert_eq!(none.collapse_ns, COLLAPSE_NS);
        let slow = of(WorkCosts { base_move_ns: Some(40_000.0), ..WorkCosts::default() });
        assert_eq!((slow.folio_move_ns, slow.collapse_ns), (20_480_000.0, 20_480_000.0));
    }
}
