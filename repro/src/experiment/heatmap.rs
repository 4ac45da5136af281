//! Maps of accesses over addresses and time.

use super::file::{Experiment, names};
use frostline_sim::Heatmaps;
use frostline_study::Study;
use serde::Serialize;

/// What came out, of the first seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// Policy.
    pub policy: String,
    /// Name of the workload.
    pub workload: String,
    /// Size of fast memory.
    pub fast: String,
    /// The maps.
    #[serde(flatten)]
    pub maps: Heatmaps,
}

/// All of them in the order of the file.
pub fn draw(experiment: &Experiment, study: &Study) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for of in &experiment.heatmap {
        let workloads = experiment.workload.iter().zip(&study.traces);
        for (workload, trace) in workloads.filter(|(w, _)| names(&of.workloads, &w.name)) {
            let sizes = experiment.fast.iter().zip(&trace.sizes);
            for (fast, size) in sizes.filter(|(fast, _)| names(&of.fast, fast)) {
                let policy = size.policies.iter().find(|policy| policy.spec == of.of);
                let maps = policy.and_then(|policy| policy.first().heatmaps.clone());
                pictures.extend(maps.map(|maps| Picture {
                    title: of.title.clone(),
                    policy: of.of.clone(),
                    workload: workload.name.clone(),
                    fast: fast.clone(),
                    maps,
                }));
            }
        }
    }
    pictures
}

#[cfg(test)]
mod tests {
    use crate::experiment::file::Experiment;
    use crate::experiment::{Effort, Outcome, carry_out};

    const FILE: &str = r#"
title = "t"
paper = "p"
about = "a"
machines = ["dram-nvm:thp=off:fragmentation=1", "dram-nvm:thp=off"]
fast = ["200%"]
policies = "first-touch"
[[workload]]
name = "window"
trace = "synth:shift:mode=slide:hot=1/15:size=64MiB:accesses=1M:init=on"
[[result]]
what = "virtual"
measure = "share"
of = "first-touch"
number = "addresses.virtual_hottest_tenth"
[[result]]
what = "physical"
measure = "share"
of = "first-touch"
number = "addresses.physical_hottest_tenth"
[[heatmap]]
title = "Where"
of = "first-touch"
"#;

    fn run() -> (Experiment, Outcome) {
        let experiment = Experiment::parse("e.toml", FILE).unwrap();
        let effort = Effort { quick: false, seeds: Some(2), jobs: 2, charts: false };
        let outcome = carry_out(&experiment, effort).unwrap();
        (experiment, outcome)
    }

    #[test]
    fn locality_is_in_virtual_addresses_and_in_physical_ones_where_memory_is_fresh() {
        let (experiment, outcome) = run();
        let ours = |what: &str, machine: usize| {
            let machine = &experiment.machines[machine];
            let of = |f: &&crate::experiment::Finding| {
                f.what == what && f.machine.as_ref() == Some(machine)
            };
            outcome.findings.iter().find(of).map(|finding| finding.ours).unwrap()
        };
        // The window is a fifteenth of the memory.
        assert!(ours("virtual", 0) > 90.0 && ours("virtual", 1) > 90.0, "{:?}", outcome.findings);
        assert!(ours("physical", 0) < 40.0 && ours("physical", 1) > 90.0, "{:?}", outcome.findings);
        let [picture] = &outcome.heatmaps[..] else { panic!("of the first machine") };
        let sum = |map: &frostline_sim::Heatmap| map.counts.iter().flatten().sum::<u64>();
        assert_eq!(sum(&picture.maps.by_address), sum(&picture.maps.by_frame));
        assert!(sum(&picture.maps.by_address) > 900_000);
    }

    #[test]
    fn both_maps_are_in_the_report() {
        let (experiment, outcome) = run();
        let page = crate::experiment::report::page(&experiment, &outcome);
        for kind in ["virtual", "physical"] {
            let title = format!("<figcaption>Where: window, 200%, {kind} addresses<");
            assert!(page.contains(&title), "{title}");
        }
    }
}
