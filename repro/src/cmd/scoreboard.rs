//! Published numbers that come out, as a table or JSON.

use crate::experiment::cannot::{Cannot, cannot};
use crate::experiment::file::Experiment;
use crate::experiment::headlines::{Headline, headlines};
use crate::experiment::night::Task;
use crate::experiment::score::{Score, Verdict};
use crate::experiment::show;
use crate::experiment::stored::Stored;
use frostline_report::table::{Table, wrap};
use frostline_terminal::output;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

struct Scored {
    name: String,
    experiment: Experiment,
    /// Whether the experiment's file is another one since.
    old: bool,
    stored: Stored,
}

#[derive(Serialize)]
struct Number<'a> {
    verdict: Verdict,
    #[serde(flatten)]
    finding: &'a crate::experiment::Finding,
}

#[derive(Serialize)]
struct Printed<'a> {
    experiment: &'a str,
    paper: &'a str,
    title: &'a str,
    version: &'a str,
    quick: bool,
    seeds: &'a [u64],
    machines: &'a [String],
    old: bool,
    score: Score,
    numbers: Vec<Number<'a>>,
    cannot: Vec<Cannot>,
}

/// Prints the score of each experiment and of all, number by number with `each`, and the papers' headlines
/// where all experiments that come with the program are there.
///
/// # Errors
/// Where it cannot be written.
pub fn print(results: Vec<(Task, Stored)>, each: bool, json: bool) -> anyhow::Result<()> {
    let scored = |(task, stored): (Task, Stored)| {
        let Task { name, experiment, sha256, .. } = task;
        let (old, stored) = (stored.sha256 != sha256, stored.with_reasons(&experiment));
        Scored { name, experiment, old, stored }
    };
    let scored: Vec<Scored> = results.into_iter().map(scored).collect();
    if json {
        return output::json(&scored.iter().map(Scored::printed).collect::<Vec<_>>());
    }
    output::text(&text(&scored, each))
}

impl Scored {
    fn score(&self) -> Score {
        Score::of(&self.stored.findings, cannot(&self.experiment).len())
    }

    fn numbers(&self) -> impl Iterator<Item = Number<'_>> {
        let number = |finding| Some(Number { verdict: Verdict::of(finding)?, finding });
        self.stored.findings.iter().filter_map(number)
    }

    fn printed(&self) -> Printed<'_> {
        Printed {
            experiment: &self.name,
            paper: &self.experiment.paper,
            title: &self.experiment.title,
            version: &self.stored.version,
            quick: self.stored.quick,
            seeds: &self.stored.seeds,
            machines: &self.stored.machines,
            old: self.old,
            score: self.score(),
            numbers: self.numbers().collect(),
            cannot: cannot(&self.experiment),
        }
    }
}

/// A row for each experiment, and their sum.
fn text(scored: &[Scored], each: bool) -> String {
    let mut out = String::new();
    if each {
        scored.iter().for_each(|one| each_number(&mut out, one));
    }
    let headings =
        ["experiment", "published", "met", "same way", "slight", "reversed", "unsure", "cannot"];
    let mut table = Table::new(&headings);
    let sum = scored.iter().map(Scored::score).sum();
    let rows = scored.iter().map(|one| (one.name.as_str(), one.score()));
    for (name, score) in rows.chain([("all", sum)]) {
        let Score { published, met, same_direction, slight, reversed, unsure, cannot } = score;
        let mut row = vec![name.to_owned()];
        let counts = [published, met, same_direction, slight, reversed, unsure, cannot];
        row.extend(counts.map(|count| count.to_string()));
        table.row(row);
    }
    out.push_str(&table.show(0));
    let has = |path: &PathBuf| scored.iter().any(|one| Path::new(&one.name) == path);
    if Experiment::names().iter().all(has) {
        let of = |name: &str| scored.iter().find(|one| one.name == name).map(|one| &one.stored);
        let _ = write!(out, "\n{}", headline_table(&headlines(of)));
    }
    let quick = scored.iter().filter(|one| one.stored.quick).count();
    if quick > 0 {
        let _ = writeln!(out, "\nquick    {quick} of {} with smaller workloads", scored.len());
    }
    let old: Vec<&str> = scored.iter().filter(|one| one.old).map(|one| &*one.name).collect();
    if !old.is_empty() {
        let _ = writeln!(out, "\nold      the files of {} were changed since", old.join(", "));
    }
    out
}

fn headline_table(headlines: &[Headline]) -> String {
    let mut table = Table::new(&["headline", "published", "ours", "numbers"]);
    for headline in headlines {
        let ours = headline.ours.map_or("-".into(), |ours| format!("{ours:.1} {}", headline.unit));
        let numbers = headline.numbers.to_string();
        table.row(vec![headline.what.into(), headline.published.into(), ours, numbers]);
    }
    table.show(0)
}

fn each_number(out: &mut String, one: &Scored) {
    let (numbers, unshown) = (one.numbers().collect::<Vec<_>>(), cannot(&one.experiment));
    if numbers.is_empty() && unshown.is_empty() {
        return;
    }
    let headings = ["workload", "machine", "fast", "paper", "ours", ""];
    let mut table = Table::new(&headings).left(3);
    let (mut what, mut reasons) = ("", Vec::new());
    for Number { verdict, finding } in numbers {
        if what != finding.what {
            what = &finding.what;
            table.heading(what);
        }
        let decimals = show::decimals(&finding.unit, &one.stored.findings);
        table.row(vec![
            format!("  {}", finding.workload),
            finding.machine.clone().unwrap_or_else(|| "-".into()),
            finding.fast.clone(),
            show::paper(finding),
            show::ours(finding, decimals),
            verdict.name().into(),
        ]);
        let reason = finding.differs.as_deref().filter(|_| verdict != Verdict::Met);
        if let Some(reason) = reason.filter(|reason| !reasons.contains(&(what, *reason))) {
            reasons.push((what, reason));
        }
    }
    for Cannot { what: of, workload, machine, fast, paper, unit, cannot } in &unshown {
        if what != of {
            what = of;
            table.heading(what);
        }
        table.row(vec![
            format!("  {workload}"),
            machine.clone().unwrap_or_else(|| "-".into()),
            fast.clone(),
            show::published(*paper, unit),
            "-".into(),
            "cannot".into(),
        ]);
        if !reasons.contains(&(what, cannot)) {
            reasons.push((what, cannot));
        }
    }
    let _ = writeln!(out, "{}: {}\n{}", one.name, one.experiment.title, table.show(2));
    for (what, reason) in reasons {
        let _ = writeln!(out, "  {}", wrap(&format!("{what}: {reason}"), 2));
    }
    out.push('\n');
}
