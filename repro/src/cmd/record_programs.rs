//! `frostline-repro record-programs`.

use crate::names::chosen;
use crate::validate::programs::{ALL, Program, Recording, store};
use anyhow::Context;
use frostline_report::table::Table;
use frostline_terminal::errors::{self, failure};
use frostline_terminal::{cancel, output, progress};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frostline-repro record-programs -o programs              # all that are installed; minutes each
  frostline-repro record-programs -o programs redis sqlite
  frostline-repro tournament -o t.jsonl --programs programs

Programs run on inputs made from seeds, as `validate` runs them, which also keeps their recordings.
What is not installed is named with the command that installs it, and left out.")]
pub struct Args {
    /// Programs by the names of their recordings [default: all that are installed]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Folder that recordings go to; those that it has are not made again
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Where recordings are kept, and looked for before recording [default: the user's cache]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// Records what is there, and says what is not.
///
/// # Errors
/// A name that is not known, a stop, and, after all others, a program that could not be recorded.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let programs =
        chosen(ALL, |program| program.recording, &args.names, ": there is no recipe for it")?;
    let keep = args.keep.clone().map_or_else(store::folder, Ok)?;
    let making = || format!("cannot make {}", args.output.display());
    std::fs::create_dir_all(&args.output).with_context(making)?;
    let mut table = Table::new(&["recording", "program", "outcome"]).left(3);
    let mut failed = Vec::new();
    for program in programs {
        let outcome = match program.missing() {
            Some(missing) => {
                let (_, command) = missing.split_once(": ").unwrap_or(("", &missing));
                format!("missing: {command}")
            }
            None => match record(program, &keep, &args.output) {
                Ok(outcome) => outcome,
                Err(error) => {
                    cancel::check()?;
                    progress::note(&format!("{}: {}", program.recording, errors::text(&error)));
                    failed.push(program.recording);
                    "failed".to_owned()
                }
            },
        };
        progress::note(&format!("{}: {outcome}", program.recording));
        table.row(vec![program.recording.to_owned(), program.program.to_owned(), outcome]);
    }
    output::text(&table.show(0))?;
    match failed.is_empty() {
        true => Ok(()),
        false => {
            let what = format!("could not be recorded: {}", failed.join(", "));
            Err(failure(what, "the others play without them; messages above say why"))
        }
    }
}

/// Records the program, or takes what is kept, and copies it to the folder; says what came of it.
fn record(program: &Program, keep: &Path, folder: &Path) -> anyhow::Result<String> {
    let path = folder.join(format!("{}.flt", program.recording));
    if path.is_file() {
        return Ok("is there already".to_owned());
    }
    let bar = progress::bar(&format!("recording {}", program.program), "accesses", None);
    let recording = program.record(keep, &mut |at| bar.set_position(at.records));
    bar.finish_and_clear();
    let Recording { path: kept, version, .. } = recording?;
    // Under another name first: half of a copy would be taken for a recording.
    let half = path.with_extension("part");
    std::fs::copy(&kept, &half).with_context(|| half.display().to_string())?;
    std::fs::rename(&half, &path).with_context(|| path.display().to_string())?;
    let bytes = path.metadata().map_or(0, |meta| meta.len());
    Ok(format!("version {version}, {}", frostline_report::units::bytes(bytes as f64)))
}
