//! Published numbers that no run of ours can show, as files say.

use super::file::{Experiment, ResultOf};
use super::show;
use serde::Serialize;

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cannot {
    /// What it says.
    pub what: String,
    /// Machine model; none where the experiment has one only.
    pub machine: Option<String>,
    /// Name of the workload.
    pub workload: String,
    /// Size of fast memory; `-` for what does not depend on it.
    pub fast: String,
    /// Unit.
    pub unit: String,
    /// As published: least and most.
    pub paper: [f64; 2],
    /// Why no run can show it.
    pub cannot: String,
}

/// Those of an experiment that have a direction, in the order of the file.
pub fn cannot(experiment: &Experiment) -> Vec<Cannot> {
    let results = experiment.result.iter();
    let of = |result: &ResultOf| Some(of_result(experiment, result, result.cannot.as_deref()?));
    results.filter_map(of).flatten().collect()
}

fn of_result(experiment: &Experiment, result: &ResultOf, why: &str) -> Vec<Cannot> {
    let unit = result.unit();
    if !show::has_direction(unit) {
        return Vec::new();
    }
    // What is about the workload alone is one number, whatever the machine and the size.
    let alone = result.measure.is_of_workload();
    let several = !alone && experiment.machines().len() > 1;
    let machines = experiment.machines().iter().filter(|machine| result.is_on(machine));
    let machines = machines.take(if several { usize::MAX } else { 1 });
    let mut all = Vec::new();
    for machine in machines.map(|machine| several.then_some(machine)) {
        for workload in experiment.workload.iter().filter(|w| result.is_for(&w.name)) {
            let sizes = experiment.fast.iter().filter(|size| result.is_at(size));
            let own = |size: &String| Some(workload.fast.as_ref().unwrap_or(size).clone());
            let sizes: Vec<_> = if alone { vec![None] } else { sizes.map(own).collect() };
            for fast in sizes {
                let names = [Some(&workload.name), fast.as_ref(), machine];
                let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
                let Some(paper) = result.paper.as_ref().and_then(|paper| paper.range(&names))
                else {
                    continue;
                };
                all.push(Cannot {
                    what: result.what.clone(),
                    machine: machine.cloned(),
                    workload: workload.name.clone(),
                    fast: fast.unwrap_or_else(|| "-".into()),
                    unit: unit.to_owned(),
                    paper,
                    cannot: why.to_owned(),
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "title = \"t\"\npaper = \"p\"\nabout = \"a\"\nfast = [\"1:8\", \"1:4\"]\n\
        policies = \"first-touch,all-slow\"\n\
        [[workload]]\nname = \"v\"\ntrace = \"synth:zipf\"\n\
        [[workload]]\nname = \"w\"\ntrace = \"synth:zipf\"\n\
        [[result]]\nwhat = \"x\"\nmeasure = \"gain\"\n";

    fn read(more: &str) -> anyhow::Result<Experiment> {
        Experiment::parse("e.toml", &format!("{FILE}{more}"))
    }

    #[test]
    fn each_published_number_counts_once() {
        let count = |more: &str| {
            let file = read(&format!("{more}cannot = \"no such program\"\n")).unwrap();
            file.check(&file.labels().unwrap()).unwrap();
            cannot(&file).len()
        };
        assert_eq!(count("paper = 3\n"), 4);
        assert_eq!(count("paper = { v = 3 }\n"), 2);
        assert_eq!(count("paper = { v = { \"1:4\" = 3 } }\nof = \"not-here\"\n"), 1);
        assert_eq!(count("paper = 3\nfast = [\"1:4\"]\nworkloads = [\"w\"]\n"), 1);
        assert_eq!(count("paper = 3\nunit = \"s\"\n"), 0, "a time has no direction");
    }

    #[test]
    fn a_reason_is_needed_and_is_the_only_one() {
        for (more, says) in [
            ("paper = 3\ncannot = \" \"\n", "cannot is empty"),
            ("paper = 3\ncannot = \"a\\nb\"\n", "one line"),
            ("paper = 3\ncannot = \"a\"\ndiffers = \"b\"\n", "both cannot and differs"),
            ("cannot = \"a\"\n", "nothing was published"),
        ] {
            let error = frostline_terminal::errors::text(&read(more).unwrap_err());
            assert!(error.contains(says) && error.contains("hint:"), "{error}");
        }
    }
}
