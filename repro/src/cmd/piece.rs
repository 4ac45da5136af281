//! `frostline-repro piece`: a piece of an experiment, for whoever shares one out.

use super::effort::EffortArgs;
use crate::experiment::file::Experiment;
use crate::experiment::{kept, piece};
use crate::parallel::Together;
use frostline_terminal::errors::failure;
use frostline_terminal::{cancel, output};
use std::io::Read;

#[derive(clap::Args)]
pub struct Args {
    /// Its number, in the order of the file: by machine, workload and seed
    number: usize,
    /// Digest of all that determines it, this program included
    #[arg(long)]
    key: String,
    #[command(flatten)]
    effort: EffortArgs,
}

/// Runs the command: the experiment comes from standard input.
///
/// # Errors
/// A text that is no experiment, a piece that is another one here, or a run that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    cancel::install()?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let experiment = Experiment::parse("standard input", &text)?;
    let pieces = piece::pieces(&experiment, args.effort.effort(false))?;
    let found = pieces.get(args.number);
    let build = crate::build()?;
    let key = found.map(|piece| piece.key(&build)).transpose()?;
    let (Some(piece), true) = (found, key.as_deref() == Some(&args.key)) else {
        let hint =
            "have the same program everywhere, and traces that are recorded in the same places";
        return Err(failure(format!("piece {} is another one here", args.number), hint));
    };
    let played = piece.play(&Together::default())?;
    output::text(&kept::text(&played, experiment.wants_every_series())?)
}
