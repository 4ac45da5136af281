//! `frostline completions`.

use crate::args::Cli;
use clap_complete::Shell;
use frostline_terminal::completions;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  frostline completions bash > /etc/bash_completion.d/frostline
  frostline completions zsh > \"${fpath[1]}/_frostline\"
  frostline completions fish > ~/.config/fish/completions/frostline.fish")]
pub struct Args {
    /// Shell to complete for
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Where standard output cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    completions::print::<Cli>(args.shell)
}
