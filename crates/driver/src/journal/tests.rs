//! Setups written and read, and what a policy is made of by them.

use super::*;
use frostline_core::policy::registry::terms;
use frostline_core::policy::{
    Faults, Offered, Origin, Sampling, TierOffer, Translation, WorkCosts,
};

/// With everything that a world can tell.
fn setup(policy: &str) -> Setup {
    let loads = Sampling { origin: Origin::InTurn, per_second: Some(1000.0), cost_ns: Some(700.0) };
    let telemetry = Offered {
        loads: Some(loads),
        faults: Faults::Swap,
        closed_files: false,
        counters: false,
        ..Offered::default()
    };
    let offer = Offer {
        seed: 7,
        fast_pages: PageCount(64),
        total_pages_hint: PageCount(1024),
        telemetry,
        tiers: [90.0, 400.0].map(TierOffer::loads_in).into(),
        parallelism: Some(4.0),
        costs: WorkCosts { split_ns: Some(1e5), ..WorkCosts::default() },
        translation: Some(Translation { entries: 1536, base_walk_ns: 30.0, folio_walk_ns: 10.0 }),
        shares_cores: true,
        chooses_page_size: false,
        ..Offer::default()
    };
    let config = EngineConfig::two_tiers(PageCount(64), PageCount(1024));
    Setup { policy: policy.into(), offer, config }
}

#[test]
fn a_setup_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let setup = setup("frost:thrift=on");
    Journal::create(&path, &setup).unwrap().flush().unwrap();
    let mut entries = Entries::open(&path).unwrap();
    assert_eq!(entries.next_entry().unwrap(), Some(Entry::Setup(setup.into())));
    assert_eq!(entries.next_entry().unwrap(), None);
}

#[test]
fn a_policy_is_made_from_the_offer_that_its_parameters_were_chosen_by() {
    for policy in ["frost", "hybridtier", "memtis-plus:payoff=on", "pet", "hotbox"] {
        let setup = setup(policy);
        let known = terms(policy, &setup.offer).unwrap();
        assert!(!known.departures.is_empty(), "{policy}");
        let engine = setup.engine().unwrap();
        assert_eq!((engine.name(), engine.facts()), (&*known.name, &known.facts));
    }
    let made = make("memtis-plus:payoff=on", &setup("").offer).unwrap();
    assert!(made.config.contains(&("payoff", "on".into())), "what the user sets stays");
}

#[test]
fn journals_of_other_versions_are_refused() {
    let refusal = |bytes: &[u8]| Entries::new(Path::new("j"), bytes).unwrap_err().to_string();
    for version in ["2", "4"] {
        let told = refusal(format!("frostline journal {version}\n").as_bytes());
        assert!(told.contains(&format!("version {version}, and version 3 ")), "{told}");
        assert!(told.contains("\nhint: "), "{told}");
    }
    for other in ["", "frostline journal 3", "frostline, a journal"] {
        let told = refusal(other.as_bytes());
        assert!(told.contains("no journal\nhint: "), "{told}");
    }
    assert!(MAGIC.starts_with(MARK));
}
