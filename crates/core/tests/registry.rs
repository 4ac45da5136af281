//! The table of policies: names, grammar, scaling, effective parameters.

use frostline_core::policy::registry::{self, REGISTRY, expand};
use frostline_core::policy::{
    Allocation, EpochReader, Group, Lack, Made, Offer, Oracle, PageSaving, PageSize, make, pages,
};
use frostline_core::{Engine, EngineConfig, Nanos, PageCount, PageId, PageRun, ProcessId, TierId};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Nothing;

impl Oracle for Nothing {
    fn totals(&self, _: &mut dyn FnMut(PageSaving)) {}
    fn epochs(&self) -> EpochReader {
        Box::new(|number, sink| {
            sink(PageSaving { page: PageId(0), saving_ns: 1.0 });
            number < 100
        })
    }
    fn promotion_cost_ns(&self) -> f64 {
        0.0
    }
    fn demotion_cost_ns(&self) -> f64 {
        0.0
    }
}

fn context() -> Offer {
    Offer { oracle: Some(Arc::new(Nothing)), ..Offer::default() }
}

fn config(made: Made) -> BTreeMap<&'static str, String> {
    let keys = made.config.len();
    let out: BTreeMap<_, _> = made.config.into_iter().collect();
    assert_eq!(out.len(), keys, "a key comes twice");
    out
}

fn error(text: &str) -> String {
    match make(text, &context()) {
        Ok(made) => panic!("{text} made {}", made.name),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_entry_can_be_made_and_says_what_it_runs_with() {
    let mut names = Vec::new();
    for entry in REGISTRY {
        let made = make(entry.name, &context()).unwrap();
        assert_eq!(made.name, entry.name);
        let config = config(made);
        assert_eq!(config.len(), entry.params().count(), "{}", entry.name);
        for param in entry.params() {
            assert!(!param.about.is_empty());
            let value = &config[param.name];
            // What is reported can be given back.
            let again = make(&format!("{}:{}={value}", entry.name, param.name), &context());
            let again = again.unwrap_or_else(|e| panic!("{} {}: {e}", entry.name, param.name));
            assert_eq!(again.name, entry.name, "a default is not part of the name");
        }
        assert!(!entry.summary.is_empty() && !entry.citation.is_empty());
        names.push(entry.name);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), REGISTRY.len(), "names are unique");
}

/// Worlds that cannot choose where new memory goes have to tell their users.
#[test]
fn who_begins_new_memory_in_slow_tiers_says_so() {
    let mut slow = Vec::new();
    for entry in REGISTRY {
        let made = make(entry.name, &context()).unwrap();
        if made.facts.needs.offline {
            continue;
        }
        let says = made.facts.starts_slow;
        let room = PageCount(4096);
        let mut engine = Engine::new(EngineConfig::two_tiers(room, room), made).unwrap();
        let begins_slow = (0..16).any(|page| {
            let run = PageRun { start: PageId(page), pages: 1 };
            let allocation =
                Allocation { run, huge: false, may_be_huge: false, process: ProcessId(0) };
            engine.populate(Nanos::ZERO, &allocation).map(|placed| placed.tier)
                != Some(TierId::FAST)
        });
        assert!(says || !begins_slow, "{} does not say that it begins in slow memory", entry.name);
        if begins_slow {
            slow.push(entry.name);
        }
    }
    for name in ["all-slow", "interleave", "arc", "twoq"] {
        assert!(slow.contains(&name), "{name} is none of {slow:?}");
    }
    let memtierd = |text| make(text, &context()).unwrap().facts.starts_slow;
    assert!(memtierd("memtierd:start=slow") && !memtierd("memtierd:start=fast"));
}

#[test]
fn pages_are_those_of_the_source_unless_asked_or_where_nobody_can_choose() {
    let base = |text: &str, offer: &Offer| make(text, offer).unwrap().facts.base_pages;
    let live = Offer { chooses_page_size: false, ..context() };
    let mut listed = BTreeMap::new();
    for entry in REGISTRY {
        let name = entry.name;
        *listed.entry(pages::name(entry.pages)).or_insert(0) += 1;
        let is_base = entry.pages == Some(PageSize::Base);
        assert_eq!(base(name, &context()), is_base, "{name}");
        for (size, wanted) in [("base", true), ("huge", false), ("machine", false)] {
            assert_eq!(base(&format!("{name}:pages={size}"), &context()), wanted, "{name}");
        }
        let known = registry::terms(name, &live).unwrap();
        assert!(!known.facts.base_pages, "{name}");
        let lacks: Vec<Lack> =
            known.departures.iter().filter_map(|fit| Some(fit.without?.0)).collect();
        assert_eq!(lacks.contains(&Lack::PageSize), is_base, "{name}");
    }
    assert_eq!(listed.len(), 3, "{listed:?}");
    let of = |name: &str| registry::find(name).unwrap().pages;
    assert_eq!(of("hybridtier"), Some(PageSize::Base));
    assert_eq!((of("memtis"), of("autonuma")), (Some(PageSize::Folio), None));
    assert_eq!(
        pages::set("hybridtier:momentum=2", PageSize::Folio).unwrap(),
        "hybridtier:momentum=2:pages=huge"
    );
}

#[test]
fn mistakes_get_a_hint() {
    assert!(error("memtsi").contains("hint: did you mean `memtis`?"), "{}", error("memtsi"));
    let text = error("memtis:colling=1");
    assert!(text.contains("unknown parameter `colling`"), "{text}");
    assert!(text.contains("did you mean `cooling`?"), "{text}");
    assert!(error("memtis:alpha=1.5").contains("not a share"));
    assert!(error("memtis:alpha=2x").contains("not a share"));
    assert!(error("memtis:cooling=-1x").contains("multiple of the default"));
    assert!(error("memtis:bins=log").contains("known: paper, artifact"));
    assert!(error("swap-belady:x=1").contains("unknown parameter `x`"));
    assert!(error("interleave:fast=0:slow=0").contains("hint:"));
    let no_oracle = make("oracle-static", &Offer::default()).err().unwrap().to_string();
    assert!(no_oracle.contains("simulator only"), "{no_oracle}");
    for scale in [0.5, f64::NAN, f64::INFINITY] {
        assert!(make("memtis", &Offer { scale, ..context() }).is_err());
    }
}

#[test]
fn the_scale_divides_intervals_and_nothing_else() {
    let scaled = Offer { scale: 100.0, ..context() };
    let made = make("memtis", &scaled).unwrap();
    assert_eq!(made.policy.next_wakeup(), Some(Nanos(5_000_000)));
    let config_of = config(made);
    assert_eq!(config_of["cooling"], "20000");
    assert_eq!(config_of["adaptation"], "1000");
    assert_eq!(config_of["wakeup"], "5ms");
    assert_eq!(config_of["period"], "200");
    assert_eq!(config_of["alpha"], "0.9");
    let swept = make("memtis:cooling=0.1x:wakeup=2x:adaptation=7", &scaled).unwrap();
    assert_eq!(swept.name, "memtis:adaptation=7:cooling=0.1x:wakeup=2x");
    let swept = config(swept);
    assert_eq!((&*swept["cooling"], &*swept["wakeup"]), ("2000", "10ms"));
    assert_eq!(swept["adaptation"], "7", "a value written outright is not scaled");
    let tiny = make("memtis", &Offer { scale: 1e12, ..context() }).unwrap();
    assert_eq!(config(tiny)["cooling"], "1", "an interval never becomes 0");
}

#[test]
fn variants_are_presets() {
    let of = |name: &str, key: &str| config(make(name, &context()).unwrap())[key].clone();
    assert_eq!(of("memtis-ns", "split"), "off");
    assert_eq!(of("memtis-nw", "warm"), "off");
    assert_eq!((&*of("memtis-plus", "payoff"), &*of("memtis:split=off", "payoff")), ("on", "off"));
    assert_eq!(of("memtis-artifact", "alpha"), "0.75");
    assert_eq!(of("memtis-artifact", "growth-cooling"), "10GiB");
    assert_eq!(of("memtis:split=off", "split"), "off");
    let name = make("memtis-ns:split=on", &context()).unwrap().name;
    assert_eq!(name, "memtis-ns:split=on");
    let listed = |key: &str| {
        let mut params = registry::find("memtis-ns").unwrap().params();
        params.find(|param| param.name == key).unwrap().default
    };
    assert_eq!((listed("split"), listed("alpha")), ("off", "0.9"));
}

/// Every parameter of `memtis` beside what MEMTIS (SOSP '23) says, by section.
#[test]
fn memtis_is_the_published_rules() {
    let published = [
        ("alpha", "0.9", "4.2.1"),
        ("warm", "on", "4.2.1"),
        ("adaptation", "100000", "4.2.1"),
        ("hot-step", "free", "4.2.1, algorithm 1: the threshold is found anew"),
        ("evidence", "1", "4.2.3: every sampled page that is hot is listed for promotion"),
        ("cooling", "2000000", "4.2.2"),
        ("histogram", "shift", "4.2.2: one bin to the left"),
        ("growth-cooling", "0", "4.2.2: cooling follows from samples alone"),
        ("bins", "paper", "4.1.3: bin n is [2^n, 2^(n+1))"),
        ("wakeup", "500ms", "4.2.3"),
        ("free", "0.02", "4.2.3"),
        ("payoff", "off", "4.2.3: whoever is hot is promoted where there is room"),
        ("period", "200", "4.1.1"),
        (
            "period-max",
            "19997",
            "4.1.1 has no end, 6.3.4 saw 1400 at most: that of the authors' code",
        ),
        ("periods", "proportional", "4.1.1 names no step: ours"),
        ("period-check", "1s", "4.1.1 names no interval: ours"),
        ("cpu", "0.03", "4.1.1"),
        ("hysteresis", "0.005", "4.1.1"),
        ("store-period", "100000", "4.1.1"),
        ("split", "on", "4.3"),
        ("estimation", "0.25", "4.3.1: a quarter of all pages"),
        ("benefit", "0.05", "4.3.1"),
        ("estimate", "paper", "4.3.1, equation 2"),
        ("patient", "off", "4.3.1: rHR as it was measured"),
        ("beta", "0.4", "4.3.2"),
        ("latency-gap", "2.75", "4.3.2: that of the machine"),
        ("regret", "0", "4.3 never gives up"),
        ("collapse", "on", "4.3.3"),
        ("pages", "huge", "3: transparent huge pages by default"),
    ];
    let gap = context().with_latency_gap(2.75);
    let mut ours = config(make("memtis", &gap).unwrap());
    for (key, value, section) in published {
        let our = ours.remove(key);
        assert_eq!(our.as_deref(), Some(value), "{key} (section {section})");
    }
    assert!(ours.is_empty(), "parameters that nobody has compared with the paper: {ours:?}");
}

#[test]
fn the_latency_gap_is_the_machines_unless_given() {
    let slow = context().with_latency_gap(11.5);
    let of = |text: &str| config(make(text, &slow).unwrap())["latency-gap"].clone();
    assert_eq!(of("memtis"), "11.5");
    assert_eq!(of("memtis:latency-gap=2"), "2");
    assert_eq!(of("memtis:latency-gap=0.5x"), "5.75");
    assert!(error("memtis:latency-gap=-1").contains("below 0"));
}

#[test]
fn lists_name_policies_and_groups() {
    let all = expand("all").unwrap();
    assert!(all.contains(&"memtis".to_string()) && !all.contains(&"memtis-ns".to_string()));
    assert_eq!(expand("memtis,all,memtis").unwrap()[0], "memtis");
    assert_eq!(expand("memtis,all,memtis").unwrap().len(), all.len());
    let everything = expand("principal,variants,baselines,offline").unwrap();
    assert_eq!(everything.len(), REGISTRY.len());
    for group in Group::ALL {
        assert!(!expand(group.name()).unwrap().is_empty());
    }
    assert_eq!(expand("memtis:alpha=0.5, all-fast").unwrap(), ["memtis:alpha=0.5", "all-fast"]);
    assert!(expand("memtis,frist-touch").unwrap_err().to_string().contains("first-touch"));
    assert!(expand("").is_err());
}
