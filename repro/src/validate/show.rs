//! Distances as a table and as JSON.

use super::pairs::{Found, Nothing, Pair, Verdict};
use frostline_profile::{Distance, Profile, Summary};
use frostline_report::table::Table;
use frostline_report::units::count;
use frostline_terminal::errors;
use serde::Serialize;
use std::fmt::Write;

/// One pair in JSON.
#[derive(Serialize)]
pub struct Row<'a> {
    workload: &'static str,
    program: &'static str,
    package: &'static str,
    version: Option<&'a str>,
    /// What is not installed.
    missing: Option<&'a str>,
    /// Why it could not be recorded.
    failed: Option<String>,
    generator: Option<&'a str>,
    distance: Option<Distance>,
    verdict: Option<Verdict>,
    recorded: Option<Summary>,
    generated: Option<Summary>,
}

/// A pair as it goes into JSON.
pub fn row(pair: &Pair) -> Row<'_> {
    let found = pair.outcome.as_ref().ok();
    let made = found.and_then(|found| found.made.as_ref());
    Row {
        workload: pair.program.name,
        program: pair.program.program,
        package: pair.program.package,
        version: found.map(|found| found.version.as_str()),
        missing: match &pair.outcome {
            Err(Nothing::Missing(missing)) => Some(missing),
            _ => None,
        },
        failed: match &pair.outcome {
            Err(Nothing::Failed(error)) => Some(errors::text(error)),
            _ => None,
        },
        generator: made.map(|made| made.generator.as_str()),
        distance: made.map(|made| made.distance),
        verdict: made.map(|made| made.verdict),
        recorded: found.map(|found| found.real.summary()),
        generated: made.map(|made| made.profile.summary()),
    }
}

/// Over the columns of [`rows`].
pub const HEADINGS: [&str; 11] = [
    "workload",
    "program",
    "records",
    "pages",
    "generated",
    "miss curve",
    "popularity",
    "huge pages",
    "misses",
    "made",
    "verdict",
];

/// A row of text for each pair.
pub fn rows(pairs: &[Pair]) -> Vec<Vec<String>> {
    pairs
        .iter()
        .map(|pair| match &pair.outcome {
            Ok(found) => cells(pair, found),
            Err(nothing) => {
                let mut cells = vec![pair.program.name.to_owned(), pair.program.program.to_owned()];
                cells.resize(HEADINGS.len() - 1, "-".to_owned());
                cells.push(match nothing {
                    Nothing::Missing(missing) => format!("missing: {}", command_of(missing)),
                    Nothing::Failed(_) => "failed".to_owned(),
                });
                cells
            }
        })
        .collect()
}

/// All of them for people.
pub fn text(pairs: &[Pair]) -> String {
    // What is missing is longer than any other verdict, which must not push the table apart.
    let mut table = Table::new(&HEADINGS[..HEADINGS.len() - 1]).left(2);
    let mut verdicts = vec![String::new()];
    for mut row in rows(pairs) {
        verdicts.extend(row.pop());
        table.row(row);
    }
    let mut out = String::new();
    for (line, verdict) in table.show(0).lines().zip(verdicts) {
        let _ = writeln!(out, "{}", format!("{line}  {verdict}").trim_end());
    }
    let [close, fair] = Verdict::LIMITS;
    let _ = write!(
        out,
        "\nDistances from 0 (alike) to 1: mean difference of LRU miss ratios, largest difference of\n\
         what the hottest pages take, difference in use of huge pages. The worst of them is close\n\
         up to {close}, fair up to {fair}, off above. Misses are accesses that wait for memory, per 1000\n\
         instructions of the program, and of what stands for it.\n"
    );
    out
}

/// The command that helps, of "what: command".
fn command_of(missing: &str) -> &str {
    missing.split_once(": ").map_or(missing, |(_, command)| command)
}

fn cells(pair: &Pair, found: &Found) -> Vec<String> {
    let mut cells = vec![
        pair.program.name.to_owned(),
        format!("{} {}", pair.program.program, found.version),
        count(found.real.records() as f64),
        count(found.real.pages() as f64),
    ];
    match &found.made {
        None => {
            cells.extend(["-"; 4].map(str::to_owned));
            cells.push(format!("{:.1}", found.real.per_thousand()));
            cells.extend(["-", "recorded only"].map(str::to_owned));
        }
        Some(made) => {
            cells.push(count(made.profile.pages() as f64));
            let distance = &made.distance;
            let three = [distance.miss_curve, distance.popularity, distance.utilisation];
            cells.extend(three.map(|d| format!("{d:.3}")));
            let both = [&found.real, &made.profile].map(Profile::per_thousand);
            cells.extend(both.map(|misses| format!("{misses:.1}")));
            cells.push(made.verdict.word().to_owned());
        }
    }
    cells
}
