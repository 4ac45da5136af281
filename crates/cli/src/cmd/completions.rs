//! `frostline completions`.

use crate::args::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
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
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "frostline", &mut script);
    crate::output::text(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
