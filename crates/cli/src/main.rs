//! The program `frostline`; its code is in the library of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    frostline_cli::main()
}
