//! `frostline-repro list`.

use crate::experiment::file::Experiment;
use frostline_report::table::Table;
use frostline_terminal::output;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// A folder of other ones [default: those that come with the program]
    folder: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// A folder that cannot be read, or a file in it that is no experiment.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut table = Table::new(&["file", "paper", "what it shows"]).left(3);
    let paths = match &args.folder {
        Some(folder) => Experiment::files(folder)?,
        None => Experiment::names(),
    };
    for path in paths {
        let experiment = Experiment::read(&path)?;
        table.row(vec![path.display().to_string(), experiment.paper, experiment.title]);
    }
    output::text(&table.show(0))
}
