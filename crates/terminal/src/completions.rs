//! Completion scripts for shells.

use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

/// Prints the script for the program whose command line `C` is.
///
/// # Errors
/// Where standard output cannot be written.
pub fn print<C: CommandFactory>(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut command = C::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    output::text(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
