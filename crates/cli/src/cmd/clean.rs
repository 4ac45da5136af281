//! `frostline clean`: undoes what a frostline that was killed had changed.

use frostline_driver::consolidate::request;
use frostline_linux::Root;
use frostline_linux::changes::{SwapOff, restore};
use frostline_terminal::errors::failure;
use frostline_terminal::output;
use std::process::ExitCode;

/// What `--help` says first.
pub const LONG: &str = "\
Undoes changes to the system whose frostline no longer runs: kernel settings, zram devices. What \
other frostlines rely on is left alone, and so is a swap device on which there are pages of \
running programs, unless they fit into free memory and --swap-off is given.";

#[derive(clap::Args)]
pub struct Args {
    /// Bring pages back from swap devices that we set up, if there is enough free memory
    #[arg(long)]
    swap_off: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where rights are missing, or something must stay for now.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let swap_off = if args.swap_off { SwapOff::WhenItFits } else { SwapOff::WhenUnused };
    let root = Root::system();
    request::sweep(&root);
    let done = restore(&root, swap_off)?;
    if args.json {
        output::json(&[&done])?;
    } else {
        for what in &done.undone {
            output::text(&format!("undone: {what}\n"))?;
        }
        for kept in &done.kept {
            output::text(&format!("left: {}: {}\n", kept.what, kept.why))?;
        }
        if done.undone.is_empty() && done.kept.is_empty() {
            output::text("nothing to clean\n")?;
        }
    }
    if done.kept.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(failure("some changes had to stay", "end the programs whose pages are in swap, and repeat"))
}
