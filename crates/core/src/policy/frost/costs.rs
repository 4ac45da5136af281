//! Costs of work: as the world says, or what is usual.

use super::exchange::Margin;
use super::granularity::Prices;
use crate::policy::offer::Offer;
use crate::policy::settings::Settings;
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
    /// Of each core that is interrupted.
    pub interruption_ns: f64,
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
            interruption_ns: costs.interruption_ns.unwrap_or(0.0),
        }
    }
}

/// What moves and changes have to gain, in time of the program's cores (ns).
///
/// A stretch of pages that moves interrupts every core that runs the program. What that takes from one of them is
/// in the margins, or in the time of a worker that runs there; the others come on top.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tariff {
    base: f32,
    page: f32,
    folio: f32,
    there_and_back: f32,
    changes: Prices,
    interruption: f32,
    /// Interruptions of all cores but one.
    others: f32,
}

impl Tariff {
    /// Of a program that runs on one core.
    pub(super) fn new(settings: &Settings, costs: &Costs, shares_cores: bool) -> Self {
        let margin = settings.number("margin");
        // Where moves take time from the program, they have to gain all of it.
        let (of_folio, page) = match shares_cores {
            true => (2.0, 2.0 * costs.base_move_ns),
            false => (margin, 0.0),
        };
        let changes = match settings.switch("split") {
            true => [costs.split_ns * margin, costs.collapse_ns],
            false => [f64::INFINITY; 2],
        };
        let [split, collapse] = changes.map(|price| price as f32);
        Self {
            base: settings.duration("margin-base").0 as f32,
            page: page as f32,
            folio: (costs.folio_move_ns * of_folio) as f32,
            there_and_back: 2.0 * costs.folio_move_ns as f32,
            changes: Prices { split, collapse },
            interruption: costs.interruption_ns as f32,
            others: 0.0,
        }
    }

    /// So many cores run the program.
    pub(super) fn run_on(&mut self, cores: u32) {
        self.others = self.interruption * cores.saturating_sub(1) as f32;
    }

    /// Margins of exchanges where a sample is worth so much.
    pub(super) fn margin(&self, worth: f32) -> Margin {
        Margin {
            base: (self.base + self.others) / worth,
            page: self.page / worth,
            folio: (self.folio + self.others) / worth / HUGE_PAGES as f32,
            leaving: self.others / worth,
        }
    }

    /// Price of a page that is brought in ahead with others, and goes back (samples).
    pub(super) fn ahead(&self, worth: f32) -> f32 {
        (self.there_and_back + 2.0 * self.others) / HUGE_PAGES as f32 / worth
    }

    /// Prices of a split and of a collapse.
    pub(super) fn changes(&self) -> Prices {
        let Prices { split, collapse } = self.changes;
        Prices { split: split + self.others, collapse: collapse + self.others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WorkCosts;
    use crate::policy::registry::find;
    use crate::spec::Spec;

    #[test]
    fn who_interrupts_many_cores_has_to_gain_more_and_on_one_core_nothing_changes() {
        let offer = Offer {
            costs: WorkCosts { interruption_ns: Some(1500.0), ..WorkCosts::default() },
            ..Offer::default()
        };
        let settings = find("frost").unwrap().read(&Spec::parse("frost").unwrap(), &offer).unwrap();
        let mut tariff = Tariff::new(&settings, &Costs::of(&offer), false);
        let (margin, ahead, changes) =
            (tariff.margin(11_000.0), tariff.ahead(11_000.0), tariff.changes());
        assert_eq!((margin.base, margin.leaving), (0.4, 0.0));
        tariff.run_on(20);
        let many = tariff.margin(11_000.0);
        // 28.5 us for each way.
        let close = |a: f32, b: f32| (a - b).abs() < 1e-3;
        assert!(close(many.base - margin.base, 2.591) && close(many.leaving, 2.591));
        assert!(close((many.folio - margin.folio) * HUGE_PAGES as f32, 2.591));
        assert!(close((tariff.ahead(11_000.0) - ahead) * HUGE_PAGES as f32, 2.0 * 2.591));
        assert_eq!(tariff.changes().split - changes.split, 28_500.0);
        tariff.run_on(1);
        assert_eq!(tariff.margin(11_000.0).base, margin.base);
    }

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
