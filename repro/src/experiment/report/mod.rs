//! The report of an experiment: the paper's numbers beside ours, then the study.

mod figures;
mod map;
mod paper;

use super::Outcome;
use super::file::Experiment;
use super::heatmap::Picture;
use frostline_report::html::{self, heatmap};

/// The whole page.
pub fn page(experiment: &Experiment, outcome: &Outcome) -> String {
    let names: Vec<&str> = experiment.workload.iter().map(|w| w.name.as_str()).collect();
    let traces = html::traces(names.len());
    let quick =
        if outcome.quick { "; a quick run: smaller than what the file describes" } else { "" };
    let lead = format!("{}, replayed on {traces}{quick}", experiment.paper);
    let section = paper::section(experiment, outcome);
    html::page(&outcome.study, &names, [&experiment.title, &lead], &section)
}

/// Maps by the program's addresses, and by the machine's.
fn both(picture: &Picture) -> String {
    let Picture { title, policy, workload, fast, maps } = picture;
    let heading = |kind| format!("{title}: {workload}, {fast}, {kind} addresses");
    let [a, b] =
        [("virtual", &maps.by_address), ("physical", &maps.by_frame)].map(|(kind, map)| {
            heatmap::titled(map, policy, &heading(kind), &format!("the order of {kind} addresses"))
        });
    format!("<div class=\"grid\">{a}{b}</div>")
}
