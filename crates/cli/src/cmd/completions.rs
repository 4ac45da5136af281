//! `frostline completions`.

use crate::args::Cli;
use clap_complete::Shell;
use frostline_terminal::completions;
use frostline_terminal::errors::usage;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  frostline completions bash > /etc/bash_completion.d/frostline
  frostline completions zsh > \"${fpath[1]}/_frostline\"
  frostline completions fish > ~/.config/fish/completions/frostline.fish
  frostline completions --man-pages /usr/local/share/man/man1")]
pub struct Args {
    /// Shell to complete for
    #[arg(required_unless_present = "man_pages")]
    shell: Option<Shell>,
    /// Write man pages into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "shell")]
    man_pages: Option<PathBuf>,
}

/// Prints the script, or writes the pages.
///
/// # Errors
/// Where standard output or the folder cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (&args.man_pages, args.shell) {
        (Some(folder), _) => completions::man::<Cli>(folder),
        (None, Some(shell)) => completions::print::<Cli>(shell),
        (None, None) => Err(usage("no shell", "name one: bash, zsh, fish")),
    }
}
