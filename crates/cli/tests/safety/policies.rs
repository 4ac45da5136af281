//! Policies beside the usual one.

use crate::load::{Load, run_load_until};
use crate::support::{EAGER, attach, moved, text};
use crate::system::{System, number};
use std::process::Stdio;

const BUSY: &str = "--size 64MiB --hot 20% --cold-rate 2000/s --writes 20% --checksums --threads 2 \
                    --fork-rate 4/s --churn 20/s";

/// Runs the load under a policy, which must have moved memory out, and until these metrics are above 0; what
/// frostline said.
fn tiered(policy: &str, metrics: &[&str]) -> (String, serde_json::Value) {
    let options = format!("--policy {policy} --slow zram:size=256MiB --fast 40% {EAGER}");
    let (run, load) = run_load_until(&options, BUSY, 6, |run, load| {
        number(load, "forks") > 0
            && moved(&run.summary, "verified") > 16 << 20
            && number(&run.summary["accounts"], "refaults") > 0
            && metrics.iter().all(|metric| number_of(&run.summary, metric) > 0.0)
    });
    assert!(number(&load, "forks") > 0, "{load}");
    assert!(moved(&run.summary, "verified") > 16 << 20, "{:#}", run.summary);
    assert!(number(&run.summary["accounts"], "refaults") > 0, "{:#}", run.summary);
    (text(&run.output.stderr), run.summary)
}

#[test]
fn hybridtier_leaves_memory_whole() {
    let Some(system) = System::take() else { return };
    let (_, summary) = tiered("hybridtier", &["samples_total"]);
    assert!(number_of(&summary, "samples_total") > 0.0, "{summary:#}");
    system.finish();
}

#[test]
fn hotbox_leaves_memory_whole_and_says_where_it_departs() {
    let Some(system) = System::take() else { return };
    let metrics = ["kswapd_demoted_pages_total", "kswapd_kept_total"];
    let (told, summary) = tiered("hotbox", &metrics);
    assert!(told.contains("never pauses (throttle=off)"), "{told}");
    assert!(told.contains("fault by themselves"), "{told}");
    assert!(number_of(&summary, "kswapd_demoted_pages_total") > 0.0, "{summary:#}");
    assert!(
        number_of(&summary, "kswapd_kept_total") > 0.0,
        "what came back is spared: {summary:#}"
    );
    system.finish();
}

fn number_of(summary: &serde_json::Value, metric: &str) -> f64 {
    summary["metrics"][metric].as_f64().unwrap_or_else(|| panic!("{metric} in {summary:#}"))
}

#[test]
fn what_cannot_be_had_is_refused_with_a_hint() {
    let Some(system) = System::take() else { return };
    let load = Load::start("--size 16MiB");
    for (policy, why, hint) in [
        ("autonuma", "faults on armed pages", "take a policy that works with samples"),
        ("colloid", "latencies of reads by tier", "take a policy that works with samples"),
        ("hotbox:throttle=on", "counters of accesses by tier", "set it to `off`"),
        ("oracle-static", "needs knowledge of the future", "the simulator only"),
    ] {
        let mut command = attach(load.pid(), &format!("--policy {policy} --slow zram:size=64MiB"));
        let output = command.stderr(Stdio::piped()).output().expect("it runs");
        let told = text(&output.stderr);
        assert!(!output.status.success(), "{policy}: {told}");
        let (_, after) = told.split_once("\nhint: ").unwrap_or_else(|| panic!("{told}"));
        assert!(told.contains(why) && after.contains(hint), "{policy}: {told}");
    }
    load.end();
    system.finish();
}
