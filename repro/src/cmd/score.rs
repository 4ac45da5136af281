//! `frostline-repro score`.

use super::effort::{EffortArgs, name};
use crate::experiment::carry_out;
use crate::experiment::file::Experiment;
use crate::experiment::headlines::{Headline, headlines};
use crate::experiment::score::{Score, Verdict};
use crate::experiment::show;
use crate::experiment::stored::{Stored, digest};
use frostline_report::table::{Table, wrap};
use frostline_terminal::errors::usage;
use frostline_terminal::progress::note;
use frostline_terminal::{cancel, output};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro score                             # all, from results that come with the program
  frostline-repro score memtis-fig5 --each          # number by number, with reasons
  frostline-repro score --run --quick --results r   # all anew, half a minute each; goes on where it was stopped

Counted are published numbers that have a direction: per cent, points, ratios and correlations, no
amounts and times. Met are those that our interval reaches, or from which ours is less than a quarter
away; of the others, ours points the same way (slight where by less than a tenth of what was published),
the other way (reversed), or neither for sure.")]
pub struct Args {
    /// Experiments by name, their files, and folders of them [default: all that come with the program]
    #[arg(value_name = "EXPERIMENT")]
    paths: Vec<PathBuf>,
    /// Run those that have no results yet, or results of another file, effort or number of seeds
    #[arg(long)]
    run: bool,
    /// Folder of results [default: those that come with the program; with --run, none are kept]
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Show every number, with the reasons of those that are not met
    #[arg(long)]
    each: bool,
    #[command(flatten)]
    effort: EffortArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

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
}

/// Runs the command.
///
/// # Errors
/// A file that is no experiment, one without results where none are run, or a run that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let mut files = if args.paths.is_empty() { Experiment::names() } else { Vec::new() };
    for path in &args.paths {
        match path.is_dir() {
            true => files.extend(Experiment::files(path)?),
            false => files.push(path.clone()),
        }
    }
    let read = |path: &PathBuf| {
        let text = Experiment::text(path)?;
        let experiment = Experiment::parse(&path.display().to_string(), &text)?;
        Ok((name(path), experiment, digest(&text)?))
    };
    let experiments = files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let mut scored = Vec::new();
    let count = experiments.len();
    for (index, (name, experiment, sha256)) in experiments.into_iter().enumerate() {
        let (old, stored) = match args.run {
            true => {
                note(&format!("{name}, {} of {count}", index + 1));
                (false, args.carry_out(&name, &experiment, sha256)?)
            }
            false => {
                let stored = Stored::read(args.results.as_deref(), &name)?;
                let stored = stored.ok_or_else(|| {
                    usage(format!("{name} has no results"), "`--run` runs it; add --quick to try")
                })?;
                (stored.sha256 != sha256, stored)
            }
        };
        let stored = stored.with_reasons(&experiment);
        scored.push(Scored { name, experiment, old, stored });
    }
    if args.json {
        return output::json(&scored.iter().map(Scored::printed).collect::<Vec<_>>());
    }
    output::text(&text(&scored, args.each, args.paths.is_empty()))
}

impl Args {
    /// The results that are kept, or new ones.
    fn carry_out(
        &self,
        name: &str,
        experiment: &Experiment,
        sha256: String,
    ) -> anyhow::Result<Stored> {
        let effort = self.effort.effort(false);
        if let Some(folder) = &self.results
            && let Some(stored) = Stored::read(Some(folder), name)?
            && stored.is_of(&sha256, experiment, effort)
        {
            return Ok(stored);
        }
        let stored = Stored::of(sha256, experiment, carry_out(experiment, effort)?);
        if let Some(folder) = &self.results {
            stored.write(folder, name)?;
        }
        Ok(stored)
    }
}

impl Scored {
    fn score(&self) -> Score {
        Score::of(&self.stored.findings)
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
        }
    }
}

/// A row for each experiment, and their sum.
fn text(scored: &[Scored], each: bool, all: bool) -> String {
    let mut out = String::new();
    if each {
        scored.iter().for_each(|one| each_number(&mut out, one));
    }
    let headings = ["experiment", "published", "met", "same way", "slight", "reversed", "unsure"];
    let mut table = Table::new(&headings);
    let sum = scored.iter().map(Scored::score).sum();
    let rows = scored.iter().map(|one| (one.name.as_str(), one.score()));
    for (name, score) in rows.chain([("all", sum)]) {
        let Score { published, met, same_direction, slight, reversed, unsure } = score;
        let mut row = vec![name.to_owned()];
        let counts = [published, met, same_direction, slight, reversed, unsure];
        row.extend(counts.map(|count| count.to_string()));
        table.row(row);
    }
    out.push_str(&table.show(0));
    if all {
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
    let mut numbers = one.numbers().peekable();
    if numbers.peek().is_none() {
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
    let _ = writeln!(out, "{}: {}\n{}", one.name, one.experiment.title, table.show(2));
    for (what, reason) in reasons {
        let _ = writeln!(out, "  {}", wrap(&format!("{what}: {reason}"), 2));
    }
    out.push('\n');
}
