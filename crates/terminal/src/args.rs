//! Parts of the command line that programs share.

use crate::{limit, progress};
use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::process::ExitCode;

/// Flags that every subcommand takes.
#[derive(clap::Args)]
pub struct Global {
    /// Print no progress and no notes
    #[arg(short, long, global = true, display_order = 900)]
    pub quiet: bool,
    /// Memory that what is read may take without accounting for it [default: 64MiB]
    #[arg(long, global = true, display_order = 901, hide_short_help = true)]
    #[arg(value_name = "SIZE", value_parser = frostline_core::spec::parse_bytes)]
    pub max_memory: Option<frostline_core::Bytes>,
}

impl Global {
    /// Takes them over, before anything is read or shown.
    pub fn apply(self) {
        progress::set_quiet(self.quiet);
        limit::set(self.max_memory);
    }
}

/// Reads a command line, the program's name in front. Help, version and usage errors are printed here, and come back as the
/// code to exit with, `wrong_usage` for the last.
///
/// # Errors
/// That code.
pub fn parse<C: Parser>(
    args: &[OsString],
    wrong_usage: impl FnOnce() -> u8,
) -> Result<C, ExitCode> {
    C::try_parse_from(args).map_err(|error| {
        // A reader that went away does not make it another outcome.
        let _ = error.print();
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
            _ => ExitCode::from(wrong_usage()),
        }
    })
}
