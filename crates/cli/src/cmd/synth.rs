//! `frostline synth`: lists the synthetic workloads, shows one, or writes one to a trace.

use anyhow::Context;
use frostline_core::spec::{Spec, SpecError};
use frostline_report::table::Table;
use frostline_report::units;
use frostline_terminal::errors::usage;
use frostline_terminal::files::write_trace;
use frostline_terminal::{cancel, output, progress};
use frostline_workloads::{GENERATORS, Generator, from_spec, generator};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline synth                                   # the workloads
  frostline synth zipf                              # one, with its parameters
  frostline synth zipf:pages=64K:accesses=5M:seed=7 -o z.flt
  frostline compare synth:zipf:pages=64K --policies memtis,first-touch --fast 1:8

Wherever a trace is taken, synth:NAME:key=value... stands for one that is made on the fly, without \
a file. The same description always gives the same accesses.")]
pub struct Args {
    /// The workload
    #[arg(value_name = "NAME[:key=value...]")]
    workload: Option<String>,
    /// Trace to write; an existing file is overwritten
    #[arg(short, long, value_name = "TRACE", requires = "workload")]
    output: Option<PathBuf>,
    /// List the workloads (the default without a name)
    #[arg(long, conflicts_with_all = ["workload", "output"])]
    list: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "output")]
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

#[derive(Serialize)]
struct ListedParam {
    name: &'static str,
    /// None where it is not set unless given.
    default: Option<&'static str>,
    about: &'static str,
}

/// Runs the command.
///
/// # Errors
/// An unknown workload or parameter, or a trace that cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match (&args.workload, &args.output) {
        (Some(workload), Some(path)) => write(workload, path)?,
        (Some(workload), None) => {
            let generator = find(workload)?;
            match args.json {
                true => output::json(&[listed(generator)])?,
                false => output::text(&one(generator))?,
            }
        }
        (None, _) if args.json => {
            output::json(&GENERATORS.iter().map(listed).collect::<Vec<_>>())?;
        }
        (None, _) => {
            let mut table = Table::new(&["workload", "what it does"]).left(2);
            for generator in GENERATORS {
                table.row(vec![generator.name.into(), generator.about.into()]);
            }
            output::text(&table.show(0))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The generator to be shown; a name alone, so that parameters are not silently ignored.
fn find(workload: &str) -> anyhow::Result<&'static Generator> {
    let name = workload.strip_prefix("synth:").unwrap_or(workload);
    if Spec::parse(name)?.pairs().next().is_some() {
        return Err(usage(
            format!("`{workload}`: where shall the trace go?"),
            format!("add `-o FILE`, or show the parameters by `frostline synth {}`", {
                name.split(':').next().unwrap_or(name)
            }),
        ));
    }
    generator(name).ok_or_else(|| {
        let names: Vec<_> = GENERATORS.iter().map(|generator| generator.name).collect();
        SpecError::unknown("workload", name, &names).into()
    })
}

fn listed(generator: &Generator) -> Listed {
    let params = generator.params.iter().map(|param| ListedParam {
        name: param.name,
        default: (!param.default.is_empty()).then_some(param.default),
        about: param.about,
    });
    Listed {
        name: generator.name,
        about: generator.about,
        source: generator.source,
        can_be_thinned: generator.unthinnable.is_none(),
        params: params.collect(),
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

fn write(workload: &str, path: &Path) -> anyhow::Result<()> {
    let mut source = from_spec(workload)?;
    cancel::install()?;
    let header = source.header().clone();
    let totals = write_trace(&mut *source, path, header.name.raw())?;
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let thinned = match header.thinning {
        1 => String::new(),
        n => format!("; thinned: one stands for {n} accesses"),
    };
    progress::note(&format!(
        "{}: {} records, {}{thinned}",
        path.display(),
        totals.records,
        units::bytes(bytes as f64),
    ));
    Ok(())
}
