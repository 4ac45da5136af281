//! `frostline compare`.

use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
///
/// # Errors
/// Always, until it is there.
pub fn run(_: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`compare` is not built yet")
}
