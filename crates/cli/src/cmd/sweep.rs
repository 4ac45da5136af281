//! `frostline sweep`: hands over to the program of that name in the Python package.

use frostline_terminal::errors::failure;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const PROGRAM: &str = "frostline-sweep";

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What that program takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes that program: the one beside this, as the package installs both, else the one in PATH.
///
/// # Errors
/// Where there is none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(program).args(args.words).exec();
    Err(failure(
        format!("cannot run {PROGRAM}: {error}"),
        "it comes with the Python package: pip install 'frostline[tables,cluster]'",
    ))
}
