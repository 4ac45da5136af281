//! Parameters that policies take for what their world offers, for each kind of world.

use frostline_core::policy::registry::{REGISTRY, terms};
use frostline_core::policy::{Faults, Offer, Offered, Origin, Sampling};
use std::fmt::Write;

fn sampling(origin: Origin, per_second: f64) -> Sampling {
    Sampling { origin, per_second: Some(per_second), cost_ns: None }
}

/// Loads, and whether programs are brief.
fn worlds() -> [(&'static str, Sampling, bool); 5] {
    [
        ("hardware", Sampling::HARDWARE, false),
        ("lab", Sampling::HARDWARE, true),
        ("hint-faults", sampling(Origin::HintFaults, 2500.0), false),
        ("in-turn", sampling(Origin::InTurn, 1000.0), false),
        ("refaults", sampling(Origin::Refaults, 1000.0), false),
    ]
}

/// Every policy whose name is longer in a live world than in the simulator, since it takes other
/// parameters there.
fn departures() -> String {
    let mut out = String::new();
    for (world, loads, brief) in worlds() {
        for faults in [Faults::Never, Faults::Swap, Faults::Slower, Faults::Hints] {
            for closed_files in [true, false] {
                let telemetry = Offered {
                    loads: Some(loads),
                    faults,
                    closed_files,
                    counters: false,
                    read_latencies: false,
                    epochs: false,
                    ..Offered::default()
                };
                let offer = Offer { telemetry, brief, ..Offer::default() };
                for entry in REGISTRY {
                    let wished = terms(entry.name, &Offer::default()).unwrap().facts.needs;
                    let known = terms(entry.name, &offer).unwrap();
                    let needs = known.facts.needs;
                    let unmet = needs.faults && (faults == Faults::Never || !needs.swap_faults);
                    let unmet = unmet || needs.offline || needs.counters || needs.read_latencies;
                    if unmet || known.name == entry.name {
                        continue;
                    }
                    let told =
                        if closed_files { faults == Faults::Never } else { wished.closed_files };
                    if told || closed_files && wished.swap_faults || wished.counters && closed_files
                    {
                        writeln!(
                            out,
                            "{world} {faults:?} files={closed_files} {} -> {}",
                            entry.name, known.name
                        )
                        .unwrap();
                    }
                }
            }
        }
    }
    out
}

#[test]
fn policies_choose_their_constants_from_the_offer() {
    let expected: Vec<&str> = include_str!("offers.txt").lines().collect();
    let found = departures();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_simulator_takes_the_constants_of_the_tables() {
    for entry in REGISTRY {
        let known = terms(entry.name, &Offer::default()).unwrap();
        assert!(known.departures.is_empty() && known.name == entry.name, "{}", entry.name);
    }
}

#[test]
fn what_the_user_sets_stays_and_the_name_is_the_policy_in_any_world() {
    let telemetry = Offered {
        loads: Some(sampling(Origin::InTurn, 1000.0)),
        counters: false,
        ..Offered::default()
    };
    let offer = Offer { telemetry, ..Offer::default() };
    let named = |text: &str| terms(text, &offer).unwrap().name;
    assert_eq!(named("memtis-plus:cooling=7"), "memtis-plus:adaptation=2000:cooling=7:payoff=off");
    assert_eq!(named("memtis:cooling=0.1x"), "memtis:adaptation=2000:cooling=0.1x");
    assert_eq!(
        named("hybridtier:batch=7"),
        "hybridtier:frequency-cooling=3.2:momentum-cooling=22000:batch=7"
    );
    assert_eq!(named("first-touch"), "first-touch");
    let insisted = |text: &str| -> Vec<&str> {
        terms(text, &offer).unwrap().insisted.iter().map(|fit| fit.key).collect()
    };
    assert_eq!(insisted("hotbox:throttle=on"), ["throttle"]);
    assert!(insisted("hotbox:throttle=off").is_empty() && insisted("hotbox").is_empty());
}
