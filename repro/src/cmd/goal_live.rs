//! `frostline-repro goal-live`.

use crate::goal_live::attendant::Kind;
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
  frostline-repro goal-live --by frostline,senpai --max-slowdown 2%

Each program runs twice on the last core. Both work in turn for some milliseconds; frostline, or Senpai's rule,
attends to one of them. What it needs more for the same work is the slowdown. Needs root and zram. What is not installed is
named with the command that installs it, and left out.")]
pub struct Args {
    /// Programs [default: all that are installed]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Slowdowns that are accepted, separated by commas
    #[arg(long, default_value = "1%,2%,5%", value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = spec::parse_ratio)]
    max_slowdown: Vec<f64>,
    /// What takes memory from the programs, separated by commas
    #[arg(long, default_value = "frostline", value_name = "LIST", value_delimiter = ',')]
    by: Vec<Kind>,
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
        let cases_of = |goal: &f64| args.by.iter().map(|by| (*goal, *by)).collect::<Vec<_>>();
        for (goal, by) in args.max_slowdown.iter().flat_map(cases_of) {
            match measure(program, goal, by, spans, &frostline) {
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
        "{} at {} by {}: slower by {}, reported {}, saved {}",
        case.program,
        percent(case.goal),
        case.by,
        percent(case.slowdown.mean),
        percent(case.reported),
        percent(case.saved_share())
    )
}

fn show(cases: &[Case]) -> String {
    let headings = [
        "program",
        "by",
        "goal",
        "slower by",
        "95 %",
        "reported",
        "memory",
        "saved",
        "share",
        "own",
    ];
    let mut table = Table::new(&headings).left(2);
    for case in cases {
        let Case { slowdown, .. } = case;
        table.row(vec![
            case.program.clone(),
            case.by.clone(),
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
    let by = |kind: Kind| cases.iter().filter(move |case| case.by == kind.name());
    let ours = by(Kind::Frostline).count();
    let count = |of: fn(&Case) -> bool| by(Kind::Frostline).filter(|case| of(case)).count();
    let mut text = format!(
        "{}\nfrostline: at most half a point beyond the goal: {} of {ours}; reported within a point: {} of {ours}\n",
        table.show(0),
        count(Case::keeps),
        count(Case::tells),
    );
    let pairs = by(Kind::Frostline).flat_map(|case| {
        by(Kind::Senpai).filter(|other| other.asks_as_much_as(case)).map(move |other| (case, other))
    });
    let pairs: Vec<(&Case, &Case)> = pairs.collect();
    if !pairs.is_empty() {
        let saves = |(case, other): &&(&Case, &Case)| case.saved_share() >= other.saved_share();
        let more = pairs.iter().filter(saves).count();
        text += &format!("saved no less than by senpai: {more} of {}\n", pairs.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal_live::Share;

    #[test]
    fn a_case_keeps_to_its_goal_or_does_not() {
        let case = |mean, reported| Case {
            program: "p".into(),
            by: "frostline".into(),
            goal: 0.02,
            slowdown: Share { mean, low: mean - 0.001, high: mean + 0.001 },
            reported,
            footprint_bytes: 1e9,
            saved_bytes: 2.5e8,
            cpu_share: 0.01,
        };
        let text = show(&[case(0.024, 0.016), case(0.026, 0.0), case(0.0, 0.005)]);
        assert!(
            text.contains("goal: 2 of 3")
                && text.contains("point: 2 of 3")
                && !text.contains("senpai"),
            "{text}"
        );
        assert!(text.contains("25.0"), "{text}");
        let by_senpai = Case { by: "senpai".into(), saved_bytes: 3e8, ..case(0.0, 0.0) };
        let other = Case { program: "q".into(), ..by_senpai.clone() };
        let text = show(&[case(0.024, 0.016), by_senpai, other]);
        assert!(text.contains("goal: 1 of 1") && text.contains("senpai: 0 of 1"), "{text}");
    }

    #[test]
    fn names_are_known() {
        assert_eq!(chosen(ALL, |program| program.name, &[], UNKNOWN).expect("all").len(), 8);
        let error = chosen(ALL, |program| program.name, &["redos".to_owned()], UNKNOWN)
            .expect_err("there is none");
        assert!(errors::text(&error).contains("redis"));
    }
}
