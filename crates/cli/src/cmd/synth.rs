//! `frostline trace synth`: writes a synthetic trace to a file.

use anyhow::Context;
use frostline_report::units;
use frostline_terminal::errors::usage;
use frostline_terminal::files::write_trace;
use frostline_terminal::progress;
use frostline_workloads::from_spec;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline trace synth zipf:pages=64K:accesses=5M:seed=7 -o z.flt
  frostline compare synth:zipf:pages=64K --policies memtis,first-touch --fast 1:8

Wherever a trace is taken, synth:NAME:key=value... stands for one that is made on the fly, without \
a file. The same description always gives the same accesses. `frostline list generators` lists them.")]
pub struct Args {
    /// The generator
    #[arg(value_name = "NAME[:key=value...]")]
    generator: String,
    /// Trace to write; an existing file is overwritten
    #[arg(short, long, value_name = "TRACE")]
    output: Option<PathBuf>,
}

/// Writes the trace.
///
/// # Errors
/// An unknown generator or parameter, or a trace that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    // What is wrong about the description is said first.
    let mut source = from_spec(&args.generator)?;
    let path = args
        .output
        .as_ref()
        .ok_or_else(|| usage("there is no trace to write", "name it: -o FILE.flt"))?;
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
