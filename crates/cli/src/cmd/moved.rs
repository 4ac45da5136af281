//! Commands that `frostline-repro` has; what names them here stays for one release.

use frostline_terminal::errors::usage;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Args {
    /// What to run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Names the command of the other program.
///
/// # Errors
/// Always.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    Err(error("frostline experiment", "", &args.rest))
}

/// The error for `here`, which is `there` of the other program, with the same `rest`.
pub fn error(here: &str, there: &str, rest: &[String]) -> anyhow::Error {
    let words = ["frostline-repro", there].into_iter().chain(rest.iter().map(String::as_str));
    let command: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    usage(
        format!("{here}: another program does this"),
        format!("{} (cargo install --path repro)", command.join(" ")),
    )
}
