//! Completion scripts for shells, and man pages: both from the definition of the command line.

use crate::output;
use crate::progress::note;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;
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

/// Writes a man page for the program whose command line `C` is, and one for each command of it, into a
/// folder, which is made where it is missing.
///
/// # Errors
/// Where a page cannot be written.
pub fn man<C: CommandFactory>(folder: &Path) -> anyhow::Result<ExitCode> {
    let cannot = || format!("cannot write man pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(cannot)?;
    let command = C::command().disable_help_subcommand(true);
    let name = command.get_name().to_owned();
    clap_mangen::generate_to(command, folder).with_context(cannot)?;
    note(&format!("{}: {name}.1 and a page for each command", folder.display()));
    Ok(ExitCode::SUCCESS)
}
