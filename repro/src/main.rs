//! `frostline-repro`: what it does is in the library beside this.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    frostline_repro::main()
}
