//! `frostline-repro goal-live`.

use crate::goal_live::programs::ALL;
use crate::goal_live::{Case, Spans, measure};
use crate::names::chosen;
use frostline_core::spec;
use frostline_report::table::Table;
use frostline_report::units::{bytes, percent};
use frostline_terminal::errors::{self, failure};
use frostline_terminal::progress::note;
use frostline_terminal::{cancel, output};
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro goal-live                            # eight programs, 1, 2 and 5 %: an hour and a half
  frostline-repro goal-live redis node --max-slowdown 2%

Each program runs twice on the last core. Both work in turn for some milliseconds; frostline attends to one of
them. What it needs more for the same work is the slowdown. Needs root and zram. What is not installed is
named with the command that installs it, and left out.")]
pub struct Args {
    /// Programs [default: all that are installed]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Slowdowns that are accepted, separated by commas
    #[arg(long, default_value = "1%,2%,5%", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = spec::parse_ratio)]
    max_slowdown: Vec<f64>,
    /// Seconds in which the size of fast memory settles
    #[arg(long, default_value_t = 120, value_name = "N")]
    settle: u64,
    /// Seconds of what is measured
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// The program `frostline` [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    frostline: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Said of a name that there is not.
const UNKNOWN: &str = " is no program";
/// Time before frostline attends to one of two programs, in seconds.
const BEFORE: u64 = 20;

/// Measures, and prints a table.
///
/// # Errors
/// A name that is not known, no rights, a stop, and, after all others, a case that failed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let programs = chosen(ALL, |program| program.name, &args.names, UNKNOWN)?;
    let frostline = match &args.frostline {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("frostline"),
    };
    if !frostline.is_file() {
        let what = format!("there is no {}", frostline.display());
        return Err(failure(what, "build it (cargo build --release), or name it by --frostline"));
    }
    let spans = Spans {
        before: Duration::from_secs(BEFORE),
        settle: Duration::from_secs(args.settle),
        measure: Duration::from_secs(args.seconds),
    };
    let (mut cases, mut failed) = (Vec::new(), Vec::new());
    for program in programs {
        if let Some(missing) = (program.missing)() {
            note(&format!("{}: left out: {missing}", program.name));
            continue;
        }
        note(&format!("{}: {}", program.name, program.about));
        for goal in &args.max_slowdown {
            match measure(program, *goal, spans, &frostline) {
                Ok(case) => {
                    note(&told(&case));
                    cases.push(case);
                }
                Err(error) => {
                    cancel::check()?;
                    note(&format!("{}: {}", program.name, errors::text(&error)));
                    failed.push(program.name);
                }
            }
        }
    }
    match args.json {
        true => output::json(&cases)?,
        false => output::text(&show(&cases))?,
    }
    match failed.is_empty() {
        true => Ok(()),
        false => {
            let what = format!("could not be measured: {}", failed.join(", "));
            Err(failure(what, "messages above say why"))
        }
    }
}

fn told(case: &Case) -> String {
    format!(
        "{} at {}: slower by {}, reported {}, saved {}",
        case.program,
        percent(case.goal),
        percent(case.slowdown.mean),
        percent(case.reported),
        percent(case.saved_share())
    )
}

fn show(cases: &[Case]) -> String {
    let headings =
        ["program", "goal", "slower by", "95 %", "reported", "memory", "saved", "share", "own"];
    let mut table = Table::new(&headings).left(1);
    for case in cases {
        let Case { slowdown, .. } = case;
        table.row(vec![
            case.program.clone(),
            percent(case.goal),
            percent(slowdown.mean),
            format!("{} to {}", percent(slowdown.low), percent(slowdown.high)),
            percent(case.reported),
            bytes(case.footprint_bytes),
            bytes(case.saved_bytes),
            percent(case.saved_share()),
            percent(case.cpu_share),
        ]);
    }
    let count = |of: fn(&Case) -> bool| cases.iter().filter(|case| of(case)).count();
    format!(
        "{}\nat most half a point beyond the goal: {} of {}\nreported within a point: {} of {}\n",
        table.show(0),
        count(Case::keeps),
        cases.len(),
        count(Case::tells),
        cases.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal_live::Share;

    #[test]
    fn a_case_keeps_to_its_goal_or_does_not() {
        let case = |mean, reported| Case {
            program: "p".into(),
            goal: 0.02,
            slowdown: Share { mean, low: mean - 0.001, high: mean + 0.001 },
            reported,
            footprint_bytes: 1e9,
            saved_bytes: 2.5e8,
            cpu_share: 0.01,
        };
        let text = show(&[case(0.024, 0.016), case(0.026, 0.0), case(0.0, 0.005)]);
        assert!(text.contains("goal: 2 of 3") && text.contains("point: 2 of 3"), "{text}");
        assert!(text.contains("25.0"), "{text}");
    }

    #[test]
    fn names_are_known() {
        assert_eq!(chosen(ALL, |program| program.name, &[], UNKNOWN).expect("all").len(), 8);
        let error = chosen(ALL, |program| program.name, &["redos".to_owned()], UNKNOWN)
            .expect_err("there is none");
        assert!(errors::text(&error).contains("redis"));
    }
}
