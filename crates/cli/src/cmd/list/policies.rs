//! `frostline list policies`.

use super::param::ListedParam;
use frostline_core::policy::registry::{self, REGISTRY};
use frostline_core::policy::{Entry, Group, pages};
use frostline_report::table::Table;
use frostline_terminal::output;
use serde::Serialize;
use std::fmt::Write;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline list policies
  frostline list policies memtis
  frostline compare s.flt --policies memtis:alpha=0.75:cooling=0.1x

A number may be written outright or as a multiple of the default (0.1x).

Pages have the size with which a policy was published: base (4 KiB), huge (2 MiB) or what the machine
maps. `hybridtier:pages=huge` has another one. Where the machine maps base pages only (thp=off), and
in running programs, whose pages the kernel chooses, all policies have the machine's.")]
pub(super) struct Args {
    /// Show this policy with its parameters
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    group: &'static str,
    pages: &'static str,
    summary: &'static str,
    citation: &'static str,
    params: Vec<ListedParam>,
}

/// Lists the policies or shows one.
///
/// # Errors
/// An unknown policy.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match (&args.name, args.json) {
        (Some(name), true) => output::json(&[listed(registry::find(name)?)]),
        (Some(name), false) => output::text(&one(registry::find(name)?)),
        (None, true) => output::json(&REGISTRY.iter().map(listed).collect::<Vec<_>>()),
        (None, false) => output::text(&all()),
    }
}

fn all() -> String {
    let mut table = Table::new(&["policy", "group", "pages", "what it does"]).left(4);
    for group in Group::ALL {
        for entry in REGISTRY.iter().filter(|entry| entry.group == group) {
            let cells = [entry.name, group.name(), pages::name(entry.pages), entry.summary];
            table.row(cells.map(str::to_owned).to_vec());
        }
    }
    table.show(0)
}

fn one(entry: &'static Entry) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: {}", entry.name, entry.summary);
    let _ = writeln!(out, "group {}; source: {}", entry.group.name(), entry.citation);
    let mut table = Table::new(&["parameter", "default", "unit", "", "meaning"]).left(5);
    for param in listed(entry).params {
        let scaled = if param.scaled { "scaled" } else { "" };
        let default = param.default.unwrap_or_default();
        let cells = [param.name, default, param.unit, scaled, param.about];
        table.row(cells.map(str::to_owned).to_vec());
    }
    let _ = write!(out, "\n{}", table.show(0));
    if entry.params().any(|param| param.scaled) {
        let _ = writeln!(out, "\nscaled: the default is divided by the scale factor of a run");
    }
    out
}

fn listed(entry: &'static Entry) -> Listed {
    Listed {
        name: entry.name,
        group: entry.group.name(),
        pages: pages::name(entry.pages),
        summary: entry.summary,
        citation: entry.citation,
        params: entry.params().map(|param| ListedParam::of(&param)).collect(),
    }
}
