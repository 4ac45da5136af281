//! `frostline doctor --undo`: undoes what a frostline that was killed had changed.

use frostline_inprocess::consolidate::request;
use frostline_linux::Root;
use frostline_linux::changes::{SwapOff, restore};
use frostline_terminal::errors::failure;
use frostline_terminal::output;
use std::process::ExitCode;

/// Undoes it; `swap_off` brings pages back from our swap devices where they fit into free memory.
///
/// # Errors
/// Where rights are missing, or something must stay for now.
pub fn run(swap_off: bool, json: bool) -> anyhow::Result<ExitCode> {
    let swap_off = if swap_off { SwapOff::WhenItFits } else { SwapOff::WhenUnused };
    let root = Root::system();
    request::sweep(&root);
    let done = restore(&root, swap_off)?;
    if json {
        output::json(&[&done])?;
    } else {
        for what in &done.undone {
            output::text(&format!("undone: {what}\n"))?;
        }
        for kept in &done.kept {
            output::text(&format!("left: {}: {}\n", kept.what, kept.why))?;
        }
        if done.undone.is_empty() && done.kept.is_empty() {
            output::text("nothing to undo\n")?;
        }
    }
    if done.kept.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(failure(
        "some changes had to stay",
        "end the programs whose pages are in swap and repeat, or give --swap-off",
    ))
}
