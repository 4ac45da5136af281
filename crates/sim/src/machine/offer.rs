//! Offer of a modelled machine to policies.

use super::{Machine, TierModel, Workers};
use frostline_core::policy::{Bits, Offer, Offered, Sampling, TierOffer, Translation, WorkCosts};
use frostline_core::types::HUGE_PAGES;

/// Load of a tier at which latencies count as loaded.
const LOAD: f64 = 0.8;

impl Machine {
    /// What the simulator of this machine offers: all telemetry, and what is known of memory and costs.
    /// `tlb` says whether walks take time.
    pub fn offer(&self, tlb: bool) -> Offer {
        let translation = Translation {
            entries: self.tlb.l2_entries,
            base_walk_ns: (self.tlb.walk_base_ns - self.tlb.l2_hit_ns).max(0.0),
            folio_walk_ns: (self.tlb.walk_huge_ns - self.tlb.l2_hit_ns).max(0.0),
        };
        let costs = &self.costs;
        let sample_ns = costs.sample_assist_ns + costs.sample_cpu_ns + costs.sample_policy_ns;
        let samples = Sampling { cost_ns: Some(sample_ns), ..Sampling::HARDWARE };
        let bits = Bits { cost_ns: Some(costs.scan_ns), ..Bits::default() };
        let copy_ns = f64::midpoint(self.move_page_ns(0, 1), self.move_page_ns(1, 0));
        Offer {
            telemetry: Offered {
                loads: Some(samples),
                stores: Some(samples),
                access_bits: Some(bits),
                ..Offered::default()
            },
            tiers: self.tiers.iter().map(tier).collect(),
            parallelism: Some(self.cpu.mlp),
            costs: WorkCosts {
                base_move_ns: Some(costs.migrate_base_ns + copy_ns),
                folio_move_ns: Some(costs.migrate_huge_ns + f64::from(HUGE_PAGES) * copy_ns),
                split_ns: Some(costs.split_ns),
                collapse_ns: Some(costs.collapse_ns),
                interruption_ns: Some(costs.shootdown_ns),
            },
            translation: tlb.then_some(translation),
            shares_cores: self.cpu.workers == Workers::Shared,
            ..Offer::default()
        }
    }

    /// What a daemon on this machine offers, outside of the kernel: what it measures at start, latencies and moves, and
    /// no more.
    pub fn offer_outside(&self) -> Offer {
        let Offer { tiers, costs, .. } = self.offer(false);
        Offer {
            telemetry: Offered { read_latencies: false, epochs: false, ..Offered::default() },
            tiers: tiers.iter().map(|tier| TierOffer::loads_in(tier.load_ns)).collect(),
            costs: WorkCosts { base_move_ns: costs.base_move_ns, ..WorkCosts::default() },
            shares_cores: true,
            chooses_page_size: false,
            ..Offer::default()
        }
    }
}

fn tier(tier: &TierModel) -> TierOffer {
    // M/D/1, as accesses are delayed.
    let queue_ns = tier.service() * LOAD / (2.0 * (1.0 - LOAD));
    TierOffer {
        load_ns: tier.read_ns,
        store_ns: Some(tier.write_ns),
        loaded_load_ns: Some(tier.read_ns + queue_ns),
        loaded_store_ns: Some(tier.write_ns + queue_ns),
        read_bytes_per_second: Some(tier.read_bytes_per_second),
        write_bytes_per_second: Some(tier.write_bytes_per_second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_offered_what_is_modelled() {
        let machine = Machine::parse("dram-nvm").unwrap();
        let offer = machine.offer(false);
        assert_eq!(offer.latency_gap(), Offer::default().latency_gap());
        assert_eq!(offer.tiers[1].loaded_load_ns.map(f64::round), Some(600.0));
        assert_eq!((offer.parallelism, offer.shares_cores), (Some(4.0), false));
        let outside = machine.offer_outside();
        assert!(outside.shares_cores && !outside.chooses_page_size);
        assert_eq!(outside.latency_gap(), offer.latency_gap());
        assert_eq!((outside.parallelism, outside.translation), (None, None));
        assert_eq!(outside.costs.base_move_ns, offer.costs.base_move_ns);
        assert_eq!(outside.telemetry.loads.and_then(|loads| loads.cost_ns), None);
        let one = offer.costs.base_move_ns.unwrap();
        assert!(one > machine.costs.migrate_base_ns && offer.costs.folio_move_ns.unwrap() > one);
        assert_eq!(offer.translation, None);
        let walks = machine.offer(true).translation.unwrap();
        assert!(walks.base_walk_ns > walks.folio_walk_ns && walks.entries == 1536);
        assert!(Machine::parse("dram-nvm:workers=shared").unwrap().offer(true).shares_cores);
    }
}
