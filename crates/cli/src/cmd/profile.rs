//! `frostline trace profile`: what a trace uses of its memory.

use frostline_core::spec::parse_count;
use frostline_profile::{Profile, Span, Summary};
use frostline_report::html;
use frostline_report::table::Table;
use frostline_report::units::{bytes, count, percent};
use frostline_study::{Input, Watched};
use frostline_terminal::errors::usage;
use frostline_terminal::files::write_report;
use frostline_terminal::progress::{self, Screen};
use frostline_terminal::{cancel, limit, output};
use frostline_workloads::initialisation_records;
use serde::Serialize;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline trace profile s.flt
  frostline trace profile s.flt --skip 2M --report s.html
  frostline trace profile synth:ycsb-c --json

How much memory serves a share of the accesses is said for memory that keeps what was used last
(LRU), page by page. It needs no machine and no policy, and is no bound: better placements exist.")]
pub struct Args {
    /// File, or synth:NAME:key=value...
    trace: String,
    /// Leave out so many records at the start; what they touch is in memory when the others begin
    /// [default: 0; of a generated trace, its initialisation]
    #[arg(long, value_name = "N", value_parser = count_of)]
    skip: Option<u64>,
    /// Look at so many records and no more
    #[arg(long, value_name = "N", value_parser = count_of)]
    records: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a report with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Serialize)]
struct Printed<'a> {
    trace: &'a str,
    #[serde(flatten)]
    summary: Summary,
}

/// `4M`, `1e8`.
fn count_of(text: &str) -> Result<u64, String> {
    parse_count(text).map_err(|error| error.what)
}

/// Runs the command.
///
/// # Errors
/// A trace that cannot be read, or has no records where we look.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let profile = profile_of(&args.trace, args.skip, args.records)?;
    if let Some(path) = &args.report {
        write_report(path, &html::profile(&args.trace, &profile))?;
    }
    let summary = profile.summary();
    if args.json {
        output::json(&[Printed { trace: &args.trace, summary }])
    } else {
        output::text(&text(&args.trace, &summary))
    }
}

/// Profile of a trace behind `skip` records, or else behind what a generator does first.
///
/// # Errors
/// As [`run`].
pub(super) fn profile_of(
    trace: &str,
    skip: Option<u64>,
    records: Option<u64>,
) -> anyhow::Result<Profile> {
    let input = Input::open(trace, 1, limit::current(), &Screen)?;
    let skip = match skip {
        Some(skip) => skip,
        None if trace.starts_with("synth:") => initialisation_records(trace)?,
        None => 0,
    };
    let mut source = Watched::new(input.source()?, trace, None, &Screen);
    let profile = Profile::of(&mut source, Span { skip, records }, |_| true)?;
    cancel::check()?;
    if let Some(warning) = frostline_trace::TraceSource::warning(&source) {
        progress::note(&format!("warning: {warning}"));
    }
    if profile.records() == 0 {
        let seen = profile.left_out();
        return Err(usage(
            format!("{trace}: there is nothing behind the first {seen} records"),
            "leave out fewer with --skip",
        ));
    }
    Ok(profile)
}

fn text(trace: &str, summary: &Summary) -> String {
    let left_out = match summary.left_out {
        0 => String::new(),
        n => format!(", after {} that were left out", count(n as f64)),
    };
    let mut facts = Table::new(&[trace, ""]).left(2);
    let mut fact = |name: &str, value: String| facts.row(vec![name.to_owned(), value]);
    fact("records", format!("{}{left_out}", count(summary.records as f64)));
    fact("written", percent(summary.written));
    let (touched, pages) = (bytes(summary.bytes as f64), count(summary.pages as f64));
    fact("touched", format!("{touched}: {pages} pages in {} regions of 2 MiB", summary.regions));
    let first = summary.first_touches as f64 / summary.records as f64;
    fact("first touches", format!("{} of the records", percent(first)));
    let of_512 = |share: f64| format!("{:.0} of its 512 pages", share * 512.0);
    fact("a region uses", format!("{}, on average over accesses", of_512(summary.touched_share)));
    fact("90 % of it on", of_512(summary.busy_share));

    let mut memory = Table::new(&["accesses served", "memory (LRU)", "of what is touched"]);
    for row in &summary.memory {
        let size = row.bytes.map_or("-".into(), |size| bytes(size as f64));
        let of = row.bytes.map_or("-".into(), |size| percent(size as f64 / summary.bytes as f64));
        memory.row(vec![percent(row.served), size, of]);
    }
    let mut popularity = Table::new(&["hottest pages", "take of the accesses"]);
    for row in &summary.popularity {
        popularity.row(vec![percent(row.of_pages), percent(row.of_accesses)]);
    }
    format!("{}\n{}\n{}", facts.show(0), memory.show(0), popularity.show(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        assert_eq!(count_of("2M"), Ok(2_000_000));
        assert!(count_of("two").is_err());
    }
}
