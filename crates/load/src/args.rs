//! The command line.

use crate::hot_set::Scatter;
use crate::truth;
use clap::{Parser, Subcommand};
use frostline_core::spec::{self, SpecError};
use frostline_core::{Bytes, HUGE_PAGES};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  frostline-load --size 1GiB --hot 20% --cold-rate 500/s --compressible 3 --seconds 120
  frostline-load --masim --size 512MiB --threads 4 --writes 20% --checksums
  frostline-load --size 256MiB --fork-rate 2/s --churn 20/s --checksums --truth load.truth
  frostline-load check --truth load.truth

When the memory is filled, `ready` is printed to standard error. When the time is over, or SIGINT \
or SIGTERM arrives, `done` is printed there, every page is checked and a summary goes to standard output. The exit code is \
1 where any page was not as it had been written, with the page named on standard error.

";

/// Uses memory with a known hot set, and checks that it keeps what was written
///
/// Made to be run under a program that moves memory between tiers: the hot pages are known, every
/// page holds its number, a version and a checksum, and the accesses per second are logged.
#[derive(Debug, Parser)]
#[command(name = "frostline-load", version, max_term_width = 100)]
#[command(after_help = after_help(), args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub load: LoadArgs,
}

fn after_help() -> String {
    format!("{EXAMPLES}{}", truth::FORMAT)
}

/// What else it does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell where the hot pages of a running load are
    Check(CheckArgs),
}

/// Options of `check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// File written by the load
    #[arg(long, value_name = "FILE")]
    pub truth: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of the load.
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// Memory
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = spec::parse_bytes)]
    pub size: Bytes,
    /// Share of the pages that is hot
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = spec::parse_ratio)]
    pub hot: f64,
    /// Accesses to cold pages
    #[arg(long, value_name = "N/s", default_value = "500/s", value_parser = parse_rate)]
    pub cold_rate: f64,
    /// Share of accesses that go to hot pages, instead of a rate of cold ones
    #[arg(long, value_name = "SHARE", conflicts_with = "cold_rate", value_parser = spec::parse_ratio)]
    pub hot_accesses: Option<f64>,
    /// Share of accesses that write the page
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = spec::parse_ratio)]
    pub writes: f64,
    /// How well pages compress: bytes before to bytes after, 1 to 64
    #[arg(long, value_name = "RATIO", default_value = "3", value_parser = parse_compressible)]
    pub compressible: f64,
    /// How long it works, from when the memory is filled
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    pub seconds: f64,
    /// Accesses after which it ends, if that is before the time is over
    #[arg(long, value_name = "N", value_parser = spec::parse_count)]
    pub operations: Option<u64>,
    /// Threads; pages are dealt to them in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Ask for huge pages (otherwise they are declined)
    #[arg(long)]
    pub huge: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How hot pages lie among the others
    #[arg(long, value_enum, default_value = "page")]
    pub scatter: Scatter,
    /// Use another hot set every so often
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub shift: Option<f64>,
    /// Use another hot set after every so many accesses, so that equal work has equal shifts
    #[arg(long, value_name = "N", value_parser = parse_operations, conflicts_with = "shift")]
    pub shift_operations: Option<u64>,
    /// As a program with so many phases: the memory in equal parts, one after the other in use for
    /// an equal share of the time, and nothing else
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1000))]
    #[arg(conflicts_with_all = ["hot", "hot_accesses", "cold_rate", "scatter", "shift", "shift_operations"])]
    pub phases: Option<u16>,
    /// One page of each 2 MiB is in use, the others are not touched after they were filled
    #[arg(long)]
    #[arg(conflicts_with_all = ["hot", "hot_accesses", "cold_rate", "scatter", "phases"])]
    pub masim: bool,
    /// Check all of a page at every access, instead of a part of it
    #[arg(long)]
    pub checksums: bool,
    /// Fork processes that check what they inherit
    #[arg(long, value_name = "N/s", default_value = "0", value_parser = parse_rate)]
    pub fork_rate: f64,
    /// Map, check and unmap further areas of 4 KiB to 4 MiB
    #[arg(long, value_name = "N/s", default_value = "0", value_parser = parse_rate)]
    pub churn: f64,
    /// Reserve so much more address space, of which little is used
    #[arg(long, value_name = "SIZE", value_parser = spec::parse_bytes)]
    pub reserve: Option<Bytes>,
    /// Mappings of which that consists
    #[arg(long, value_name = "N", default_value_t = 1, requires = "reserve")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub reserve_mappings: u32,
    /// Pages of it that are used, evenly apart
    #[arg(long, value_name = "N", default_value_t = 0, requires = "reserve")]
    pub reserve_pages: u32,
    /// Read this file at the start and close it; read it again whenever the hot set changes, and at the
    /// end, and check that it is the same
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Write the accesses of every second: lines of `second,operations`
    #[arg(long, value_name = "FILE")]
    pub throughput_log: Option<PathBuf>,
    /// Write where the pages are and which are hot
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

impl LoadArgs {
    /// With what `--phases` and `--masim` stand for.
    pub fn resolved(self) -> Self {
        if self.masim {
            let hot = 1.0 / f64::from(HUGE_PAGES);
            return Self { hot, scatter: Scatter::Sparse, cold_rate: 0.0, ..self };
        }
        let Some(phases) = self.phases.map(f64::from) else { return self };
        let (hot, shift) = (1.0 / phases, Some(self.seconds / phases));
        Self { hot, shift, scatter: Scatter::First, cold_rate: 0.0, ..self }
    }
}

/// A rate per second: `500/s`, `30/min`, `1/10s`; without a unit it is per second.
fn parse_rate(text: &str) -> Result<f64, SpecError> {
    let (count, span) = text.split_once('/').unwrap_or((text, "s"));
    let span = match span.as_bytes().first() {
        Some(digit) if digit.is_ascii_digit() => spec::parse_duration(span)?,
        _ => spec::parse_duration(&format!("1{span}"))?,
    };
    if span.0 == 0 {
        return Err(SpecError::new(format!("`{text}` is not a rate"), "write a rate as 500/s"));
    }
    Ok(spec::parse_count(count)? as f64 / span.as_secs_f64())
}

/// Seconds, as a number or with a unit.
fn parse_seconds(text: &str) -> Result<f64, SpecError> {
    let seconds = match spec::parse_float(text) {
        Ok(seconds) => seconds,
        Err(_) => spec::parse_duration(text)?.as_secs_f64(),
    };
    if seconds <= 0.0 {
        return Err(SpecError::new(
            format!("`{text}` is no time to work"),
            "give a number of seconds, or a duration as 500ms or 2min",
        ));
    }
    Ok(seconds)
}

fn parse_operations(text: &str) -> Result<u64, SpecError> {
    match spec::parse_count(text)? {
        0 => Err(SpecError::new("after 0 accesses nothing can change", "give a number above 0")),
        count => Ok(count),
    }
}

fn parse_compressible(text: &str) -> Result<f64, SpecError> {
    let ratio = spec::parse_float(text)?;
    if !(1.0..=64.0).contains(&ratio) {
        return Err(SpecError::new(
            format!("pages that compress {text} to 1 cannot be made"),
            "give a ratio within 1 and 64",
        ));
    }
    Ok(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rates_and_times() {
        for (text, rate) in [("500/s", 500.0), ("30/min", 0.5), ("1/10s", 0.1), ("2K", 2000.0)] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in ["", "/s", "5/", "5/0s", "5/x", "-1/s"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert_eq!((parse_seconds("120"), parse_seconds("2min")), (Ok(120.0), Ok(120.0)));
        assert!(parse_seconds("0").is_err() && parse_seconds("-1").is_err());
        assert!(parse_compressible("0.5").is_err() && parse_compressible("3").is_ok());
    }

    #[test]
    fn phases_are_a_hot_set_that_moves_on() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        let load = parse("frostline-load --phases 4 --seconds 60").unwrap().load.resolved();
        assert_eq!((load.hot, load.shift, load.cold_rate), (0.25, Some(15.0), 0.0));
        assert_eq!(load.scatter, Scatter::First);
        assert!(parse("frostline-load --phases 4 --hot 10%").is_err());
        assert!(parse("frostline-load --phases 1").is_err());
    }

    #[test]
    fn masim_uses_a_page_in_each_huge_one() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        let load = parse("frostline-load --masim").unwrap().load.resolved();
        assert_eq!((load.hot, load.cold_rate, load.scatter), (1.0 / 512.0, 0.0, Scatter::Sparse));
        assert!(parse("frostline-load --masim --hot 10%").is_err());
    }

    #[test]
    fn options_of_the_load_and_the_check_are_not_mixed() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("frostline-load --size 1GiB").is_ok());
        assert!(parse("frostline-load check --truth t").is_ok());
        assert!(parse("frostline-load check").is_err());
        assert!(parse("frostline-load --size 1GiB check --truth t").is_err());
    }
}
