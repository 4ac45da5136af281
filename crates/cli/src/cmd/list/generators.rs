//! `frostline list generators`.

use super::param::ListedParam;
use frostline_core::spec::SpecError;
use frostline_report::table::Table;
use frostline_terminal::errors::usage;
use frostline_terminal::output;
use frostline_workloads::{GENERATORS, Generator, generator};
use serde::Serialize;
use std::fmt::Write;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline list generators
  frostline list generators zipf
  frostline trace synth zipf:pages=64K:accesses=5M:seed=7 -o z.flt
  frostline compare synth:zipf:pages=64K --policies memtis,first-touch --fast 1:8

Wherever a trace is taken, synth:NAME:key=value... stands for one that is made on the fly, without \
a file. The same description always gives the same accesses.")]
pub(super) struct Args {
    /// Show this generator with its parameters
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    can_be_thinned: bool,
    params: Vec<ListedParam>,
}

/// Lists the generators or shows one.
///
/// # Errors
/// An unknown generator.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match (&args.name, args.json) {
        (Some(name), true) => output::json(&[listed(find(name)?)]),
        (Some(name), false) => output::text(&one(find(name)?)),
        (None, true) => output::json(&GENERATORS.iter().map(listed).collect::<Vec<_>>()),
        (None, false) => {
            let mut table = Table::new(&["generator", "what it does"]).left(2);
            for generator in GENERATORS {
                table.row(vec![generator.name.into(), generator.about.into()]);
            }
            output::text(&table.show(0))
        }
    }
}

/// The generator of a name alone, so that parameters are not silently ignored.
fn find(name: &str) -> anyhow::Result<&'static Generator> {
    let plain = name.strip_prefix("synth:").unwrap_or(name);
    if let Some((plain, _)) = plain.split_once(':') {
        return Err(usage(
            format!("`{name}`: parameters make a trace, and are not listed"),
            format!(
                "`frostline list generators {plain}`, or `frostline trace synth {name} -o FILE`"
            ),
        ));
    }
    generator(plain).ok_or_else(|| {
        let names: Vec<_> = GENERATORS.iter().map(|generator| generator.name).collect();
        SpecError::unknown("generator", plain, &names).into()
    })
}

fn listed(generator: &Generator) -> Listed {
    Listed {
        name: generator.name,
        about: generator.about,
        source: generator.source,
        can_be_thinned: generator.unthinnable.is_none(),
        params: generator.params.iter().map(ListedParam::of).collect(),
    }
}

fn one(generator: &Generator) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: {}", generator.name, generator.about);
    let _ = writeln!(out, "source: {}", generator.source);
    if let Some(why) = generator.unthinnable {
        let _ = writeln!(out, "cannot be thinned: {why}");
    }
    let mut table = Table::new(&["parameter", "default", "meaning"]).left(3);
    for param in generator.params {
        table.row([param.name, param.default, param.about].map(str::to_owned).to_vec());
    }
    let _ = write!(out, "\n{}", table.show(0));
    out
}
